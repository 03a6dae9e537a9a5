//! Errors for stored objects that cannot be decoded, with upstream's messages.

use object::{Status, StatusCause, StatusDetails};
use store::Error;

use super::store_status;
use crate::ServedResource;

/// Maximum number of objects that the error of a list names.
const NAMED: usize = 100;

/// Prefix of the error of an object that cannot be decrypted.
pub(crate) const NOT_TRANSFORMABLE: &str = "data from the storage is not transformable";

/// The error of a get or delete.
pub(super) fn read(error: &Error) -> Status {
    match error {
        Error::Corrupt { key, revision, why } => {
            let key = key.strip_prefix("/registry").unwrap_or(key);
            Status::internal(storage_error(key, *revision, why))
        }
        other => store_status(other),
    }
}

/// The error of an update.
pub(super) fn change(error: &Error) -> Status {
    match error {
        Error::Corrupt { revision, why, .. } => Status::failure(500, "", reason(*revision, why)),
        other => store_status(other),
    }
}

/// The error of a list.
pub(super) fn list(served: &ServedResource, errors: &[Error]) -> Status {
    let corrupt = |error: &Error| match error {
        Error::Corrupt { key, revision, why } => (key.clone(), storage_error(key, *revision, why)),
        other => (String::new(), other.to_string()),
    };
    let all: Vec<_> = errors.iter().take(NAMED).map(corrupt).collect();
    let names = &served.definition.names;
    let dot = if names.group.is_empty() { "" } else { "." };
    let first = all.first().map_or("", |(_, message)| message);
    let mut message = format!(
        "failed to read one or more {}{dot}{} from the storage: {first}",
        names.plural, names.group
    );
    if all.len() > 1 {
        message.push_str(&format!(" (and {} more)", all.len() - 1));
    }
    let cause = |(key, message): &(String, String)| {
        let cause = StatusCause::new().with_reason("UnexpectedServerResponse");
        cause.with_message(message.as_str()).with_field(key.as_str())
    };
    let mut causes: Vec<_> = all.iter().map(cause).collect();
    if errors.len() >= NAMED {
        let many = StatusCause::new().with_reason("FieldValueTooMany");
        causes.push(many.with_message("too many errors, the list is truncated"));
    }
    let details = StatusDetails::new().with_name("list").with_group(names.group);
    Status::failure(500, "StorageReadError", message).with_details(
        details
            .with_kind(names.plural)
            .with_causes(causes.into_iter().collect::<object::List<_>>()),
    )
}

/// The response to the deletion of such an object.
pub(crate) fn deleted(served: &ServedResource, name: &str) -> Status {
    let names = &served.definition.names;
    let details =
        StatusDetails::new().with_name(name).with_group(names.group).with_kind(names.kind);
    Status::success().with_details(details).with_code(200)
}

fn storage_error(key: &str, revision: u64, why: &str) -> String {
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: {}",
        reason(revision, why)
    )
}

fn reason(revision: u64, why: &str) -> String {
    match why.strip_prefix(NOT_TRANSFORMABLE) {
        Some(why) => format!("{NOT_TRANSFORMABLE} revision=0{why}"),
        None => format!("object not decodable revision={revision}: {why}"),
    }
}
