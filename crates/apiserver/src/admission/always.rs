//! AlwaysAdmit and AlwaysDeny: no opinion, and one opinion on everything.

use server::{Admission, Admit, Admitting};

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
            if &*admission.user.name == "system:apiserver" {
                return Ok(());
            }
            Err(admission.forbid("admission control is denying all modifications"))
        })
    }
}
