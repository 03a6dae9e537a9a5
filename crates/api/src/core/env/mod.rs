//! core/v1: env.

mod rules;

use macros::api;
use object::Quantity;

pub(crate) use self::rules::{VOLUME_FIELDS, check_env, check_env_from};

#[api]
pub struct EnvVar {
    /// Of the variable.
    name: Must<String>,
    /// With $(NAME) for the values of others.
    value: String,
    /// Where the value is taken from instead.
    value_from: Option<EnvVarSource>,
}

#[api]
pub struct EnvVarSource {
    /// A field of the pod.
    field_ref: Option<ObjectFieldSelector>,
    /// A resource of the container.
    resource_field_ref: Option<ResourceFieldSelector>,
    /// A key of a ConfigMap.
    config_map_key_ref: Option<ConfigMapKeySelector>,
    /// A key of a Secret.
    secret_key_ref: Option<SecretKeySelector>,
    /// A key in a file of a volume.
    file_key_ref: Option<FileKeySelector>,
}

#[api(atomic)]
pub struct FileKeySelector {
    /// The volume with the file.
    volume_name: Must<String>,
    /// The file in the volume.
    path: Must<String>,
    /// The variable in the file.
    key: Must<String>,
    /// Whether it may be missing.
    #[api(default = false)]
    optional: Option<bool>,
}

#[api(atomic)]
pub struct ObjectFieldSelector {
    /// The version that the path is one of.
    #[api(default = "v1", implied)]
    api_version: String,
    /// The field of the pod.
    field_path: Must<String>,
}

#[api(atomic)]
pub struct ResourceFieldSelector {
    /// The container; needed in volumes.
    container_name: String,
    /// The limit or request.
    resource: Must<String>,
    /// The unit that it is told in.
    divisor: Quantity,
}

#[api(atomic)]
pub struct ConfigMapKeySelector {
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// The key in the map.
    key: Must<String>,
    /// Whether it may be missing.
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
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// The key in the secret.
    key: Must<String>,
    /// Whether it may be missing.
    optional: Option<bool>,
}

#[api]
pub struct EnvFromSource {
    /// What the names of the variables begin with.
    prefix: String,
    /// The map.
    config_map_ref: Option<ConfigMapEnvSource>,
    /// The secret.
    secret_ref: Option<SecretEnvSource>,
}

#[api]
pub struct ConfigMapEnvSource {
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Whether it may be missing.
    optional: Option<bool>,
}

#[api]
pub struct SecretEnvSource {
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Whether it may be missing.
    optional: Option<bool>,
}
