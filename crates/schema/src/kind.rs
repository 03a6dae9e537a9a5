//! What a built-in kind declares, in its own file.

use std::{collections::BTreeMap, mem, time::Duration};

use object::{
    Lens, NamespacedName, Object, ObjectMeta, OwnerReference, Text, Value, View as _, WriteCause,
};

use crate::{ErrorList, FieldPath, WarningList};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceNames {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
}

impl ResourceNames {
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let singular = match plural.split_at_checked(kind.len()) {
            Some((singular, _)) => singular,
            None => plural, // what is no resource has neither
        };
        Self { group, version, kind, plural, singular, short_names: &[], categories: &[] }
    }

    /// The name of one, where it is not how the plural begins.
    pub const fn singular(self, singular: &'static str) -> Self {
        Self { singular, ..self }
    }

    /// What the command line takes for it.
    pub const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short_names: short, ..self }
    }

    /// What it is listed with.
    pub const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    /// Group and version as objects spell them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Where objects are kept, below `/registry/`, and in which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// Empty: the kind is not stored at all, like a review.
    pub prefix: &'static str,
    /// With its group, where that is another than the kind's own.
    pub version: &'static str,
    /// As JSON; all others are stored as protobuf.
    pub json: bool,
}

impl StorageConfig {
    pub const NONE: Self = Self::new("", "");

    pub const fn new(prefix: &'static str, version: &'static str) -> Self {
        Self { prefix, version, json: false }
    }

    pub const fn json(prefix: &'static str, version: &'static str) -> Self {
        Self { prefix, version, json: true }
    }
}

/// A further path below an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subresource {
    pub name: &'static str,
    /// What it takes and gives.
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

impl Subresource {
    pub const fn new(
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, kind, verbs }
    }

    /// How many there are to be, and are.
    pub const SCALE: Self = Self::new("scale", "Scale", &["get", "patch", "update"]);

    /// The status by itself, of this kind.
    pub const fn status(kind: &'static str) -> Self {
        Self::new("status", kind, &["get", "patch", "update"])
    }
}

/// The verbs that discovery names.
pub mod verbs {
    pub const ALL: &[&str] =
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    pub const NO_COLLECTION: &[&str] =
        &["create", "delete", "get", "list", "patch", "update", "watch"];
    pub const CREATE: &[&str] = &["create"];
    /// Those of custom kinds, in the order in which discovery names them.
    pub const CUSTOM: &[&str] =
        &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
}

/// What is wrong with a name; `prefix`: it is one that the server will complete.
pub type ValidateName = fn(name: &str, prefix: bool) -> Vec<String>;

/// The usual rules for names.
pub mod name_validation {
    use object::names;

    fn whole(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
        if prefix { rule(&names::mask_trailing_dash(name)) } else { rule(name) }
    }

    pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
        whole(name, prefix, names::dns1123_subdomain)
    }

    /// The same, where upstream counts bytes and looks at whole names alone.
    pub fn long_name(name: &str, prefix: bool) -> Vec<String> {
        let rule = if prefix { names::path_segment_prefix } else { names::dns1123_subdomain };
        let wrong = rule(name).into_iter();
        wrong.map(|wrong| wrong.replace("253 characters", "253 bytes")).collect()
    }

    pub fn dns_label(name: &str, prefix: bool) -> Vec<String> {
        whole(name, prefix, names::dns1123_label)
    }

    pub fn dns1035_label(name: &str, prefix: bool) -> Vec<String> {
        whole(name, prefix, names::dns1035_label)
    }

    /// Anything that can stand in a path: RBAC objects are named freely.
    pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
        if prefix { names::path_segment_prefix(name) } else { names::path_segment_name(name) }
    }
}

/// One column of `kubectl get`.
#[derive(Debug)]
pub struct TableColumn<K: 'static> {
    pub name: &'static str,
    /// `string`, `integer`, `boolean`, `date`.
    pub ty: &'static str,
    pub format: &'static str,
    /// 0 is always shown, 1 only when wide.
    pub priority: i32,
    /// The cell, as seen at this time (seconds since 1970).
    pub cell: fn(&K, i64) -> Value,
}

impl<K> TableColumn<K> {
    pub const fn new(name: &'static str, ty: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self { name, ty, format: "", priority: 0, cell }
    }

    /// Most are texts.
    pub const fn text(name: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self::new(name, "string", cell)
    }

    /// A text that is shown only when wide.
    pub const fn wide_text(name: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self::text(name, cell).wide()
    }

    /// Shown only when wide.
    pub const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl<K: Kind> TableColumn<K> {
    pub const NAME: Self = Self {
        format: "name",
        ..Self::new("Name", "string", |object, _| object.meta().name().into())
    };
    pub const AGE: Self = Self::new("Age", "string", |object, now| {
        crate::age(object.meta().creation_timestamp(), now).into()
    });
    /// What kinds show that nobody has made columns for.
    pub const CREATED_AT: Self =
        Self::new("Created At", "date", |object, _| object.meta().creation_timestamp().into());
}

/// What objects are looked up by, besides namespace and name. Declared once: the
/// server selects and watches by it, caches keep an index of it.
#[derive(Debug)]
pub struct SelectableField<K: 'static> {
    /// The field selector's name for it.
    pub name: &'static str,
    pub value: fn(&K) -> String,
    /// Whether watches follow it as a topic of its own; others only filter.
    pub watch_topic: bool,
}

impl<K> SelectableField<K> {
    /// Selects, and has a chain of its own in the ring: for what many watch.
    pub const fn with_watch_topic(name: &'static str, of: fn(&K) -> String) -> Self {
        Self { name, value: of, watch_topic: true }
    }

    /// Selects only.
    pub const fn filter_only(name: &'static str, of: fn(&K) -> String) -> Self {
        Self { name, value: of, watch_topic: false }
    }
}

/// All of the metadata that a client may set: what an update of the status leaves as it
/// was, for kinds that are strict about it.
pub const CLIENT_METADATA_FIELDS: &[&str] =
    &["annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences", "selfLink"];

/// Who writes an object, and when.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// Seconds since 1970.
    pub now: i64,
    pub user: &'a str,
    pub uid: &'a str,
    pub groups: &'a [Text],
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// How long a deleted object may take to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GracefulDeletion {
    /// It goes at once, whatever was asked.
    None,
    /// These seconds.
    Seconds(i64),
}

/// A part of a cluster that acts on objects, beside the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// What is said about an object where the part is lacking.
    pub lacking: &'static str,
    /// Group and plural: an object of these says that somebody has brought the part.
    pub announced_by: Option<(&'static str, &'static str)>,
}

/// A built-in kind. Say what it is called; override a hook only
/// where the kind differs from the default. Hooks see the object as a type, but
/// it is the server's own tree: nothing is decoded, copied or lost.
pub trait Kind: Lens {
    const NAMES: ResourceNames;
    const SCOPE: Scope = Scope::Namespaced;
    const VERBS: &'static [&'static str] = verbs::ALL;
    const STORAGE: StorageConfig = StorageConfig::new(Self::NAMES.plural, Self::NAMES.version);
    /// What objects of the kind need besides the API server, and a cluster may lack.
    const NEEDS: Option<&'static Part> = None;
    /// Whether changes of the desired state are counted.
    const GENERATION: bool = false;
    /// After how long an object goes by itself.
    const TTL: Option<Duration> = None;
    /// Whether a deletion is answered with what was deleted, or with a status.
    const SHOWS_DELETED: bool = false;
    /// Whether what belongs to the object stays when it is deleted and nothing is said of
    /// that, and what is said then.
    const ORPHANS: Option<&'static str> = None;
    /// Whether an update may leave open which version it is based on.
    const BLIND_UPDATES: bool = true;
    /// Whether fields of features that are off count as a change before they are dropped.
    const COUNTS_DORMANT: bool = false;
    /// Whether the rules tell what is empty from what is not there, old and new.
    const TELLS_HOLLOW: bool = false;
    /// What of the metadata an update of the status leaves as it was; `*`: all.
    const STATUS_KEEPS: &'static [&'static str] = &[];
    /// Whether a finalizer without a domain may have any name.
    const ANY_FINALIZER: bool = false;
    /// Whether its rules compile expressions or patterns, which may take long.
    const COMPILES: bool = false;
    /// Whether an update of what is not there makes it.
    const CREATED_BY_UPDATE: bool = false;
    /// Whether a name is generated as it was asked for, without anything behind it.
    const EXACT_NAMES: bool = false;
    /// Whether bytes that are none are told from none at all when changes are counted.
    const EMPTY_BYTES: bool = false;
    /// Whether it is served without being asked for.
    const DEFAULT_ON: bool = true;
    /// What is said of a version that goes away; empty where it stays.
    const DEPRECATED: &'static str = "";
    /// The feature without which it is not served.
    const GATE: Option<&'static str> = None;
    const SUBRESOURCES: &'static [Subresource] = &[];
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::CREATED_AT];
    const INDEXES: &'static [SelectableField<Self>] = &[];
    /// What is said of an unknown field selector: `{}` is its name, `{kind}` the kind's.
    const NO_INDEX: &'static str = "field label not supported: {}";
    const NAME: ValidateName = name_validation::dns_subdomain;

    fn meta(&self) -> &ObjectMeta {
        Object::view(self.tree()).metadata()
    }

    /// Whether the object is on its way out.
    fn is_terminating(&self) -> bool {
        self.meta().is_terminating()
    }

    /// A reference to this object, as the one that manages another.
    fn controller_ref(&self) -> OwnerReference {
        OwnerReference::new()
            .with_api_version(Self::NAMES.api_version())
            .with_kind(Self::NAMES.kind)
            .with_name(self.meta().name())
            .with_uid(self.meta().uid())
            .with_controller(true)
            .with_block_owner_deletion(true)
    }

    /// This object, as seen now, as the reason for a write.
    fn write_cause(&self, rule: &str) -> WriteCause {
        WriteCause {
            reason: rule.into(),
            kind: Self::NAMES.kind.into(),
            key: NamespacedName::from_meta(self.meta()),
            uid: self.meta().uid().into(),
            revision: self.meta().revision(),
        }
    }

    /// How long the object may take to go, if that is what was `asked`.
    fn grace(&self, _asked: Option<i64>) -> GracefulDeletion {
        GracefulDeletion::None
    }
    /// What no reader of the kind can make sense of, in Go's words.
    fn misread(&self) -> Option<String> {
        None
    }
    /// Fills defaults that depend on other fields. Constant defaults live on the field.
    fn default_fields(&mut self) {}
    /// Fills defaults that depend on when it is written.
    fn stamp(&mut self, _by: &WriteContext) {}
    /// What the server decides on creation, after plugins have changed the object: nobody but
    /// who knows it says what its status is.
    fn prepare_create(&mut self) {
        if Self::SUBRESOURCES.iter().any(|part| part.name == "status") {
            let mut tree: Value = mem::take(self).into();
            tree["status"] = Value::object();
            *self = tree.into();
        }
    }
    /// What the server decides when the main resource is updated.
    fn prepare_update(&mut self, _old: &Self) {}
    /// What the server decides when the status is updated.
    fn prepare_status(&mut self, _old: &Self) {}
    /// What the server writes down about a write: who, and when.
    fn sign(&mut self, _old: Option<&Self>, _by: &WriteContext) {}
    /// What the server decides when a part is updated through a path of its own: all but
    /// that part is as it was.
    fn prepare_part(&mut self, _part: &str, _old: &Self) {}
    /// Where the object stands in a table; names decide among equals.
    fn rank(&self) -> i64 {
        0
    }
    /// What a table says of the object besides its cells: that it has ended, and how.
    fn ended(&self) -> Option<(&'static str, &'static str)> {
        None
    }
    /// Rules across fields.
    fn validate(&self, _errs: &mut ErrorList) {}
    /// Rules between the old and the new object; where there are none, the new one's own.
    fn validate_update(&self, _old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
    }
    /// Rules for an update of the status.
    fn validate_status(&self, _old: &Self, _errs: &mut ErrorList) {}
    /// The same, where the rules depend on the time (seconds since 1970).
    fn validate_status_at(&self, old: &Self, _now: i64, errs: &mut ErrorList) {
        self.validate_status(old, errs);
    }
    /// Rules for an update of what is approved.
    fn validate_approval(&self, old: &Self, errs: &mut ErrorList) {
        self.validate_status(old, errs);
    }
    /// Rules for an update of a part.
    fn validate_part(&self, _part: &str, _old: &Self, _errs: &mut ErrorList) {}
    /// The part without which this object is stored, and nothing follows from it.
    fn needs(&self) -> Option<&'static Part> {
        Self::NEEDS
    }
    /// What who writes the object should hear, though it is taken: what is out of use,
    /// what will not do what it seems to. `old`: it is not new.
    fn warn(&self, _old: Option<&Self>, _warnings: &mut WarningList) {}
    /// The same, of an update of the status.
    fn warn_status(&self, _warnings: &mut WarningList) {}

    /// What a deletion leaves on an object that is not gone at once.
    fn prepare_delete(&mut self, _now: i64) {}
    /// Rules of this version besides those of the stored one, on objects as they are stored.
    fn validate_version(_object: &Value, _old: Option<&Value>, _errs: &mut ErrorList) {}

    /// From this version to the one that is stored.
    fn to_stored(_object: &mut Value) {}
    /// From the one that is stored to this version.
    fn from_stored(_object: &mut Value) {}
}

/// Checks that a name keeps a rule.
pub fn validate_name(rule: ValidateName, meta: &ObjectMeta, errs: &mut ErrorList) {
    let metadata = FieldPath::Root.field("metadata");
    if !meta.generate_name().is_empty() {
        let at = metadata.field("generateName");
        errs.invalid_each(&at, meta.generate_name(), rule(meta.generate_name(), true));
    }
    if meta.name().is_empty() {
        errs.required(&metadata.field("name"), "name or generateName is required");
    } else {
        errs.invalid_each(&metadata.field("name"), meta.name(), rule(meta.name(), false));
    }
}
