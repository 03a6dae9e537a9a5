//! Provenance of writes: the user, field manager and cause that are stored with each write. `tiphys
//! why` reads it.

use bytes::Bytes;
use object::{NamespacedName, Text, Value, WriteCause, from_json, to_json};

use super::RequestContext;

/// Who made a write, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteProvenance {
    pub uid: Text,
    pub user: Text,
    pub manager: Text,
    pub cause: Option<WriteCause>,
}

impl WriteProvenance {
    pub(super) fn of(call: &RequestContext, uid: &str) -> Self {
        Self {
            uid: uid.into(),
            user: call.user.name.clone(),
            manager: call.manager.clone(),
            cause: call.cause.clone(),
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        to_json(&self.to_tree()).into_boxed_slice().into()
    }

    /// The JSON form, as stored.
    pub fn to_tree(&self) -> Value {
        let mut note = Value::object();
        note["uid"] = self.uid.clone().into();
        note["user"] = self.user.clone().into();
        note["manager"] = self.manager.clone().into();
        if let Some(cause) = &self.cause {
            let mut because = Value::object();
            because["rule"] = cause.reason.clone().into();
            because["kind"] = cause.kind.clone().into();
            because["namespace"] = cause.key.namespace.clone().into();
            because["name"] = cause.key.name.clone().into();
            because["uid"] = cause.uid.clone().into();
            because["revision"] = cause.revision.into();
            note["because"] = because;
        }
        note
    }

    /// Decodes a provenance note; `None` if the bytes are not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let note = from_json(bytes).ok()?;
        let text =
            |tree: &Value, name: &str| Text::from(tree.get(name).as_str().unwrap_or_default());
        let cause = Some(note.get("because")).filter(|because| because.is_object());
        let cause = cause.map(|because| WriteCause {
            reason: text(because, "rule"),
            kind: text(because, "kind"),
            key: NamespacedName {
                namespace: text(because, "namespace"),
                name: text(because, "name"),
            },
            uid: text(because, "uid"),
            revision: because.get("revision").as_i64().and_then(|n| n.try_into().ok()).unwrap_or(0),
        });
        let (uid, user, manager) =
            (text(&note, "uid"), text(&note, "user"), text(&note, "manager"));
        Some(Self { uid, user, manager, cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserInfo;

    #[test]
    fn a_note_reads_as_it_was_written() {
        let mut call = RequestContext::new(UserInfo::new("alice", &[]), "kubectl");
        assert_eq!(
            WriteProvenance::from_bytes(&WriteProvenance::of(&call, "u").to_bytes()),
            Some(WriteProvenance::of(&call, "u"))
        );
        call.cause = Some(WriteCause {
            reason: "too few pods".into(),
            kind: "ReplicaSet".into(),
            key: NamespacedName::new("default", "web"),
            uid: "x".into(),
            revision: 7,
        });
        assert_eq!(
            WriteProvenance::from_bytes(&WriteProvenance::of(&call, "u").to_bytes()),
            Some(WriteProvenance::of(&call, "u"))
        );
    }
}
