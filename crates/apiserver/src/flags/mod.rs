//! Flags that belong together, beside those in `config.rs`.

mod absent;
mod accounts;
mod audit;
mod connections;
mod groups;
mod logs;
mod metrics;
mod storage;
mod told;
mod whole;

pub use self::{
    absent::{ABSENT_FLAGS, AbsentFlag, AbsentFlags},
    accounts::AccountFlags,
    audit::AuditFlags,
    connections::ConnectionFlags,
    groups::grouped,
    logs::{LogFlags, Logging},
    metrics::MetricFlags,
    storage::StorageFlags,
    told::Told,
    whole::WholeFlags,
};
