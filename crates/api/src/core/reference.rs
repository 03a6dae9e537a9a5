//! core/v1: reference.

use macros::api;
use object::Value;

#[api(atomic)]
pub struct ObjectReference {
    /// Of the object.
    #[api(tag = 1)]
    kind: String,
    /// Of the object.
    #[api(tag = 2)]
    namespace: String,
    /// Of the object.
    #[api(tag = 3)]
    name: String,
    /// Of the object.
    #[api(tag = 4, go = "types.UID")]
    uid: String,
    /// Group and version of the object.
    #[api(tag = 5)]
    api_version: String,
    /// The version of the object that is meant.
    #[api(tag = 6)]
    resource_version: String,
    /// The part of the object that is meant.
    #[api(tag = 7)]
    field_path: String,
}

#[api(atomic)]
pub struct TypedLocalObjectReference {
    #[api(tag = 1, always)]
    api_group: Option<String>,
    #[api(tag = 2, required, always)]
    kind: String,
    #[api(tag = 3, required, always)]
    name: String,
}

#[api]
pub struct TypedObjectReference {
    #[api(tag = 1, always)]
    api_group: Option<String>,
    #[api(tag = 2, required, always)]
    kind: String,
    #[api(tag = 3, required, always)]
    name: String,
    #[api(tag = 4)]
    namespace: Option<String>,
}

#[api(atomic)]
pub struct SecretReference {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    namespace: String,
}

impl ObjectReference {
    /// `pod/web`, as tables show it.
    pub(crate) fn cell(&self) -> Value {
        let kind = self.kind().to_lowercase();
        if self.name().is_empty() { kind.into() } else { format!("{kind}/{}", self.name()).into() }
    }
}
