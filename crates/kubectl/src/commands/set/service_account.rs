//! `set serviceaccount`: changes the service account of pods.

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, SetMessages, change_all, check_dry_run,
    objects, print,
};
use crate::{
    commands::DryRun,
    error::{CommandError, Result},
    invocation::Invocation,
    record,
    workload::pod_spec,
};

pub(super) const COMMAND: Command = Command::new(
    "serviceaccount",
    &[FILES, ALL, LOCAL, DRY_RUN, FIELD_MANAGER, record::FLAGS, print::FLAGS],
    run,
)
.aliases(&["sa"]);

fn run(call: &Invocation<'_>) -> Result {
    check_dry_run(call, DryRun::of(call)?)?;
    let Some((name, words)) = call.args().split_last() else {
        return Err(CommandError::error("serviceaccount is required"));
    };
    let infos = objects(call, words)?;
    let setting = SetMessages {
        done: "serviceaccount updated",
        failed: "failed to patch ServiceAccountName",
        always: true,
    };
    change_all(call, infos, &setting, |object, _| {
        pod_spec(object)?["serviceAccountName"] = name.as_str().into();
        Ok(true)
    })
}
