//! Flags that belong together, beside those in `config.rs`.

mod absent;
mod accounts;
mod audit;
mod connections;
mod told;
mod whole;

pub use self::{
    absent::{ABSENT_FLAGS, AbsentFlag, AbsentFlags},
    accounts::AccountFlags,
    audit::AuditFlags,
    connections::ConnectionFlags,
    told::Told,
    whole::WholeFlags,
};
