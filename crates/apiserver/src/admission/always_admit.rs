//! AlwaysAdmit and AlwaysDeny: no opinion, and one opinion on everything.

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
            // What the server itself cannot be without is not a modification by anybody.
            if is_own_write(admission) {
                return Ok(());
            }
            Err(admission.forbidden("admission control is denying all modifications"))
        })
    }
}
