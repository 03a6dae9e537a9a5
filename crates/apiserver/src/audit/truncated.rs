//! Truncation of audit events: an event that is too large loses its request and response objects;
//! one that is still too large is dropped.

use std::sync::Arc;

use object::{Value, to_json};
use tracing::warn;

use super::AuditSink;

/// A sink that truncates events before it passes them on.
#[derive(Debug)]
pub(crate) struct TruncatingSink {
    pub(crate) to: Arc<dyn AuditSink>,
    /// Maximum size of an event, in bytes.
    pub(crate) largest: usize,
}

impl AuditSink for TruncatingSink {
    fn name(&self) -> &'static str {
        self.to.name()
    }

    fn write(&self, event: &Value) -> bool {
        let Some(event) = fitting(event, self.largest) else {
            warn!("an audit event is too large; dropping it");
            return false;
        };
        self.to.write(&event)
    }
}

fn fitting(event: &Value, largest: usize) -> Option<Value> {
    if to_json(event).len() <= largest {
        return Some(event.clone());
    }
    let mut event = event.clone();
    event.remove("requestObject");
    event.remove("responseObject");
    event["annotations"]["audit.k8s.io/truncated"] = "true".into();
    (to_json(&event).len() <= largest).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_go_first() {
        let mut event = Value::object();
        event["auditID"] = "a".into();
        assert_eq!(fitting(&event, 100), Some(event.clone()));
        event["requestObject"]["data"] = "x".repeat(200).into();
        let cut = fitting(&event, 100).expect("without its object it is small");
        assert!(cut.get("requestObject").is_null());
        assert_eq!(cut["annotations"]["audit.k8s.io/truncated"].as_str(), Some("true"));
        event["requestURI"] = "x".repeat(200).into();
        assert_eq!(fitting(&event, 100), None);
    }
}
