//! The declarations of a built-in kind: its names, scope, storage, columns and hooks.

use std::{collections::BTreeMap, mem, time::Duration};

use object::{
    Lens, NamespacedName, Object, ObjectMeta, OwnerReference, Text, Value, View as _, WriteCause,
};

use crate::{
    ErrorList, FieldPaths, SelectableField, Subresource, SubresourceStrategy, TableColumn,
    ValidateName, WarningList, name_validation,
};

/// The group, version, kind and resource names of a kind.
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
    /// Names with a singular that is derived from the kind and the plural.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let singular = match plural.split_at_checked(kind.len()) {
            Some((singular, _)) => singular,
            None => plural, // a kind without a resource has neither
        };
        Self { group, version, kind, plural, singular, short_names: &[], categories: &[] }
    }

    /// Sets the singular, where the plural does not begin with it.
    pub const fn singular(self, singular: &'static str) -> Self {
        Self { singular, ..self }
    }

    /// Sets the short names, such as `po` for pods.
    pub const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short_names: short, ..self }
    }

    /// Sets the categories, such as `all`.
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

/// Whether objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Where objects are stored, below `/registry/`, and in which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// Empty: the kind is not stored, like a review.
    pub prefix: &'static str,
    /// The storage version, with its group if that is not the kind's own.
    pub version: &'static str,
    /// Whether objects are stored as JSON; otherwise as protobuf.
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

/// Verbs in discovery.
pub mod verbs {
    pub const ALL: &[&str] =
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    pub const NO_COLLECTION: &[&str] =
        &["create", "delete", "get", "list", "patch", "update", "watch"];
    pub const CREATE: &[&str] = &["create"];
    /// The verbs of custom resources, in the order in which discovery lists them.
    pub const CUSTOM: &[&str] =
        &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
}

/// The metadata fields that clients can set. For strict kinds, an update of the status leaves them
/// unchanged.
pub const CLIENT_METADATA_FIELDS: &[&str] =
    &["annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences", "selfLink"];

/// The user of a write request, and its time.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// Seconds since 1970.
    pub now: i64,
    pub user: &'a str,
    pub uid: &'a str,
    pub groups: &'a [Text],
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// The grace period of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GracefulDeletion {
    /// The object is deleted at once, whatever the request says.
    None,
    /// In seconds.
    Seconds(i64),
}

/// A component that acts on objects and that a cluster may lack, such as an ingress controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// The warning to clients that write an object when the component is missing.
    pub lacking: &'static str,
    /// Group and plural of a resource whose existence shows that the component is installed.
    pub announced_by: Option<(&'static str, &'static str)>,
}

/// A built-in kind. Declare its names, and override a hook only where the kind differs from the
/// default. Hooks see the object through a typed lens on the server's own value: nothing is
/// decoded, copied or lost.
pub trait Kind: Lens {
    const NAMES: ResourceNames;
    const SCOPE: Scope = Scope::Namespaced;
    const VERBS: &'static [&'static str] = verbs::ALL;
    const STORAGE: StorageConfig = StorageConfig::new(Self::NAMES.plural, Self::NAMES.version);
    /// The component that objects of the kind need and that a cluster may lack.
    const NEEDS: Option<&'static Part> = None;
    /// Whether `metadata.generation` counts changes of the desired state.
    const GENERATION: bool = false;
    /// After how long objects expire.
    const TTL: Option<Duration> = None;
    /// Whether the response to a deletion is the deleted object; otherwise it is a Status.
    const SHOWS_DELETED: bool = false;
    /// If set, dependents are orphaned when a deletion sets no propagation policy. The text is the
    /// warning to the client.
    const ORPHANS: Option<&'static str> = None;
    /// Whether an update without a resourceVersion is allowed.
    const BLIND_UPDATES: bool = true;
    /// Whether disabled fields count as a change of the generation before they are dropped.
    const COUNTS_DORMANT: bool = false;
    /// Whether validation of updates distinguishes empty lists and maps from absent ones.
    const TELLS_HOLLOW: bool = false;
    /// Metadata fields that an update of the status leaves unchanged; `*`: all.
    const STATUS_KEEPS: &'static [&'static str] = &[];
    /// The fields that a write to the resource itself leaves unchanged, whatever it contains.
    const RESET_FIELDS: FieldPaths = &[&["status"]];
    /// Whether finalizers without a domain may have any name.
    const ANY_FINALIZER: bool = false;
    /// Whether an update of the status validates finalizers too.
    const STATUS_CHECKS_FINALIZERS: bool = true;
    /// Whether an update validates `generateName` by the kind's name validation, as upstream does
    /// where it validates an update like a new object.
    const UPDATE_CHECKS_GENERATE_NAME: bool = false;
    /// Whether an empty list or map that the old object lacks is a change of the generation.
    const EMPTY_IS_A_CHANGE: bool = false;
    /// Whether the kind has finalizers in its spec too, which a subresource removes.
    const FINALIZERS_IN_SPEC: bool = false;
    /// Whether upstream serves the kind from an API server of its own: its scheme knows no other
    /// groups, and it reports duplicate errors.
    const SEPARATE_SERVER: bool = false;
    /// Other API versions of the kind that upstream's scheme still knows, served or not. Stored
    /// objects may have them.
    const FORMER_API_VERSIONS: &'static [&'static str] = &[];
    /// Whether validation compiles expressions or patterns, which may take long.
    const COMPILES: bool = false;
    /// Whether an update of an object that does not exist creates it.
    const CREATED_BY_UPDATE: bool = false;
    /// Whether `generateName` is used as the name, without a suffix.
    const EXACT_NAMES: bool = false;
    /// Whether empty bytes differ from absent ones, in storage and for the generation.
    const EMPTY_BYTES: bool = false;
    /// Whether the version is served by default.
    const DEFAULT_ON: bool = true;
    /// The deprecation warning of the version, after "is"; empty: not deprecated.
    const DEPRECATED: &'static str = "";
    /// The feature gate that enables the version.
    const GATE: Option<&'static str> = None;
    const SUBRESOURCES: &'static [Subresource] = &[];
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::CREATED_AT];
    const INDEXES: &'static [SelectableField<Self>] = &[];
    /// The error for an unknown field selector: `{}` is replaced by its name, `{kind}` by the kind.
    const NO_INDEX: &'static str = "field label not supported: {}";
    const NAME: ValidateName = name_validation::dns_subdomain;

    fn meta(&self) -> &ObjectMeta {
        Object::view(self.tree()).metadata()
    }

    /// Whether the object is being deleted (has a deletionTimestamp).
    fn is_terminating(&self) -> bool {
        self.meta().is_terminating()
    }

    /// The controller reference to this object, for objects that it manages.
    fn controller_ref(&self) -> OwnerReference {
        OwnerReference::new()
            .with_api_version(Self::NAMES.api_version())
            .with_kind(Self::NAMES.kind)
            .with_name(self.meta().name())
            .with_uid(self.meta().uid())
            .with_controller(true)
            .with_block_owner_deletion(true)
    }

    /// This object, in its current revision, as the cause of a write.
    fn write_cause(&self, rule: &str) -> WriteCause {
        WriteCause {
            reason: rule.into(),
            kind: Self::NAMES.kind.into(),
            key: NamespacedName::from_meta(self.meta()),
            uid: self.meta().uid().into(),
            revision: self.meta().revision(),
        }
    }

    /// The grace period of a deletion that requests `_asked` seconds.
    fn grace(&self, _asked: Option<i64>) -> GracefulDeletion {
        GracefulDeletion::None
    }
    /// The decode error of a value that Go's conversion cannot parse, with Go's message.
    fn misread(&self) -> Option<String> {
        None
    }
    /// Sets defaults that depend on other fields. Constant defaults are declared on the field.
    fn default_fields(&mut self) {}
    /// Sets defaults that depend on the request, such as its time.
    fn stamp(&mut self, _by: &WriteContext) {}
    /// Changes the object before it is created, after admission. By default clears the status,
    /// which only the status subresource may set.
    fn prepare_create(&mut self) {
        let has_status = |part: &Subresource| part.strategy == SubresourceStrategy::Status;
        if Self::SUBRESOURCES.iter().any(has_status) {
            let mut tree: Value = mem::take(self).into();
            tree["status"] = Value::object();
            *self = tree.into();
        }
    }
    /// Changes the object before the main resource is updated.
    fn prepare_update(&mut self, _old: &Self) {}
    /// Changes the object before its status is updated.
    fn prepare_status(&mut self, _old: &Self) {}
    /// Records the user or the time of a write in the object.
    fn sign(&mut self, _old: Option<&Self>, _by: &WriteContext) {}
    /// Changes the object before a subresource is updated: everything but the subresource's fields
    /// is reset to the old object.
    fn prepare_part(&mut self, _part: &str, _old: &Self) {}
    /// Sort key of the object in a table; objects with equal keys are sorted by name.
    fn rank(&self) -> i64 {
        0
    }
    /// Reason and message of the row condition `Completed`, for finished objects.
    fn ended(&self) -> Option<(&'static str, &'static str)> {
        None
    }
    /// Validates a new object.
    fn validate(&self, _errs: &mut ErrorList) {}
    /// Validates an update; by default like a new object.
    fn validate_update(&self, _old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
    }
    /// Validates an update of the status.
    fn validate_status(&self, _old: &Self, _errs: &mut ErrorList) {}
    /// Like `validate_status`, where validation depends on the time (seconds since 1970).
    fn validate_status_at(&self, old: &Self, _now: i64, errs: &mut ErrorList) {
        self.validate_status(old, errs);
    }
    /// Validates an update of a subresource that writes a field or has hooks.
    fn validate_part(&self, _part: &str, _old: &Self, _errs: &mut ErrorList) {}
    /// The component that this object needs; without it the object is stored and has no effect.
    fn needs(&self) -> Option<&'static Part> {
        Self::NEEDS
    }
    /// Collects warnings for the client, such as deprecated fields. `_old` is set on updates.
    fn warn(&self, _old: Option<&Self>, _warnings: &mut WarningList) {}
    /// Collects warnings about an update of the status.
    fn warn_status(&self, _warnings: &mut WarningList) {}

    /// Changes an object that is being deleted and not removed at once.
    fn prepare_delete(&mut self, _now: i64) {}
    /// Marks an object that is being deleted, each time that its deletion is requested.
    fn mark_terminating(&mut self) {}
    /// Validates what only this served version requires; both objects are in the storage version.
    fn validate_version(_object: &Value, _old: Option<&Value>, _errs: &mut ErrorList) {}

    /// Converts an object from this version to the storage version.
    fn to_stored(_object: &mut Value) {}
    /// Converts an object from the storage version to this version.
    fn from_stored(_object: &mut Value) {}
}
