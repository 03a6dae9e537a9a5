//! core/v1: env.

mod rules;

use macros::api;
use object::Quantity;

pub(crate) use self::rules::{VOLUME_FIELDS, check_env, check_env_from};

#[api]
pub struct EnvVar {
    /// Of the variable.
    #[api(tag = 1, required, always)]
    name: String,
    /// With $(NAME) for the values of others.
    #[api(tag = 2)]
    value: String,
    /// Where the value is taken from instead.
    #[api(tag = 3)]
    value_from: Option<EnvVarSource>,
}

#[api]
pub struct EnvVarSource {
    /// A field of the pod.
    #[api(tag = 1)]
    field_ref: Option<ObjectFieldSelector>,
    /// A resource of the container.
    #[api(tag = 2)]
    resource_field_ref: Option<ResourceFieldSelector>,
    /// A key of a ConfigMap.
    #[api(tag = 3)]
    config_map_key_ref: Option<ConfigMapKeySelector>,
    /// A key of a Secret.
    #[api(tag = 4)]
    secret_key_ref: Option<SecretKeySelector>,
    /// A key in a file of a volume.
    #[api(tag = 5)]
    file_key_ref: Option<FileKeySelector>,
}

#[api(atomic)]
pub struct FileKeySelector {
    #[api(tag = 1, required, always)]
    volume_name: String,
    #[api(tag = 2, required, always)]
    path: String,
    #[api(tag = 3, required, always)]
    key: String,
    #[api(tag = 4, default = false)]
    optional: Option<bool>,
}

#[api(atomic)]
pub struct ObjectFieldSelector {
    #[api(tag = 1, default = "v1", implied)]
    api_version: String,
    #[api(tag = 2, required, always)]
    field_path: String,
}

#[api(atomic)]
pub struct ResourceFieldSelector {
    #[api(tag = 1)]
    container_name: String,
    #[api(tag = 2, required, always)]
    resource: String,
    #[api(tag = 3)]
    divisor: Quantity,
}

#[api(atomic)]
pub struct ConfigMapKeySelector {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2, required, always)]
    key: String,
    #[api(tag = 3)]
    optional: Option<bool>,
}

#[api(atomic)]
pub struct LocalObjectReference {
    #[api(tag = 1, default = "")]
    name: String,
}

#[api(atomic)]
pub struct SecretKeySelector {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2, required, always)]
    key: String,
    #[api(tag = 3)]
    optional: Option<bool>,
}

#[api]
pub struct EnvFromSource {
    #[api(tag = 1)]
    prefix: String,
    #[api(tag = 2)]
    config_map_ref: Option<ConfigMapEnvSource>,
    #[api(tag = 3)]
    secret_ref: Option<SecretEnvSource>,
}

#[api]
pub struct ConfigMapEnvSource {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2)]
    optional: Option<bool>,
}

#[api]
pub struct SecretEnvSource {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2)]
    optional: Option<bool>,
}
