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
    absent::{ABSENT_FLAGS, UnsupportedFlag, UnsupportedFlags},
    accounts::ServiceAccountFlags,
    audit::AuditFlags,
    connections::ConnectionFlags,
    groups::grouped,
    logs::{LogFlags, Logging, register_verbosity_setter},
    metrics::MetricFlags,
    storage::StorageFlags,
    told::GivenFlags,
    whole::GeneralFlags,
};
