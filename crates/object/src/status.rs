//! The `Status` object, with upstream's error messages.

use macros::api;

use crate::{List, ListMeta, Text, quote::quote};

/// The answer to a call that returns no object.
#[api]
pub struct Status {
    /// The version of the store, and where a list goes on.
    metadata: ListMeta,
    /// Success or Failure.
    status: String,
    /// What happened, for people.
    message: String,
    /// Why, as one word for programs.
    #[api(go_type = "v1.StatusReason")]
    reason: String,
    /// More about it, depending on the reason.
    details: Option<StatusDetails>,
    /// The HTTP status code.
    code: i32,
}

/// What a status is about.
#[api]
pub struct StatusDetails {
    /// The object that the answer is about.
    name: String,
    /// The group of that object's kind.
    group: String,
    /// The resource or kind.
    kind: String,
    /// What is wrong, one by one.
    causes: List<StatusCause>,
    /// How long to wait before the next try.
    retry_after_seconds: i32,
    /// The uid of that object.
    #[api(go_type = "types.UID")]
    uid: String,
}

/// One of several reasons.
#[api]
pub struct StatusCause {
    /// What kind of mistake it is, for programs.
    #[api(go_type = "v1.CauseType")]
    reason: String,
    /// What is wrong, for people.
    message: String,
    /// The field at fault.
    field: String,
}

/// The object that a status is about: `pods "web"`, `deployments.apps "web"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRef<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
}

impl ResourceRef<'_> {
    fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self) -> StatusDetails {
        StatusDetails::new().with_name(self.name).with_group(self.group).with_kind(self.resource)
    }
}

impl Status {
    pub fn failure(code: i32, reason: &str, message: impl Into<Text>) -> Self {
        Self::new().with_status("Failure").with_message(message).with_reason(reason).with_code(code)
    }

    pub fn success() -> Self {
        Self::new().with_status("Success")
    }

    pub fn not_found(subject: ResourceRef) -> Self {
        let message = format!("{} {} not found", subject.group_resource(), quote(subject.name));
        Self::failure(404, "NotFound", message).with_details(subject.details())
    }

    /// The error for an unknown path or resource.
    pub fn unknown_resource() -> Self {
        Self::failure(404, "NotFound", "the server could not find the requested resource")
            .with_details(StatusDetails::new())
    }

    pub fn already_exists(subject: ResourceRef) -> Self {
        let message =
            format!("{} {} already exists", subject.group_resource(), quote(subject.name));
        Self::failure(409, "AlreadyExists", message).with_details(subject.details())
    }

    pub fn conflict(subject: ResourceRef, why: &str) -> Self {
        let (what, name) = (subject.group_resource(), subject.name);
        let name = quote(name);
        let message = format!("Operation cannot be fulfilled on {what} {name}: {why}");
        Self::failure(409, "Conflict", message).with_details(subject.details())
    }

    /// The error for a stale resourceVersion.
    pub fn optimistic_lock_conflict(subject: ResourceRef) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(subject: ResourceRef, why: &str) -> Self {
        let what = subject.group_resource();
        let message = match (what.as_str(), subject.name) {
            ("", _) => format!("forbidden: {why}"),
            (what, "") => format!("{what} is forbidden: {why}"),
            (what, name) => format!("{what} {} is forbidden: {why}", quote(name)),
        };
        Self::failure(403, "Forbidden", message).with_details(subject.details())
    }

    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    pub fn bad_request(message: impl Into<Text>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    pub fn method_not_allowed(message: impl Into<Text>) -> Self {
        Self::failure(405, "MethodNotAllowed", message)
    }

    pub fn expired(message: impl Into<Text>) -> Self {
        Self::failure(410, "Expired", message)
    }

    pub fn internal(why: impl std::fmt::Display) -> Self {
        let cause = StatusCause::new().with_message(why.to_string());
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_details(StatusDetails::new().with_causes([cause]))
    }

    pub fn too_many_requests(message: impl Into<Text>, retry_after: i32) -> Self {
        Self::failure(429, "TooManyRequests", message)
            .with_details(StatusDetails::new().with_retry_after_seconds(retry_after))
    }

    pub fn too_large(message: impl Into<Text>) -> Self {
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    pub fn unavailable(message: impl Into<Text>) -> Self {
        Self::failure(503, "ServiceUnavailable", message)
    }

    pub fn timeout(message: impl Into<Text>) -> Self {
        Self::failure(504, "Timeout", message)
    }

    /// Whether this is a failure for `reason`.
    pub fn has_reason(&self, reason: &str) -> bool {
        self.reason() == reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaks_as_upstream_does() {
        let deployment = ResourceRef { group: "apps", resource: "deployments", name: "web" };
        assert_eq!(Status::not_found(deployment).message(), r#"deployments.apps "web" not found"#);
        let list = ResourceRef { group: "", resource: "pods", name: "" };
        let status = Status::forbidden(list, "no");
        assert_eq!((status.message(), status.code()), ("pods is forbidden: no", 403));
    }
}
