//! Shared small types of the API machinery.

use macros::api;
use object::List;

#[api]
pub struct FieldSelectorRequirement {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2, required, always, go = "v1.FieldSelectorOperator")]
    operator: String,
    #[api(tag = 3)]
    values: List<String>,
}

#[api]
pub struct GroupResource {
    #[api(tag = 1, required, always)]
    group: String,
    #[api(tag = 2, required, always)]
    resource: String,
}
