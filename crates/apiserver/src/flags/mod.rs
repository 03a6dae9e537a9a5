//! Groups of flags, in addition to those in `config.rs`.

mod accounts;
mod audit;
mod connections;
mod general;
mod given_flags;
mod groups;
mod logs;
mod metrics;
mod storage;
mod unsupported;

pub(crate) use self::logs::set_verbosity;
pub use self::{
    accounts::ServiceAccountFlags,
    audit::AuditFlags,
    connections::ConnectionFlags,
    general::GeneralFlags,
    given_flags::GivenFlags,
    groups::grouped,
    logs::{LogFlags, Logging, register_verbosity_setter},
    metrics::MetricFlags,
    storage::StorageFlags,
    unsupported::{ABSENT_FLAGS, UnsupportedFlag, UnsupportedFlags},
};
