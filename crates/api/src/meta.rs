//! Shared small types of the API machinery.

use macros::api;
use object::List;

#[api]
pub struct FieldSelectorRequirement {
    /// The field, as a selector names it.
    key: Must<String>,
    /// How the value is compared: In, NotIn, Exists or DoesNotExist.
    #[api(go_type = "v1.FieldSelectorOperator")]
    operator: Must<String>,
    /// What it is compared with.
    values: List<String>,
}

#[api]
pub struct GroupResource {
    /// The group.
    group: Must<String>,
    /// The resource, in the plural.
    resource: Must<String>,
}
