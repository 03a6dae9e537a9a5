//! Flags that belong together, beside those in `config.rs`.

mod accounts;
mod audit;
mod connections;
mod whole;

pub use self::{
    accounts::AccountFlags, audit::AuditFlags, connections::ConnectionFlags, whole::WholeFlags,
};
