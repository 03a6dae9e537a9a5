//! The AlwaysAdmit and AlwaysDeny admission plugins: the one admits, the other rejects every
//! request.

use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin};

use super::is_own_write;

#[derive(Debug)]
pub(super) struct AlwaysAdmit;

impl AdmissionPlugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }
}

#[derive(Debug)]
pub(super) struct AlwaysDeny;

impl AdmissionPlugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            // The server's own writes are admitted, because it cannot start without them.
            if is_own_write(admission) {
                return Ok(());
            }
            Err(admission.forbidden("admission control is denying all modifications"))
        })
    }
}
