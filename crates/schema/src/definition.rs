//! A kind as the machinery sees it: built-in and CRD alike.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use object::{Field, Link, Struct, Text, Time, Type, Value};

use crate::{
    Errors, Gates, Grace, Kind, NameRule, Names, Part, Path, Scope, Storage, Subresource, Unknown,
    Warnings, Writer,
    check::has_checks,
    conform_as,
    custom::Custom,
    kind::{Column, METADATA, check_name},
    meta::check_finalizers,
    normalize::{can_be_hollow, drop_hollow, hollow_within, normalize, restore_hollow},
};

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Definition {
    pub names: Names,
    pub scope: Scope,
    pub verbs: &'static [&'static str],
    pub storage: Storage,
    pub default_on: bool,
    /// What is said of a version that goes away; empty where it stays.
    pub deprecated: &'static str,
    /// The feature without which it is not served.
    pub gate: Option<&'static str>,
    pub gates: Gates,
    /// Whether any field declares what must hold of it.
    pub checked: bool,
    /// Whether clients may ask for it; others are only stored in it.
    pub served: bool,
    pub generation: bool,
    pub ttl: Option<Duration>,
    pub shows_deleted: bool,
    /// See [`Kind::ORPHANS`].
    pub orphans: Option<&'static str>,
    pub created_by_update: bool,
    pub exact_names: bool,
    /// Whether it is kept, and counts, that bytes were given and are none. Nobody is shown it.
    pub empty_bytes: bool,
    pub subresources: &'static [Subresource],
    pub shape: Link<Struct>,
    pub columns: Arc<[ColumnInfo]>,
    pub hooks: Arc<dyn Hooks>,
    /// What a kind has besides that a CRD has declared.
    pub custom: Option<Arc<Custom>>,
}

/// A column without its cells.
#[derive(Clone, Debug)]
pub struct ColumnInfo {
    pub name: Text,
    pub ty: Text,
    pub format: Text,
    pub priority: i32,
    /// Empty: the name speaks for itself.
    pub description: Text,
}

/// The hooks of a kind, over trees. What each does is said at `Kind`.
pub trait Hooks: fmt::Debug + Send + Sync {
    fn default_fields(&self, _object: &mut Value) {}
    fn misread(&self, _object: &Value) -> Option<String> {
        None
    }
    fn prepare_create(&self, _object: &mut Value) {}
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}
    fn stamp(&self, _object: &mut Value, _by: &Writer) {}
    fn sign(&self, _object: &mut Value, _old: Option<&Value>, _by: &Writer) {}
    fn prepare_part(&self, _object: &mut Value, _part: &str, _old: &Value) {}
    fn validate(&self, _object: &Value, _old: Option<&Value>, _errs: &mut Errors) {}
    fn validate_part(&self, _object: &Value, _part: &str, _old: &Value, _errs: &mut Errors) {}
    fn validate_status(&self, _object: &Value, _old: &Value, _errs: &mut Errors) {}
    fn validate_version(&self, _object: &Value, _old: Option<&Value>, _errs: &mut Errors) {}
    fn validate_status_at(&self, object: &Value, old: &Value, _now: i64, errs: &mut Errors) {
        self.validate_status(object, old, errs);
    }
    fn validate_approval(&self, object: &Value, old: &Value, errs: &mut Errors) {
        self.validate_status(object, old, errs);
    }
    fn warn(&self, _object: &Value, _old: Option<&Value>, _warnings: &mut Warnings) {}
    fn needs(&self, _object: &Value) -> Option<&'static Part> {
        None
    }
    fn warn_status(&self, _object: &Value, _warnings: &mut Warnings) {}
    fn blind_updates(&self) -> bool {
        false
    }
    /// Whether checking this object may take longer than other requests can wait.
    fn is_expensive(&self, _object: &Value) -> bool {
        false
    }
    fn counts_dormant(&self) -> bool {
        false
    }
    fn tells_hollow(&self) -> bool {
        false
    }
    fn status_keeps(&self) -> &'static [&'static str] {
        METADATA
    }
    fn row(&self, _object: &Value, _now: i64) -> Vec<Value> {
        Vec::new()
    }
    /// Where an object stands in a table; names decide among equals.
    fn rank(&self, _object: &Value) -> i64 {
        0
    }
    /// Reason and message of a row's condition `Completed`.
    fn ended(&self, _object: &Value) -> Option<(&'static str, &'static str)> {
        None
    }
    /// The field selectors that the kind knows, besides name and namespace.
    fn fields(&self) -> Vec<&str> {
        Vec::new()
    }
    /// What is said of another one: see [`Kind::NO_INDEX`].
    fn no_field(&self) -> &'static str {
        "field label not supported: {}"
    }
    /// Those of them that are topics.
    fn topics(&self) -> Vec<&str> {
        Vec::new()
    }
    fn field(&self, _object: &Value, _name: &str) -> Option<Text> {
        None
    }
    fn grace(&self, _object: &Value, _asked: Option<i64>) -> Grace {
        Grace::None
    }
    /// What a deletion leaves on an object that is not gone at once.
    fn prepare_delete(&self, _object: &mut Value, _now: i64) {}
    fn to_stored(&self, _object: &mut Value) {}
    #[expect(clippy::wrong_self_convention, reason = "the object comes from there, not the hooks")]
    fn from_stored(&self, _object: &mut Value) {}
}

impl Definition {
    pub fn of<K: Kind>() -> Self {
        let info = |column: &Column<K>| ColumnInfo {
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
            default_on: K::DEFAULT_ON,
            deprecated: K::DEPRECATED,
            gate: K::GATE,
            gates: Gates::default(),
            checked: has_checks(K::SHAPE),
            served: true,
            generation: K::GENERATION,
            ttl: K::TTL,
            shows_deleted: K::SHOWS_DELETED,
            orphans: K::ORPHANS,
            created_by_update: K::CREATED_BY_UPDATE,
            exact_names: K::EXACT_NAMES,
            empty_bytes: K::EMPTY_BYTES,
            subresources: K::SUBRESOURCES,
            shape: Link::Static(K::SHAPE),
            columns: K::COLUMNS.iter().map(info).collect(),
            hooks: Arc::new(BuiltIn::<K>(PhantomData)),
            custom: None,
        }
    }

    /// Makes a decoded tree fit the kind: types are right, what is unknown is told. The
    /// error is Go's text.
    pub fn conform(&self, object: &mut Value, unknown: &mut Unknown) -> Result<(), String> {
        if let Some(custom) = &self.custom {
            return custom.conform(object, unknown);
        }
        conform_as(self.names.version, &self.shape, object, unknown)?;
        self.hooks.misread(object).map_or(Ok(()), Err)
    }

    /// Gives the object the one form that it is kept in.
    pub fn normalize(&self, object: &mut Value) {
        match &self.custom {
            Some(_) => Custom::normalize(object),
            None if self.empty_bytes || self.storage.json && hollow_within(&self.shape, object) => {
                let given = object.clone();
                normalize(&self.shape, object);
                let kept: fn(&Field) -> bool = match self.empty_bytes {
                    true => |field| matches!(*field.ty, Type::Bytes),
                    false => |field| field.rules.always && can_be_hollow(field),
                };
                restore_hollow(&self.shape, object, &given, kept);
            }
            None => normalize(&self.shape, object),
        }
    }

    /// The same, of what is stored next.
    pub fn seal(&self, object: &mut Value) {
        self.normalize(object);
        if let Some(kept) = self.custom.as_ref().and_then(|_| Custom::as_kept(object)) {
            *object = kept;
        }
    }

    /// Fills defaults. What was given empty stays, for the rules to see.
    pub fn fill(&self, object: &mut Value) {
        self.settle(object);
        self.hooks.default_fields(object);
        self.settle(object); // a hook may have reached into what was absent
    }

    /// As `fill`, for what has the defaults of its own version.
    pub fn settle(&self, object: &mut Value) {
        let given = self.hollow(object);
        self.normalize(object);
        if let Some(given) = &given {
            self.show_hollow(object, given);
        }
    }

    /// An object in which something was given empty.
    pub fn hollow(&self, given: &Value) -> Option<Value> {
        let hollow = self.custom.is_none() && hollow_within(&self.shape, given);
        hollow.then(|| given.clone())
    }

    /// Brings back what was `given` empty.
    pub fn show_hollow(&self, object: &mut Value, given: &Value) {
        restore_hollow(&self.shape, object, given, can_be_hollow);
    }

    /// What is empty, and was not there before, is no change. Gives whether it counts as one
    /// all the same, which it does for some kinds.
    pub fn drop_hollow(&self, new: &mut Value, old: &Value) -> bool {
        if self.custom.is_some() {
            return false;
        }
        let wanted = |object: &Value| (object.get("spec").clone(), object.get("webhooks").clone());
        let exact =
            ["MutatingWebhookConfiguration", "NetworkPolicy", "ValidatingWebhookConfiguration"];
        let given = exact.contains(&self.names.kind).then(|| wanted(new));
        drop_hollow(&self.shape, new, old);
        given.is_some_and(|given| given != wanted(new))
    }

    /// Takes an object from the store: it may have been written under another schema.
    pub fn restore(&self, object: &mut Value) {
        if self.custom.is_some() {
            // What cannot be read as metadata is left to whoever writes it next.
            if self.conform(object, &mut Unknown::new()).is_ok() {
                self.hooks.default_fields(object);
            }
        }
        self.normalize(object);
        if self.custom.is_none() {
            // Some are set only when it is read: labels of a job, by whoever else wrote it.
            self.hooks.default_fields(object);
            self.normalize(object);
        }
    }

    /// What a list of such objects is called.
    pub fn list_kind(&self) -> String {
        match &self.custom {
            Some(custom) => custom.list_kind.to_string(),
            None => format!("{}List", self.names.kind),
        }
    }

    /// Whether a write through this path changes what somebody wants of the object.
    pub fn counts(&self, subresource: &str, new: &Value, old: &Value) -> bool {
        match &self.custom {
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

    /// The same kind in a further version whose objects look alike, and what is said of
    /// that version if it goes away.
    pub fn also<K: Kind>(version: &'static str, deprecated: &'static str) -> Self {
        let names = Names { version, ..K::NAMES };
        Self { names, deprecated, default_on: false, ..Self::of::<K>() }
    }

    /// What those who use the version are told, if it goes away.
    pub fn warning(&self) -> Option<String> {
        let Names { kind, .. } = self.names;
        let version = self.names.api_version();
        (!self.deprecated.is_empty()).then(|| format!("{version} {kind} is {}", self.deprecated))
    }

    /// A kind that has no resource of its own: what some subresources take and give.
    pub fn bare(names: Names, shape: &'static Struct) -> Self {
        Self::plain(names, Link::Static(shape))
    }

    /// A kind with this name and shape, and nothing else.
    pub(crate) fn plain(names: Names, shape: Link<Struct>) -> Self {
        Self {
            names,
            scope: Scope::Namespaced,
            verbs: &[],
            storage: Storage::NONE,
            default_on: true,
            deprecated: "",
            gate: None,
            gates: Gates::default(),
            checked: false,
            served: true,
            generation: false,
            ttl: None,
            shows_deleted: false,
            orphans: None,
            created_by_update: false,
            exact_names: false,
            empty_bytes: false,
            subresources: &[],
            custom: None,
            shape,
            columns: Arc::new([]),
            hooks: Arc::new(NoHooks),
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether the same error is told as often as it is found: so it is of kinds that
    /// upstream's other servers serve.
    pub fn repeats(&self) -> bool {
        let other = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
        self.custom.is_some() || other.contains(&self.names.group)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn is_stored(&self) -> bool {
        !self.storage.prefix.is_empty()
    }
}

/// The kinds of which an update is held to all rules of a new object.
const WHOLE: &str = "ConfigMap ControllerRevision CSINode CSIStorageCapacity Endpoints EndpointSlice FlowSchema \
    Ingress IngressClass IPAddress LimitRange MutatingAdmissionPolicy MutatingAdmissionPolicyBinding \
    MutatingWebhookConfiguration Namespace Node PersistentVolume PersistentVolumeClaim Pod \
    PriorityLevelConfiguration ResourceClaim ResourceClaimTemplate RuntimeClass Secret ServiceAccount \
    StorageClass StorageVersionMigration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding \
    ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass";

#[derive(Debug)]
struct NoHooks;

impl Hooks for NoHooks {}

/// The hooks of a `Kind`: look at the tree through its lens, and call.
struct BuiltIn<K>(PhantomData<fn() -> K>);

impl<K: Kind> fmt::Debug for BuiltIn<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(K::NAMES.kind)
    }
}

impl<K: Kind> Hooks for BuiltIn<K> {
    fn default_fields(&self, object: &mut Value) {
        K::ref_cast_mut(object).default_fields();
    }

    fn misread(&self, object: &Value) -> Option<String> {
        K::view(object).misread()
    }

    fn prepare_create(&self, object: &mut Value) {
        K::ref_cast_mut(object).prepare_create();
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_update(K::view(old));
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_status(K::view(old));
    }

    fn stamp(&self, object: &mut Value, by: &Writer) {
        K::ref_cast_mut(object).stamp(by);
    }

    fn sign(&self, object: &mut Value, old: Option<&Value>, by: &Writer) {
        K::ref_cast_mut(object).sign(old.map(K::view), by);
    }

    fn prepare_part(&self, object: &mut Value, part: &str, old: &Value) {
        K::ref_cast_mut(object).prepare_part(part, K::view(old));
    }

    fn validate_part(&self, object: &Value, part: &str, old: &Value, errs: &mut Errors) {
        K::view(object).validate_part(part, K::view(old), errs);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut Errors) {
        let (object, rule): (_, NameRule) = (K::view(object), K::NAME);
        if !K::ANY_FINALIZER {
            check_finalizers(object.meta(), errs);
        }
        match old {
            None => {
                // Of all that is wrong, the name is told first.
                let others = std::mem::take(errs);
                check_name(rule, object.meta(), errs);
                errs.0.extend(others.0);
                object.validate(errs);
            }
            Some(old) => {
                let (meta, whole) =
                    (object.meta(), WHOLE.split(' ').any(|kind| kind == K::NAMES.kind));
                if whole && !meta.generate_name().is_empty() {
                    let wrong = rule(meta.generate_name(), true);
                    let at = Path::Root.field("metadata");
                    errs.complaints(&at.field("generateName"), meta.generate_name(), wrong);
                }
                object.validate_update(K::view(old), errs);
            }
        }
    }

    fn validate_status(&self, object: &Value, old: &Value, errs: &mut Errors) {
        K::view(object).validate_status(K::view(old), errs);
    }

    fn validate_version(&self, object: &Value, old: Option<&Value>, errs: &mut Errors) {
        K::validate_version(object, old, errs);
    }

    fn validate_status_at(&self, object: &Value, old: &Value, now: i64, errs: &mut Errors) {
        // Of a CronJob upstream looks at nothing here.
        if !K::ANY_FINALIZER && K::NAMES.kind != "CronJob" {
            check_finalizers(K::view(object).meta(), errs);
        }
        K::view(object).validate_status_at(K::view(old), now, errs);
    }

    fn validate_approval(&self, object: &Value, old: &Value, errs: &mut Errors) {
        K::view(object).validate_approval(K::view(old), errs);
    }

    fn needs(&self, object: &Value) -> Option<&'static Part> {
        K::view(object).needs()
    }

    fn warn(&self, object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
        K::view(object).warn(old.map(K::view), warnings);
    }

    fn warn_status(&self, object: &Value, warnings: &mut Warnings) {
        K::view(object).warn_status(warnings);
    }

    fn blind_updates(&self) -> bool {
        K::BLIND_UPDATES
    }

    fn is_expensive(&self, _object: &Value) -> bool {
        K::COMPILES
    }

    fn counts_dormant(&self) -> bool {
        K::COUNTS_DORMANT
    }

    fn tells_hollow(&self) -> bool {
        K::TELLS_HOLLOW
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        K::STATUS_KEEPS
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Value> {
        K::COLUMNS.iter().map(|column| (column.cell)(K::view(object), now)).collect()
    }

    fn rank(&self, object: &Value) -> i64 {
        K::view(object).rank()
    }

    fn ended(&self, object: &Value) -> Option<(&'static str, &'static str)> {
        K::view(object).ended()
    }

    fn fields(&self) -> Vec<&str> {
        K::INDEXES.iter().map(|index| index.name).collect()
    }

    fn no_field(&self) -> &'static str {
        K::NO_INDEX
    }

    fn topics(&self) -> Vec<&str> {
        K::INDEXES.iter().filter(|index| index.topic).map(|index| index.name).collect()
    }

    fn field(&self, object: &Value, name: &str) -> Option<Text> {
        let index = K::INDEXES.iter().find(|index| index.name == name)?;
        Some((index.of)(K::view(object)).into())
    }

    fn grace(&self, object: &Value, asked: Option<i64>) -> Grace {
        K::view(object).grace(asked)
    }

    fn prepare_delete(&self, object: &mut Value, now: i64) {
        K::ref_cast_mut(object).prepare_delete(now);
    }

    fn to_stored(&self, object: &mut Value) {
        K::to_stored(object);
    }

    fn from_stored(&self, object: &mut Value) {
        K::from_stored(object);
    }
}

/// The time since `moment` as tables show it: `5s`, `3m12s`, `4h`, `12d`.
pub fn age(moment: &str, now: i64) -> String {
    match Time::seconds(moment) {
        Some(then) => human_duration(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// A length of time as kubectl shows it: exact when short, coarse when long.
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
