//! core/v1: env.

mod rules;

use macros::api;
use object::Quantity;

pub(crate) use self::rules::{DOWNWARD_API_VOLUME_FIELDS, check_env, check_env_from};

#[api]
pub struct EnvVar {
    /// Name of the variable.
    name: Must<String>,
    /// Value of the variable. $(NAME) is replaced by the variable NAME; $$(NAME) escapes it.
    value: String,
    /// Source of the value, instead of value.
    value_from: Option<EnvVarSource>,
}

#[api]
pub struct EnvVarSource {
    /// A field of the pod, such as metadata.name or status.podIP.
    field_ref: Option<ObjectFieldSelector>,
    /// A resource request or limit of a container, such as limits.cpu.
    resource_field_ref: Option<ResourceFieldSelector>,
    /// A key of a ConfigMap.
    config_map_key_ref: Option<ConfigMapKeySelector>,
    /// A key of a Secret.
    secret_key_ref: Option<SecretKeySelector>,
    /// A variable of an env file in a volume.
    file_key_ref: Option<FileKeySelector>,
}

#[api(atomic)]
pub struct FileKeySelector {
    /// Volume with the file.
    volume_name: Must<String>,
    /// Path of the file in the volume.
    path: Must<String>,
    /// Name of the variable in the file.
    key: Must<String>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    #[api(default = false)]
    optional: Option<bool>,
}

#[api(atomic)]
pub struct ObjectFieldSelector {
    /// API version that fieldPath is written for, v1 by default.
    #[api(default = "v1", unpublished_default)]
    api_version: String,
    /// Path of the field, such as metadata.namespace.
    field_path: Must<String>,
}

#[api(atomic)]
pub struct ResourceFieldSelector {
    /// Name of the container; required in volumes.
    container_name: String,
    /// Resource to select, such as requests.memory.
    resource: Must<String>,
    /// Unit of the value, 1 by default.
    divisor: Quantity,
}

#[api(atomic)]
pub struct ConfigMapKeySelector {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Key of the ConfigMap.
    key: Must<String>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
}

#[api(atomic)]
pub struct LocalObjectReference {
    /// The name of the object.
    #[api(default = "")]
    name: String,
}

#[api(atomic)]
pub struct SecretKeySelector {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Key of the Secret.
    key: Must<String>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
}

#[api]
pub struct EnvFromSource {
    /// Text that is put before each key to make the variable's name.
    prefix: String,
    /// ConfigMap to take the variables from.
    config_map_ref: Option<ConfigMapEnvSource>,
    /// Secret to take the variables from.
    secret_ref: Option<SecretEnvSource>,
}

#[api]
pub struct ConfigMapEnvSource {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
}

#[api]
pub struct SecretEnvSource {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
}
