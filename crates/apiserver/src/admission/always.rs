//! AlwaysAdmit and AlwaysDeny: no opinion, and one opinion on everything.

use server::{Admission, Admit, Admitting};

use super::is_own_write;

#[derive(Debug)]
pub(super) struct AlwaysAdmit;

impl Admit for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }
}

#[derive(Debug)]
pub(super) struct AlwaysDeny;

impl Admit for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        Box::pin(async move {
            // What the server itself cannot be without is not a modification by anybody.
            if is_own_write(admission) {
                return Ok(());
            }
            Err(admission.forbid("admission control is denying all modifications"))
        })
    }
}
