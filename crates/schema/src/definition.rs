//! Resource definitions: a kind in one version as the server handles it, built-in or custom.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use object::{FieldSchema, SchemaRef, StructSchema, Text, Time, Type, Value};

use crate::{
    ErrorList, FeatureGates, FieldPath, GracefulDeletion, Kind, Part, ResourceNames, Scope,
    StorageConfig, Subresource, UnknownFields, ValidateName, WarningList, WriteContext,
    check::has_validations,
    coerce_to_schema_version,
    custom::CustomResource,
    kind::{CLIENT_METADATA_FIELDS, TableColumn, validate_name},
    meta::validate_finalizers,
    normalize::{drop_new_empty, has_empty_collection, is_collection, normalize, restore_empty},
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
    pub subresources: &'static [Subresource],
    pub schema: SchemaRef<StructSchema>,
    pub columns: Arc<[TableColumnDefinition]>,
    pub strategy: Arc<dyn Strategy>,
    /// What only custom resources have.
    pub custom_resource: Option<Arc<CustomResource>>,
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

/// The hooks of a kind, on untyped values. Built-in kinds implement them through `Kind`, whose
/// methods are documented in more detail.
pub trait Strategy: fmt::Debug + Send + Sync {
    /// Sets defaults that depend on other fields.
    fn default_fields(&self, _object: &mut Value) {}
    /// The decode error of a value that Go's conversion cannot parse.
    fn decode_error(&self, _object: &Value) -> Option<String> {
        None
    }
    /// Changes the object before it is created.
    fn prepare_for_create(&self, _object: &mut Value) {}
    /// Changes the object before the main resource is updated.
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}
    /// Changes the object before its status is updated.
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}
    /// Sets defaults that depend on the request, such as its time.
    fn default_from_request(&self, _object: &mut Value, _by: &WriteContext) {}
    /// Records the user or the time of a write in the object.
    fn record_request_info(&self, _object: &mut Value, _old: Option<&Value>, _by: &WriteContext) {}
    /// Changes the object before a subresource is updated.
    fn prepare_subresource(&self, _object: &mut Value, _part: &str, _old: &Value) {}
    /// Validates a new object, or an update if `_old` is set.
    fn validate(&self, _object: &Value, _old: Option<&Value>, _errs: &mut ErrorList) {}
    /// Validates an update of a subresource.
    fn validate_subresource(
        &self,
        _object: &Value,
        _part: &str,
        _old: &Value,
        _errs: &mut ErrorList,
    ) {
    }
    /// Validates an update of the status.
    fn validate_status(&self, _object: &Value, _old: &Value, _errs: &mut ErrorList) {}
    /// Validates what only this served version requires.
    fn validate_served_version(
        &self,
        _object: &Value,
        _old: Option<&Value>,
        _errs: &mut ErrorList,
    ) {
    }
    /// Like `validate_status`, at this time (seconds since 1970).
    fn validate_status_at(&self, object: &Value, old: &Value, _now: i64, errs: &mut ErrorList) {
        self.validate_status(object, old, errs);
    }
    /// Validates an update of the `approval` subresource.
    fn validate_approval(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        self.validate_status(object, old, errs);
    }
    /// Collects warnings for the client.
    fn warnings(&self, _object: &Value, _old: Option<&Value>, _warnings: &mut WarningList) {}
    /// The component that the object needs and that a cluster may lack.
    fn needs(&self, _object: &Value) -> Option<&'static Part> {
        None
    }
    /// Collects warnings about an update of the status.
    fn warn_status(&self, _object: &Value, _warnings: &mut WarningList) {}
    /// Whether an update without a resourceVersion is allowed.
    fn allow_unconditional_update(&self) -> bool {
        false
    }
    /// Whether validation of this object may take so long that it must not block other requests.
    fn is_expensive(&self, _object: &Value) -> bool {
        false
    }
    /// Whether disabled fields count as a change of the generation before they are dropped.
    fn generation_counts_disabled_fields(&self) -> bool {
        false
    }
    /// Whether validation of updates distinguishes empty lists and maps from absent ones.
    fn distinguishes_empty(&self) -> bool {
        false
    }
    /// Metadata fields that an update of the status leaves unchanged; `*`: all.
    fn status_reset_metadata(&self) -> &'static [&'static str] {
        CLIENT_METADATA_FIELDS
    }
    /// The cells of the object's table row at this time (seconds since 1970).
    fn table_cells(&self, _object: &Value, _now: i64) -> Vec<Value> {
        Vec::new()
    }
    /// Sort key of the object in a table; objects with equal keys are sorted by name.
    fn table_sort_key(&self, _object: &Value) -> i64 {
        0
    }
    /// Reason and message of the row condition `Completed`.
    fn completed_condition(&self, _object: &Value) -> Option<(&'static str, &'static str)> {
        None
    }
    /// The field selectors of the kind, besides name and namespace.
    fn selectable_fields(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The error for an unknown field selector: see [`Kind::NO_INDEX`].
    fn unsupported_field_message(&self) -> &'static str {
        "field label not supported: {}"
    }
    /// The selectable fields that have a topic in the watch cache.
    fn watch_topic_fields(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The value of a selectable field.
    fn selectable_field_value(&self, _object: &Value, _name: &str) -> Option<Text> {
        None
    }
    /// The grace period of a deletion that requests `_asked` seconds.
    fn check_graceful_delete(&self, _object: &Value, _asked: Option<i64>) -> GracefulDeletion {
        GracefulDeletion::None
    }
    /// Changes an object that is being deleted and not removed at once.
    fn prepare_delete(&self, _object: &mut Value, _now: i64) {}
    /// Converts an object from this version to the storage version.
    fn convert_to_storage(&self, _object: &mut Value) {}
    /// Converts an object from the storage version to this version.
    fn convert_from_storage(&self, _object: &mut Value) {}
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
            subresources: K::SUBRESOURCES,
            schema: SchemaRef::Static(K::SHAPE),
            columns: K::COLUMNS.iter().map(info).collect(),
            strategy: Arc::new(KindStrategy::<K>(PhantomData)),
            custom_resource: None,
        }
    }

    /// Coerces a decoded value to the kind's type schema: checks every type and collects unknown
    /// fields. The error is that of Go's decoder.
    pub fn coerce(&self, object: &mut Value, unknown: &mut UnknownFields) -> Result<(), String> {
        if let Some(custom) = &self.custom_resource {
            return custom.conform(object, unknown);
        }
        coerce_to_schema_version(self.names.version, &self.schema, object, unknown)?;
        self.strategy.decode_error(object).map_or(Ok(()), Err)
    }

    /// Normalizes the object: sets constant defaults and drops empty values.
    pub fn normalize(&self, object: &mut Value) {
        match &self.custom_resource {
            Some(_) => CustomResource::normalize(object),
            None if self.keep_empty_bytes
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
            None => normalize(&self.schema, object),
        }
    }

    /// Normalizes the object for storage; for custom resources also the notation of numbers.
    pub fn normalize_for_storage(&self, object: &mut Value) {
        self.normalize(object);
        if let Some(kept) =
            self.custom_resource.as_ref().and_then(|_| CustomResource::normalize_numbers(object))
        {
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
        let hollow = self.custom_resource.is_none() && has_empty_collection(&self.schema, given);
        hollow.then(|| given.clone())
    }

    /// Restores the lists and maps that were explicitly empty in `given`.
    pub fn restore_empty(&self, object: &mut Value, given: &Value) {
        restore_empty(&self.schema, object, given, is_collection);
    }

    /// Drops empty lists and maps that the old object lacks, because they are no change. Returns
    /// whether they count as a change nevertheless, as they do for some kinds.
    pub fn drop_new_empty(&self, new: &mut Value, old: &Value) -> bool {
        if self.custom_resource.is_some() {
            return false;
        }
        let wanted = |object: &Value| (object.get("spec").clone(), object.get("webhooks").clone());
        let exact =
            ["MutatingWebhookConfiguration", "NetworkPolicy", "ValidatingWebhookConfiguration"];
        let given = exact.contains(&self.names.kind).then(|| wanted(new));
        drop_new_empty(&self.schema, new, old);
        given.is_some_and(|given| given != wanted(new))
    }

    /// Normalizes an object that was read from the store: it may have been written with another
    /// schema.
    pub fn normalize_stored(&self, object: &mut Value) {
        if self.custom_resource.is_some() {
            // Metadata that cannot be decoded stays as it is until the next write.
            if self.coerce(object, &mut UnknownFields::new()).is_ok() {
                self.strategy.default_fields(object);
            }
        }
        self.normalize(object);
        if self.custom_resource.is_none() {
            // Some defaults apply only to stored objects that another server wrote, such as a Job's
            // labels.
            self.strategy.default_fields(object);
            self.normalize(object);
        }
    }

    /// The kind of a list of these objects.
    pub fn list_kind(&self) -> String {
        match &self.custom_resource {
            Some(custom) => custom.list_kind.to_string(),
            None => format!("{}List", self.names.kind),
        }
    }

    /// Whether a write to this subresource changes the desired state, so that `metadata.generation`
    /// must be incremented. For a built-in kind that is a change of `spec`; for a custom resource
    /// it is any change outside `metadata`, and never one made through a subresource.
    pub fn changes_generation(&self, subresource: &str, new: &Value, old: &Value) -> bool {
        match &self.custom_resource {
            Some(_) if !subresource.is_empty() => false,
            Some(_) => {
                let besides = |object: &Value| {
                    let mut object = object.clone();
                    object.remove("metadata");
                    object
                };
                besides(new) != besides(old)
            }
            None => new.get("spec") != old.get("spec"),
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
            subresources: &[],
            custom_resource: None,
            schema: shape,
            columns: Arc::new([]),
            strategy: Arc::new(NoStrategy),
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether duplicate errors are reported repeatedly, as upstream's other API servers do.
    pub fn keeps_duplicate_errors(&self) -> bool {
        let other = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
        self.custom_resource.is_some() || other.contains(&self.names.group)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn is_stored(&self) -> bool {
        !self.storage.prefix.is_empty()
    }
}

/// Kinds for which upstream validates an update like a new object.
const FULL_UPDATE_VALIDATION_KINDS: &str = "ConfigMap ControllerRevision CSINode CSIStorageCapacity Endpoints EndpointSlice FlowSchema \
    Ingress IngressClass IPAddress LimitRange MutatingAdmissionPolicy MutatingAdmissionPolicyBinding \
    MutatingWebhookConfiguration Namespace Node PersistentVolume PersistentVolumeClaim Pod \
    PriorityLevelConfiguration ResourceClaim ResourceClaimTemplate RuntimeClass Secret ServiceAccount \
    StorageClass StorageVersionMigration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding \
    ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass";

/// The strategy of kinds without hooks.
#[derive(Debug)]
struct NoStrategy;

impl Strategy for NoStrategy {}

/// The strategy of a `Kind`: views the value through the kind's lens and calls its hook.
struct KindStrategy<K>(PhantomData<fn() -> K>);

impl<K: Kind> fmt::Debug for KindStrategy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(K::NAMES.kind)
    }
}

impl<K: Kind> Strategy for KindStrategy<K> {
    fn default_fields(&self, object: &mut Value) {
        K::ref_cast_mut(object).default_fields();
    }

    fn decode_error(&self, object: &Value) -> Option<String> {
        K::view(object).misread()
    }

    fn prepare_for_create(&self, object: &mut Value) {
        K::ref_cast_mut(object).prepare_create();
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_update(K::view(old));
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_status(K::view(old));
    }

    fn default_from_request(&self, object: &mut Value, by: &WriteContext) {
        K::ref_cast_mut(object).stamp(by);
    }

    fn record_request_info(&self, object: &mut Value, old: Option<&Value>, by: &WriteContext) {
        K::ref_cast_mut(object).sign(old.map(K::view), by);
    }

    fn prepare_subresource(&self, object: &mut Value, part: &str, old: &Value) {
        K::ref_cast_mut(object).prepare_part(part, K::view(old));
    }

    fn validate_subresource(&self, object: &Value, part: &str, old: &Value, errs: &mut ErrorList) {
        K::view(object).validate_part(part, K::view(old), errs);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        let (object, rule): (_, ValidateName) = (K::view(object), K::NAME);
        if !K::ANY_FINALIZER {
            validate_finalizers(object.meta(), errs);
        }
        match old {
            None => {
                // Errors of the name come first.
                let others = std::mem::take(errs);
                validate_name(rule, object.meta(), errs);
                errs.0.extend(others.0);
                object.validate(errs);
            }
            Some(old) => {
                let (meta, whole) = (
                    object.meta(),
                    FULL_UPDATE_VALIDATION_KINDS.split(' ').any(|kind| kind == K::NAMES.kind),
                );
                if whole && !meta.generate_name().is_empty() {
                    let wrong = rule(meta.generate_name(), true);
                    let at = FieldPath::Root.field("metadata");
                    errs.invalid_each(&at.field("generateName"), meta.generate_name(), wrong);
                }
                object.validate_update(K::view(old), errs);
            }
        }
    }

    fn validate_status(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        K::view(object).validate_status(K::view(old), errs);
    }

    fn validate_served_version(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        K::validate_version(object, old, errs);
    }

    fn validate_status_at(&self, object: &Value, old: &Value, now: i64, errs: &mut ErrorList) {
        // Upstream validates no finalizers here for a CronJob.
        if !K::ANY_FINALIZER && K::NAMES.kind != "CronJob" {
            validate_finalizers(K::view(object).meta(), errs);
        }
        K::view(object).validate_status_at(K::view(old), now, errs);
    }

    fn validate_approval(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        K::view(object).validate_approval(K::view(old), errs);
    }

    fn needs(&self, object: &Value) -> Option<&'static Part> {
        K::view(object).needs()
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, warnings: &mut WarningList) {
        K::view(object).warn(old.map(K::view), warnings);
    }

    fn warn_status(&self, object: &Value, warnings: &mut WarningList) {
        K::view(object).warn_status(warnings);
    }

    fn allow_unconditional_update(&self) -> bool {
        K::BLIND_UPDATES
    }

    fn is_expensive(&self, _object: &Value) -> bool {
        K::COMPILES
    }

    fn generation_counts_disabled_fields(&self) -> bool {
        K::COUNTS_DORMANT
    }

    fn distinguishes_empty(&self) -> bool {
        K::TELLS_HOLLOW
    }

    fn status_reset_metadata(&self) -> &'static [&'static str] {
        K::STATUS_KEEPS
    }

    fn table_cells(&self, object: &Value, now: i64) -> Vec<Value> {
        K::COLUMNS.iter().map(|column| (column.cell)(K::view(object), now)).collect()
    }

    fn table_sort_key(&self, object: &Value) -> i64 {
        K::view(object).rank()
    }

    fn completed_condition(&self, object: &Value) -> Option<(&'static str, &'static str)> {
        K::view(object).ended()
    }

    fn selectable_fields(&self) -> Vec<&str> {
        K::INDEXES.iter().map(|index| index.name).collect()
    }

    fn unsupported_field_message(&self) -> &'static str {
        K::NO_INDEX
    }

    fn watch_topic_fields(&self) -> Vec<&str> {
        K::INDEXES.iter().filter(|index| index.watch_topic).map(|index| index.name).collect()
    }

    fn selectable_field_value(&self, object: &Value, name: &str) -> Option<Text> {
        let index = K::INDEXES.iter().find(|index| index.name == name)?;
        Some((index.value)(K::view(object)).into())
    }

    fn check_graceful_delete(&self, object: &Value, asked: Option<i64>) -> GracefulDeletion {
        K::view(object).grace(asked)
    }

    fn prepare_delete(&self, object: &mut Value, now: i64) {
        K::ref_cast_mut(object).prepare_delete(now);
    }

    fn convert_to_storage(&self, object: &mut Value) {
        K::to_stored(object);
    }

    fn convert_from_storage(&self, object: &mut Value) {
        K::from_stored(object);
    }
}

/// The time since `moment` as tables show it: `5s`, `3m12s`, `4h`, `12d`.
pub fn age(moment: &str, now: i64) -> String {
    match Time::parse_seconds(moment) {
        Some(then) => human_duration(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// A duration as kubectl prints it: exact if short, rounded if long.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with = |big: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{rest}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
