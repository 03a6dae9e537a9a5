//! The entries of `metadata.managedFields`.

use std::sync::LazyLock;

use object::{ManagedFieldsEntry, Text, Time, Value, View};

use super::fields::{FieldSet, from_field_paths};

/// Maximum number of entries, more than any server writes.
const MAX_ENTRIES: usize = 1000;
/// Maximum number of Update entries; older ones are merged.
const MAX_UPDATE_ENTRIES: usize = 10;

/// Fields that are never owned.
const UNMANAGED_FIELDS: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Whether a manager applied fields or updated them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager. For Apply it is independent of the version, for Update it is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) name: Text,
    pub(super) operation: Operation,
    /// Empty for Apply.
    pub(super) version: Text,
    pub(super) subresource: Text,
}

impl ManagerId {
    /// The name in conflict messages.
    pub(super) fn display(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        match self.operation {
            Operation::Apply => text,
            Operation::Update => format!("{text} using {}", self.version),
        }
    }
}

/// One entry of managedFields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagedEntry {
    pub(super) manager: ManagerId,
    /// The version in which the fields are expressed.
    pub(super) version: Text,
    pub(super) fields: FieldSet,
    /// The encoded fields, if they have not changed since they were decoded.
    pub(super) encoded: Option<Value>,
    /// When the fields last changed, in RFC 3339 format, or empty.
    pub(super) time: Text,
}

/// All entries of managedFields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ManagedFields(pub(super) Vec<ManagedEntry>);

impl ManagedFields {
    pub(super) fn decode(encoded: &Value) -> Result<Self, String> {
        if encoded.items().len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} managed fields entries"));
        }
        let mut managers = Self::default();
        for (at, entry) in encoded.items().iter().enumerate() {
            let entry = decode_entry(at, entry)?;
            managers.0.retain(|other| other.manager != entry.manager);
            managers.0.push(entry);
        }
        Ok(managers)
    }

    /// Encodes the entries: Apply first, then by time and name.
    pub(super) fn encode(mut self) -> Value {
        let seconds = |entry: &ManagedEntry| Time::parse_seconds(&entry.time).unwrap_or_default();
        self.0.sort_by(|a, b| {
            let key = |entry: &ManagedEntry| {
                let manager = &entry.manager;
                (manager.operation, seconds(entry), manager.name.clone(), entry.version.clone())
            };
            key(a).cmp(&key(b)).then_with(|| a.manager.subresource.cmp(&b.manager.subresource))
        });
        self.0.iter().map(encode_entry).collect()
    }

    /// Removes and returns the entry of a manager.
    pub(super) fn take(&mut self, manager: &ManagerId) -> Option<ManagedEntry> {
        let at = self.0.iter().position(|entry| entry.manager == *manager)?;
        Some(self.0.remove(at))
    }

    /// Adds an entry without the fields that are never owned, unless nothing is left.
    pub(super) fn insert(&mut self, entry: ManagedEntry) {
        static NONE: LazyLock<FieldSet> = LazyLock::new(|| from_field_paths(UNMANAGED_FIELDS));
        let fields = entry.fields.difference(&NONE);
        if !fields.is_empty() {
            self.0.push(ManagedEntry { fields, ..entry });
        }
    }

    /// Removes entries without fields.
    pub(super) fn remove_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Merges the oldest of too many Update entries into one entry per version.
    pub(super) fn cap_updaters(&mut self) {
        let is_updater = |entry: &&ManagedEntry| entry.manager.operation == Operation::Update;
        let mut updaters: Vec<_> = self
            .0
            .iter()
            .filter(is_updater)
            .map(|entry| {
                (Time::parse_seconds(&entry.time).unwrap_or_default(), entry.manager.clone())
            })
            .collect();
        updaters.sort();
        let (mut over, mut first) =
            (updaters.len().saturating_sub(MAX_UPDATE_ENTRIES), Vec::<ManagerId>::new());
        for (_, manager) in updaters {
            if over == 0 {
                return;
            }
            let Some(kept) = first.iter().find(|kept| kept.version == manager.version).cloned()
            else {
                first.push(manager);
                continue;
            };
            let bucket = ManagerId {
                name: "ancient-changes".into(),
                operation: Operation::Update,
                version: manager.version.clone(),
                subresource: Text::default(),
            };
            let into = self.take(&bucket).or_else(|| self.take(&kept));
            let (Some(into), Some(entry)) = (into, self.take(&manager)) else { continue };
            let fields = into.fields.union(&entry.fields);
            self.0.push(ManagedEntry { manager: bucket, fields, encoded: None, ..entry });
            over -= 1;
        }
    }
}

fn decode_entry(at: usize, encoded: &Value) -> Result<ManagedEntry, String> {
    let entry = ManagedFieldsEntry::view(encoded);
    let operation = match entry.operation() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    if entry.api_version().is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match entry.fields_type() {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
        other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
    }
    let fields = FieldSet::decode(encoded.get("fieldsV1"))
        .map_err(|error| format!("error decoding set: {error}"))?;
    let version: Text = entry.api_version().into();
    let manager = ManagerId {
        name: entry.manager().into(),
        operation,
        version: if operation == Operation::Apply { Text::default() } else { version.clone() },
        subresource: entry.subresource().into(),
    };
    Ok(ManagedEntry {
        manager,
        version,
        fields,
        encoded: Some(encoded.get("fieldsV1").clone()),
        time: encoded.get("time").as_str().unwrap_or_default().into(),
    })
}

fn encode_entry(entry: &ManagedEntry) -> Value {
    let texts = [
        ("manager", entry.manager.name.as_str()),
        ("operation", entry.manager.operation.name()),
        ("apiVersion", entry.version.as_str()),
        ("time", entry.time.as_str()),
        ("fieldsType", "FieldsV1"),
        ("subresource", entry.manager.subresource.as_str()),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(name, text)| (name.into(), text.into()));
    let fields = entry.encoded.clone().unwrap_or_else(|| entry.fields.encode());
    Value::from_entries(texts.chain([("fieldsV1".into(), fields)]).collect())
}
