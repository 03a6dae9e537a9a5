//! Errors of server-side apply, with upstream's messages.

use object::{Status, StatusCause, StatusDetails, Text, Value};

use super::fields::PathElement;

/// Why an apply failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    #[error("{0}")]
    BadRequest(String),
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The object does not match its schema, or its managedFields are invalid: 500, as upstream.
    #[error("{0}")]
    Failed(String),
    /// The object must first be converted to another version, which only the conversion webhook can
    /// do. The caller converts it and retries.
    #[error("not yet known in {}", .0.1)]
    NeedsConversion(Box<(Value, Text)>),
}

/// A field that another manager owns with a different value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `"kubectl" using apps/v1`.
    pub manager: String,
    /// `.spec.replicas`.
    pub field: String,
    pub(super) path: Vec<PathElement>,
}

impl ApplyError {
    /// Prefixes the message with what was being done.
    pub(super) fn context(self, what: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{what}: {why}")),
            other => other,
        }
    }

    pub fn status(&self) -> Status {
        match self {
            Self::BadRequest(why) => Status::bad_request(why.as_str()),
            Self::Failed(_) | Self::NeedsConversion(_) => {
                Status::new().with_status("Failure").with_message(self.to_string()).with_code(500)
            }
            Self::Conflict(conflicts) => {
                let causes = conflicts.iter().map(|conflict| {
                    StatusCause::new()
                        .with_reason("FieldManagerConflict")
                        .with_message(format!("conflict with {}", conflict.manager))
                        .with_field(conflict.field.as_str())
                });
                let details = StatusDetails::new().with_causes(causes.collect::<object::List<_>>());
                Status::failure(409, "Conflict", self.to_string()).with_details(details)
            }
        }
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.field
        );
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
