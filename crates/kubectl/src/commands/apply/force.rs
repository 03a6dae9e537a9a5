//! `--force`: what cannot be changed is deleted and made anew.

use std::time::Duration;

use object::Value;

use super::deletion;
use crate::{
    call::Call,
    commands::{DryRun, delete::until_gone},
    fail::{Fail, Result},
    select::Info,
};

/// Whether an object made anew would not meet this.
pub(super) fn helps(fail: &Fail) -> bool {
    matches!(fail, Fail::Server { status, .. } if status.is("Conflict") || status.is("Invalid"))
}

/// Makes `wanted` in place of `current`; when the server refuses that, the old one comes back.
pub(super) fn make_anew(
    call: &Call<'_>,
    info: &Info,
    wanted: &Value,
    current: &Value,
    query: &str,
) -> Result<Value> {
    let server = call.server()?;
    server.delete(&info.path(), &deletion(call, DryRun::No)?)?;
    let patience = Duration::from_nanos(call.flags.duration("timeout").max(0).unsigned_abs());
    until_gone(call, &info.path(), patience)?;
    let path = info.resource.path(&info.namespace, "") + query;
    server.create(&path, wanted).map_err(|fail| {
        match server.create(&path, current) {
            Ok(_) => fail,
            Err(again) => Fail::error(format!(
                "An error occurred force-replacing the existing object with the newly provided one:\n\n{}.\n\nAdditionally, an error occurred attempting to restore the original object:\n\n{}",
                fail.words(),
                again.words()
            )),
        }
    })
}
