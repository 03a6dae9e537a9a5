//! `create KIND NAME`: objects from a few words.

mod config;
mod rbac;
mod rest;
mod workload;

use super::Command;

/// Everything that `create` makes without a file.
pub(crate) const COMMANDS: &[Command] = &[
    rest::NAMESPACE,
    config::CONFIG_MAP,
    config::SECRET,
    rest::SERVICE_ACCOUNT,
    rbac::ROLE,
    rbac::CLUSTER_ROLE,
    rbac::ROLE_BINDING,
    rbac::CLUSTER_ROLE_BINDING,
    workload::DEPLOYMENT,
    workload::JOB,
    workload::CRON_JOB,
    rest::SERVICE,
    rest::INGRESS,
    rest::QUOTA,
    rest::DISRUPTION_BUDGET,
    rest::PRIORITY_CLASS,
    rest::TOKEN,
];

/// Texts as a list.
fn texts<T: AsRef<str>>(texts: &[T]) -> object::Value {
    object::Value::List(texts.iter().map(|text| text.as_ref().into()).collect())
}

/// Values as a list.
fn values(values: Vec<object::Value>) -> object::Value {
    object::Value::List(values.into())
}
