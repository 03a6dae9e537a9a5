//! Resource definitions: a kind in one version as the server handles it, built-in or custom.

use std::{sync::Arc, time::Duration};

use object::{FieldSchema, SchemaRef, StructSchema, Text, Type, Value};

use crate::{
    FeatureGates, FieldPaths, Kind, ResourceNames, Scope, StorageConfig, Strategy, Subresource,
    SubresourceStrategy, TableColumn, UnknownFields,
    check::has_validations,
    coerce_to_schema_version,
    custom::CustomResource,
    kind_strategy::KindStrategy,
    normalize::{drop_new_empty, has_empty_collection, is_collection, normalize, restore_empty},
    strategy::NoStrategy,
};

/// A kind in one version, built-in or declared by a CRD.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct ResourceDefinition {
    pub names: ResourceNames,
    pub scope: Scope,
    pub verbs: &'static [&'static str],
    pub storage: StorageConfig,
    pub enabled_by_default: bool,
    /// See [`Kind::DEPRECATED`].
    pub deprecated: &'static str,
    /// The feature gate that enables the version.
    pub feature_gate: Option<&'static str>,
    pub feature_gates: FeatureGates,
    /// Whether a field declares validations.
    pub has_validations: bool,
    /// Whether clients can request the version; otherwise it is only the storage version.
    pub served: bool,
    pub tracks_generation: bool,
    pub ttl: Option<Duration>,
    pub return_deleted_object: bool,
    /// See [`Kind::ORPHANS`].
    pub orphan_by_default: Option<&'static str>,
    pub allow_create_on_update: bool,
    pub generate_exact_name: bool,
    /// Whether empty bytes are distinguished from absent ones, in storage and for the generation.
    /// Responses do not show the difference.
    pub keep_empty_bytes: bool,
    /// See [`Kind::EMPTY_IS_A_CHANGE`].
    pub empty_is_a_change: bool,
    /// See [`Kind::FINALIZERS_IN_SPEC`].
    pub finalizers_in_spec: bool,
    /// See [`Kind::SEPARATE_SERVER`].
    pub separate_server: bool,
    /// See [`Kind::FORMER_API_VERSIONS`].
    pub former_api_versions: &'static [&'static str],
    /// The fields that a write to the resource itself leaves unchanged.
    pub reset_fields: FieldPaths,
    pub subresources: &'static [Subresource],
    pub schema: SchemaRef<StructSchema>,
    pub columns: Arc<[TableColumnDefinition]>,
    pub strategy: Arc<dyn Strategy>,
    pub origin: Origin,
}

/// Who declared a kind.
#[derive(Clone, Debug)]
pub enum Origin {
    BuiltIn,
    /// A CRD, with what only custom resources have.
    Custom(Arc<CustomResource>),
}

/// The description of a table column, without the cells.
#[derive(Clone, Debug)]
pub struct TableColumnDefinition {
    pub name: Text,
    pub ty: Text,
    pub format: Text,
    pub priority: i32,
    /// Empty if there is none, as for built-in kinds.
    pub description: Text,
}

impl ResourceDefinition {
    /// The definition of a built-in kind.
    pub fn from_kind<K: Kind>() -> Self {
        let info = |column: &TableColumn<K>| TableColumnDefinition {
            name: column.name.into(),
            ty: column.ty.into(),
            format: column.format.into(),
            priority: column.priority,
            description: Text::default(),
        };
        Self {
            names: K::NAMES,
            scope: K::SCOPE,
            verbs: K::VERBS,
            storage: K::STORAGE,
            enabled_by_default: K::DEFAULT_ON,
            deprecated: K::DEPRECATED,
            feature_gate: K::GATE,
            feature_gates: FeatureGates::default(),
            has_validations: has_validations(K::SHAPE),
            served: true,
            tracks_generation: K::GENERATION,
            ttl: K::TTL,
            return_deleted_object: K::SHOWS_DELETED,
            orphan_by_default: K::ORPHANS,
            allow_create_on_update: K::CREATED_BY_UPDATE,
            generate_exact_name: K::EXACT_NAMES,
            keep_empty_bytes: K::EMPTY_BYTES,
            empty_is_a_change: K::EMPTY_IS_A_CHANGE,
            finalizers_in_spec: K::FINALIZERS_IN_SPEC,
            separate_server: K::SEPARATE_SERVER,
            former_api_versions: K::FORMER_API_VERSIONS,
            reset_fields: K::RESET_FIELDS,
            subresources: K::SUBRESOURCES,
            schema: SchemaRef::Static(K::SHAPE),
            columns: K::COLUMNS.iter().map(info).collect(),
            strategy: Arc::new(KindStrategy::<K>::NEW),
            origin: Origin::BuiltIn,
        }
    }

    /// Coerces a decoded value to the kind's type schema: checks every type and collects unknown
    /// fields. The error is that of Go's decoder.
    pub fn coerce(&self, object: &mut Value, unknown: &mut UnknownFields) -> Result<(), String> {
        if let Some(custom) = self.custom() {
            return custom.conform(object, unknown);
        }
        coerce_to_schema_version(self.names.version, &self.schema, object, unknown)?;
        self.strategy.decode_error(object).map_or(Ok(()), Err)
    }

    /// Normalizes the object: sets constant defaults and drops empty values.
    pub fn normalize(&self, object: &mut Value) {
        match self.origin {
            Origin::Custom(_) => CustomResource::normalize(object),
            Origin::BuiltIn
                if self.keep_empty_bytes
                    || self.storage.json && has_empty_collection(&self.schema, object) =>
            {
                let given = object.clone();
                normalize(&self.schema, object);
                let kept: fn(&FieldSchema) -> bool = match self.keep_empty_bytes {
                    true => |field| matches!(*field.ty, Type::Bytes),
                    false => |field| field.attributes.no_omitempty && is_collection(field),
                };
                restore_empty(&self.schema, object, &given, kept);
            }
            Origin::BuiltIn => normalize(&self.schema, object),
        }
    }

    /// Normalizes the object for storage; for custom resources also the notation of numbers.
    pub fn normalize_for_storage(&self, object: &mut Value) {
        self.normalize(object);
        if let Some(kept) = self.custom().and_then(|_| CustomResource::normalize_numbers(object)) {
            *object = kept;
        }
    }

    /// Applies defaults. Explicitly empty values stay, so that validation sees them.
    pub fn apply_defaults(&self, object: &mut Value) {
        self.normalize_keep_empty(object);
        self.strategy.default_fields(object);
        self.normalize_keep_empty(object); // a hook may have created empty values
    }

    /// Like `normalize`, but keeps explicitly empty values. For objects that have the defaults of
    /// their own version.
    pub fn normalize_keep_empty(&self, object: &mut Value) {
        let given = self.snapshot_if_has_empty(object);
        self.normalize(object);
        if let Some(given) = &given {
            self.restore_empty(object, given);
        }
    }

    /// A copy of the object if it contains explicitly empty lists or maps.
    pub fn snapshot_if_has_empty(&self, given: &Value) -> Option<Value> {
        let hollow = self.is_built_in() && has_empty_collection(&self.schema, given);
        hollow.then(|| given.clone())
    }

    /// Restores the lists and maps that were explicitly empty in `given`.
    pub fn restore_empty(&self, object: &mut Value, given: &Value) {
        restore_empty(&self.schema, object, given, is_collection);
    }

    /// Drops empty lists and maps that the old object lacks, because they are no change. Returns
    /// whether they count as a change nevertheless, as they do for some kinds.
    pub fn drop_new_empty(&self, new: &mut Value, old: &Value) -> bool {
        if self.is_custom() {
            return false;
        }
        let wanted = |object: &Value| (object.get("spec").clone(), object.get("webhooks").clone());
        let given = self.empty_is_a_change.then(|| wanted(new));
        drop_new_empty(&self.schema, new, old);
        given.is_some_and(|given| given != wanted(new))
    }

    /// Normalizes an object that was read from the store: it may have been written with another
    /// schema.
    pub fn normalize_stored(&self, object: &mut Value) {
        if self.is_custom() {
            // Metadata that cannot be decoded stays as it is until the next write.
            if self.coerce(object, &mut UnknownFields::new()).is_ok() {
                self.strategy.default_fields(object);
            }
        }
        self.normalize(object);
        if self.is_built_in() {
            // Some defaults apply only to stored objects that another server wrote, such as a Job's
            // labels.
            self.strategy.default_fields(object);
            self.normalize(object);
        }
    }

    /// The kind of a list of these objects.
    pub fn list_kind(&self) -> String {
        match &self.origin {
            Origin::Custom(custom) => custom.list_kind.to_string(),
            Origin::BuiltIn => format!("{}List", self.names.kind),
        }
    }

    /// Whether a write to this subresource changes the desired state, so that `metadata.generation`
    /// must be incremented. For a built-in kind that is a change of `spec`; for a custom resource
    /// it is any change outside `metadata`, and never one made through a subresource.
    pub fn changes_generation(&self, subresource: &str, new: &Value, old: &Value) -> bool {
        match self.origin {
            Origin::Custom(_) if !subresource.is_empty() => false,
            Origin::Custom(_) => {
                let besides = |object: &Value| {
                    let mut object = object.clone();
                    object.remove("metadata");
                    object
                };
                besides(new) != besides(old)
            }
            Origin::BuiltIn => new.get("spec") != old.get("spec"),
        }
    }

    /// The definition of the kind in a further version with the same schema, and the deprecation of
    /// that version.
    pub fn additional_version<K: Kind>(version: &'static str, deprecated: &'static str) -> Self {
        let names = ResourceNames { version, ..K::NAMES };
        Self { names, deprecated, enabled_by_default: false, ..Self::from_kind::<K>() }
    }

    /// The warning to clients that use a deprecated version.
    pub fn deprecation_warning(&self) -> Option<String> {
        let ResourceNames { kind, .. } = self.names;
        let version = self.names.api_version();
        (!self.deprecated.is_empty()).then(|| format!("{version} {kind} is {}", self.deprecated))
    }

    /// A kind without a resource: the body of some subresources.
    pub fn without_resource(names: ResourceNames, shape: &'static StructSchema) -> Self {
        Self::minimal(names, SchemaRef::Static(shape))
    }

    /// A kind with these names and this type schema, and no behaviour.
    pub(crate) fn minimal(names: ResourceNames, shape: SchemaRef<StructSchema>) -> Self {
        Self {
            names,
            scope: Scope::Namespaced,
            verbs: &[],
            storage: StorageConfig::NONE,
            enabled_by_default: true,
            deprecated: "",
            feature_gate: None,
            feature_gates: FeatureGates::default(),
            has_validations: false,
            served: true,
            tracks_generation: false,
            ttl: None,
            return_deleted_object: false,
            orphan_by_default: None,
            allow_create_on_update: false,
            generate_exact_name: false,
            keep_empty_bytes: false,
            empty_is_a_change: false,
            finalizers_in_spec: false,
            separate_server: false,
            former_api_versions: &[],
            reset_fields: &[],
            subresources: &[],
            origin: Origin::BuiltIn,
            schema: shape,
            columns: Arc::new([]),
            strategy: Arc::new(NoStrategy),
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// How a write to this subresource changes the object; `None` for the resource itself.
    pub fn subresource_strategy(&self, name: &str) -> Option<SubresourceStrategy> {
        self.subresource(name).map(|subresource| subresource.strategy)
    }

    /// Whether duplicate errors are reported repeatedly, as upstream's other API servers do.
    pub fn keeps_duplicate_errors(&self) -> bool {
        self.is_custom() || self.separate_server
    }

    /// What only custom resources have; `None` for a built-in kind.
    pub fn custom(&self) -> Option<&Arc<CustomResource>> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::Custom(custom) => Some(custom),
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom(_))
    }

    pub fn is_built_in(&self) -> bool {
        matches!(self.origin, Origin::BuiltIn)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn is_stored(&self) -> bool {
        !self.storage.prefix.is_empty()
    }
}
