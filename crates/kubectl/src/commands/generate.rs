//! `create KIND NAME`: creates objects from arguments and flags.

mod config;
mod other_kinds;
mod rbac;
mod workload;

use super::Command;

/// The subcommands of `create`.
pub(crate) const COMMANDS: &[Command] = &[
    other_kinds::NAMESPACE,
    config::CONFIG_MAP,
    config::SECRET,
    other_kinds::SERVICE_ACCOUNT,
    rbac::ROLE,
    rbac::CLUSTER_ROLE,
    rbac::ROLE_BINDING,
    rbac::CLUSTER_ROLE_BINDING,
    workload::DEPLOYMENT,
    workload::JOB,
    workload::CRON_JOB,
    other_kinds::SERVICE,
    other_kinds::INGRESS,
    other_kinds::QUOTA,
    other_kinds::DISRUPTION_BUDGET,
    other_kinds::PRIORITY_CLASS,
    other_kinds::TOKEN,
];

/// A list of strings.
fn texts<T: AsRef<str>>(texts: &[T]) -> object::Value {
    object::Value::List(texts.iter().map(|text| text.as_ref().into()).collect())
}

/// A list of values.
fn values(values: Vec<object::Value>) -> object::Value {
    object::Value::List(values.into())
}
