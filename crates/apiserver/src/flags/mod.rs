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

pub(crate) use self::logs::set_verbosity;
pub use self::{
    absent::{ABSENT_FLAGS, AbsentFlag, AbsentFlags},
    accounts::AccountFlags,
    audit::AuditFlags,
    connections::ConnectionFlags,
    groups::grouped,
    logs::{LogFlags, Logging, let_verbosity_be_set},
    metrics::MetricFlags,
    storage::StorageFlags,
    told::Told,
    whole::WholeFlags,
};
