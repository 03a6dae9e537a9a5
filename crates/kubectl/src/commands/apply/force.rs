//! `apply --force`: deletes and recreates objects that cannot be patched.

use std::time::Duration;

use object::Value;

use super::deletion;
use crate::{
    commands::{DryRun, delete::poll_until_deleted},
    error::{CommandError, Result},
    invocation::Invocation,
    select::Info,
};

/// Whether deleting and recreating the object can get past this error: only for Conflict and Invalid.
pub(super) fn is_recreatable(fail: &CommandError) -> bool {
    matches!(fail, CommandError::Server { status, .. } if status.has_reason("Conflict") || status.has_reason("Invalid"))
}

/// Replaces `current` by `wanted`: deletes the object and creates it again. If the server rejects the new object, the
/// old one is restored.
pub(super) fn delete_and_create(
    call: &Invocation<'_>,
    info: &Info,
    wanted: &Value,
    current: &Value,
    query: &str,
) -> Result<Value> {
    let server = call.server()?;
    server.delete(&info.path(), &deletion(call, DryRun::No)?)?;
    let patience = Duration::from_nanos(call.flags.duration("timeout").max(0).unsigned_abs());
    poll_until_deleted(call, &info.path(), patience)?;
    let path = info.resource.path(&info.namespace, "") + query;
    server.create(&path, wanted).map_err(|fail| {
        match server.create(&path, current) {
            Ok(_) => fail,
            Err(again) => CommandError::error(format!(
                "An error occurred force-replacing the existing object with the newly provided one:\n\n{}.\n\nAdditionally, an error occurred attempting to restore the original object:\n\n{}",
                fail.message(),
                again.message()
            )),
        }
    })
}
