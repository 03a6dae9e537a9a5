//! core/v1: reference.

use macros::api;
use object::Value;

#[api(atomic)]
pub struct ObjectReference {
    /// Kind of the object.
    kind: String,
    /// Namespace of the object.
    namespace: String,
    /// Name of the object.
    name: String,
    /// UID of the object.
    #[api(go_type = "types.UID")]
    uid: String,
    /// API group and version of the object.
    api_version: String,
    /// Resource version of the object that is meant.
    resource_version: String,
    /// Part of the object that is meant, such as spec.containers{name}.
    field_path: String,
}

#[api(atomic)]
pub struct TypedLocalObjectReference {
    /// API group of the kind; empty for the core group.
    #[api(no_omitempty)]
    api_group: Option<String>,
    /// The kind.
    kind: Must<String>,
    /// The name.
    name: Must<String>,
}

#[api]
pub struct TypedObjectReference {
    /// API group of the kind; empty for the core group.
    #[api(no_omitempty)]
    api_group: Option<String>,
    /// The kind.
    kind: Must<String>,
    /// The name.
    name: Must<String>,
    /// The namespace; the same one when absent.
    namespace: Option<String>,
}

#[api(atomic)]
pub struct SecretReference {
    /// The name of the secret.
    name: String,
    /// The namespace of the secret.
    namespace: String,
}

impl ObjectReference {
    /// `pod/web`, as tables show it.
    pub(crate) fn cell(&self) -> Value {
        let kind = self.kind().to_lowercase();
        if self.name().is_empty() { kind.into() } else { format!("{kind}/{}", self.name()).into() }
    }
}
