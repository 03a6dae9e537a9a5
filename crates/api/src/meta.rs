//! Shared small types of the API machinery.

use macros::api;
use object::List;

#[api]
pub struct FieldSelectorRequirement {
    /// The field, as a selector names it.
    #[api(required, always)]
    key: String,
    /// How the value is compared: In, NotIn, Exists or DoesNotExist.
    #[api(required, always, go = "v1.FieldSelectorOperator")]
    operator: String,
    /// What it is compared with.
    values: List<String>,
}

#[api]
pub struct GroupResource {
    /// The group.
    #[api(required, always)]
    group: String,
    /// The resource, in the plural.
    #[api(required, always)]
    resource: String,
}
