//! The served resources, each with its watch cache.

mod custom;
mod storage_versions;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytes::Bytes;
use object::{
    NamespacedName, Object, ResourceRef, Status, Text, Value, View, depth, from_json, to_json,
};
use schema::{ResourceDefinition, protobuf};
use store::{CacheCodec, Engine, Error, Topic, WatchCache, WatchCacheSet};

use crate::{Transformer, cbor, registry::unreadable::NOT_TRANSFORMABLE};

/// A kind in one of its versions, with its objects.
#[derive(Clone, Debug)]
pub struct ServedResource {
    /// The version of the request.
    pub definition: Arc<ResourceDefinition>,
    /// The internal version, which strategies work on: for built-in kinds the storage version,
    /// mostly the same as `definition`.
    pub internal: Arc<ResourceDefinition>,
    /// The storage version of a custom resource. Strategies work on the version of the request,
    /// because each version has its own schema; so `internal` is that one.
    pub storage_version: Option<Arc<ResourceDefinition>>,
    /// All versions of the kind; for a custom resource also those that are not served.
    pub versions: Arc<[Arc<ResourceDefinition>]>,
    /// The watch cache; `None` for kinds that are never stored, such as reviews.
    pub cache: Option<Arc<WatchCache<Value>>>,
}

impl ServedResource {
    /// The group, resource and name for error messages.
    pub fn subject<'a>(&'a self, name: &'a str) -> ResourceRef<'a> {
        let names = &self.definition.names;
        ResourceRef { group: names.group, resource: names.plural, name }
    }

    /// The storage key of an object.
    pub fn path(&self, namespace: &str, name: &str) -> Text {
        path(self.internal.storage.prefix, namespace, name)
    }

    /// The storage prefix of all objects of a namespace, or of all objects.
    pub fn prefix(&self, namespace: &str) -> String {
        match namespace {
            "" => format!("/registry/{}/", self.internal.storage.prefix),
            namespace => format!("/registry/{}/{namespace}/", self.internal.storage.prefix),
        }
    }

    /// The definition with the table columns and selectable fields. Each version of a custom
    /// resource has its own.
    pub(crate) fn presentation(&self) -> &Arc<ResourceDefinition> {
        if self.definition.is_custom() { &self.definition } else { &self.internal }
    }

    /// The watch cache, or an error for kinds that are not stored.
    pub fn objects(&self) -> Result<&Arc<WatchCache<Value>>, Status> {
        self.cache.as_ref().ok_or_else(|| {
            let kind = self.definition.names.plural;
            Status::method_not_allowed(format!("{kind} are not stored"))
        })
    }

    /// Whether objects are stored in exactly the form of the request version.
    pub(crate) fn is_storage_version(&self) -> bool {
        match &self.storage_version {
            None => {
                Arc::ptr_eq(&self.definition, &self.internal) && !self.definition.keep_empty_bytes
            }
            Some(kept) => Arc::ptr_eq(&self.definition, kept) && !self.needs_conversion_webhook(),
        }
    }

    /// Whether conversion between versions needs a webhook.
    pub(crate) fn needs_conversion_webhook(&self) -> bool {
        self.definition.custom().is_some_and(|custom| custom.conversion.is_some())
    }

    /// Converts from the internal version to that of the request.
    pub fn to_request_version(&self, object: &mut Value) {
        if self.storage_version.is_some() {
            set_api_version(object, &self.definition);
        } else if !Arc::ptr_eq(&self.definition, &self.internal) {
            self.definition.strategy.convert_from_storage(object);
            self.definition.normalize(object);
            let names = &self.definition.names;
            let typed = Object::from(std::mem::take(object));
            *object = typed.with_api_version(names.api_version()).with_kind(names.kind).into();
        } else if self.definition.keep_empty_bytes {
            schema::normalize(&self.definition.schema, object);
        }
    }

    /// Converts from the version of the request to the internal one.
    pub fn to_internal_version(&self, object: &mut Value) {
        if !Arc::ptr_eq(&self.definition, &self.internal) {
            self.definition.strategy.convert_to_storage(object);
        }
        let names = &self.internal.names;
        let typed = Object::from(std::mem::take(object));
        *object = typed.with_api_version(names.api_version()).with_kind(names.kind).into();
    }
}

/// Converts a custom resource to another version that differs in its schema only.
pub(crate) fn set_api_version(object: &mut Value, to: &ResourceDefinition) {
    let version = to.names.api_version();
    if Object::view(object).api_version() != version {
        // Invalid metadata is reported by the next write.
        let _ = to.coerce(object, &mut Vec::new());
        object["apiVersion"] = version.into();
    }
}

/// All served resources by group, version and plural. Custom resources can be added and removed.
#[derive(Debug, Default)]
pub struct ServedResources {
    state: RwLock<State>,
}

/// Group, version and plural.
type Name = (&'static str, &'static str, &'static str);

/// The registered resources, by several keys.
#[derive(Debug, Default)]
struct State {
    by_name: HashMap<Name, ServedResource>,
    /// Built-in kinds by group and plural, each in its preferred version.
    first: HashMap<(&'static str, &'static str), ServedResource>,
    /// In the order of discovery.
    order: Vec<ServedResource>,
    /// Custom resources by group and plural, in the storage version, served or not.
    stored: HashMap<(Text, Text), ServedResource>,
    /// Counts the changes of this state.
    edition: u64,
}

impl ServedResources {
    /// Opens the definitions that are to be served. The storage version of a kind need not be
    /// served. Their order is the order of discovery.
    pub fn open(
        definitions: Vec<ResourceDefinition>,
        engine: &dyn Engine<Value>,
        mirror: &WatchCacheSet<Value>,
        transform: &Arc<dyn Transformer>,
    ) -> Result<Self, Error> {
        let this = Self::default();
        let definitions: Vec<_> = definitions.into_iter().map(Arc::new).collect();
        let mut resources: HashMap<&str, Arc<WatchCache<Value>>> = HashMap::new();
        for definition in definitions.iter().filter(|definition| definition.served) {
            let hub = internal_definition(definition, &definitions);
            let prefix = definition.storage.prefix;
            let objects = match (prefix, resources.get(prefix)) {
                ("", _) => None,
                (_, Some(known)) => Some(known.clone()),
                (prefix, None) => {
                    let made = resource(&hub, engine, mirror, transform)?;
                    resources.insert(prefix, made.clone());
                    Some(made)
                }
            };
            let same = |other: &&Arc<ResourceDefinition>| {
                other.served && other.storage.prefix == prefix && !prefix.is_empty()
            };
            let versions = definitions.iter().filter(same).cloned().collect();
            let definition = definition.clone();
            this.write().add(ServedResource {
                definition,
                internal: hub,
                storage_version: None,
                versions,
                cache: objects,
            });
        }
        Ok(this)
    }

    /// A resource by group, version and plural.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<ServedResource> {
        self.read().by_name.get(&(group, version, plural)).cloned()
    }

    /// Whether a resource is served, or a subresource of it.
    pub(crate) fn has(&self, group: &str, version: &str, plural: &str, part: &str) -> bool {
        let state = self.read();
        let served = state.by_name.get(&(group, version, plural));
        served
            .is_some_and(|served| part.is_empty() || served.definition.subresource(part).is_some())
    }

    /// A resource by group, version and kind.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<ServedResource> {
        let is = |served: &&ServedResource| {
            let names = &served.definition.names;
            names.group == group && names.version == version && names.kind == kind
        };
        self.read().order.iter().find(is).cloned()
    }

    /// Whether a built-in kind of the group is served.
    pub fn has_group(&self, group: &str) -> bool {
        let built_in = |served: &ServedResource| served.definition.is_built_in();
        self.read().order.iter().any(|s| s.definition.names.group == group && built_in(s))
    }

    /// A resource in its preferred version.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<ServedResource> {
        let is = |served: &&ServedResource| {
            let names = &served.definition.names;
            names.group == group && names.plural == plural
        };
        let state = self.read();
        state.first.get(&(group, plural)).or_else(|| state.order.iter().find(is)).cloned()
    }

    /// All resources in the order of discovery.
    pub fn all(&self) -> Vec<ServedResource> {
        self.read().order.clone()
    }

    /// A number that changes whenever a resource is added or removed.
    pub fn change_counter(&self) -> u64 {
        self.read().edition
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, served: ServedResource) {
        let (group, version, plural) = name_of(&served);
        self.by_name.insert((group, version, plural), served.clone());
        if served.definition.is_built_in() {
            self.first.entry((group, plural)).or_insert_with(|| served.clone());
        }
        self.order.push(served);
        self.edition += 1;
    }
}

fn name_of(served: &ServedResource) -> Name {
    let names = &served.definition.names;
    (names.group, names.version, names.plural)
}

/// Starts the watch cache of a kind.
pub(crate) fn resource(
    hub: &Arc<ResourceDefinition>,
    engine: &dyn Engine<Value>,
    mirror: &WatchCacheSet<Value>,
    transform: &Arc<dyn Transformer>,
) -> Result<Arc<WatchCache<Value>>, Error> {
    let resident = ObjectCacheCodec { definition: hub.clone(), transform: transform.clone() };
    mirror.start(&format!("/registry/{}/", hub.storage.prefix), Arc::new(resident), engine)
}

/// The group and version that objects are stored in, served or not.
pub(crate) fn storage_group_version(
    definition: &ResourceDefinition,
) -> (&'static str, &'static str) {
    match definition.storage.version.split_once('/') {
        Some(("core", version)) => ("", version),
        Some((group, version)) => (group, version),
        None => (definition.names.group, definition.storage.version),
    }
}

/// The definition of the version that objects of `definition` are stored in.
fn internal_definition(
    definition: &Arc<ResourceDefinition>,
    all: &[Arc<ResourceDefinition>],
) -> Arc<ResourceDefinition> {
    let storage = &definition.storage;
    let (group, version) = storage_group_version(definition);
    let is = |other: &&Arc<ResourceDefinition>| {
        other.storage.prefix == storage.prefix
            && other.names.group == group
            && other.names.version == version
    };
    all.iter().find(is).unwrap_or(definition).clone()
}

pub(crate) fn path(prefix: &str, namespace: &str, name: &str) -> Text {
    match namespace {
        "" => format!("/registry/{prefix}/{name}").into(),
        namespace => format!("/registry/{prefix}/{namespace}/{name}").into(),
    }
}

/// Encodes an object for storage.
pub(crate) fn to_bytes(hub: &ResourceDefinition, object: &Value, cbor: bool) -> Bytes {
    if cbor && hub.is_custom() {
        return cbor::encode_document(None, object).into();
    }
    if hub.storage.json {
        return to_json(object).into();
    }
    let message = protobuf::encode(&hub.schema, object);
    protobuf::encode_envelope(&hub.names.api_version(), hub.names.kind, &message).into()
}

/// Decodes a stored object; the error is the reason.
fn from_bytes(hub: &ResourceDefinition, bytes: &[u8]) -> Result<Value, String> {
    let mut object = if bytes.starts_with(protobuf::MAGIC) {
        let opened = protobuf::decode_envelope(bytes).map_err(|error| error.to_string())?;
        storage_versions::check(hub, opened.api_version, opened.kind)?;
        protobuf::decode(&hub.schema, opened.message).map_err(|error| error.to_string())?
    } else if bytes.starts_with(cbor::MAGIC) {
        cbor::read(None, bytes).map_err(|error| error.to_string())?.tree
    } else {
        let mut object = from_json(bytes).map_err(|error| error.to_string())?;
        if hub.is_built_in() {
            let named = Object::view(&object);
            storage_versions::check(hub, named.api_version(), named.kind())?;
        }
        if object.get("apiVersion").as_str() != Some(&hub.names.api_version()) {
            hub.strategy.convert_from_storage(&mut object); // upstream stores some kinds in another version
        }
        object
    };
    if depth::exceeds(&object, depth::MAX) {
        make_shallow(&mut object)?;
    }
    let version = Object::view(&object).api_version();
    let foreign = version != hub.names.api_version();
    if foreign && hub.custom().is_some_and(|custom| custom.conversion.is_some()) {
        return Ok(object); // the conversion webhook handles its version
    }
    hub.normalize_stored(&mut object);
    let named = Object::from(object).with_api_version(hub.names.api_version());
    Ok(named.with_kind(hub.names.kind).into())
}

/// Handles objects nested too deeply, which earlier builds stored. If only `managedFields` are too
/// deep, the object is decoded without them, like one whose managedFields are invalid.
#[cold]
fn make_shallow(object: &mut Value) -> Result<(), String> {
    if object.get("metadata").is_object() {
        object["metadata"].remove("managedFields");
    }
    if depth::exceeds(object, depth::MAX) {
        return Err(format!("exceeded max depth of {}", depth::MAX));
    }
    Ok(())
}

/// Estimated memory of an event in addition to its object: key, topics, and links of the chains.
const EVENT: usize = 1_024;

/// Decodes, packs and indexes the objects of a kind for the watch cache.
#[derive(Debug)]
struct ObjectCacheCodec {
    definition: Arc<ResourceDefinition>,
    transform: Arc<dyn Transformer>,
}

impl CacheCodec<Value> for ObjectCacheCodec {
    fn decode(&self, key: &str, bytes: &Bytes) -> Result<Value, String> {
        let sealed = |status: Status| format!("{NOT_TRANSFORMABLE}: {}", status.message());
        let plain = self.transform.from_storage(key, bytes).map_err(sealed)?;
        from_bytes(&self.definition, &plain)
    }

    /// Packs kinds with a TTL (events), of which there are thousands.
    fn packs(&self) -> bool {
        self.definition.ttl.is_some()
    }

    fn pack(&self, object: &Value) -> Option<Vec<u8>> {
        Some(to_bytes(&self.definition, object, false).to_vec())
    }

    fn unpack(&self, _: &str, bytes: &[u8]) -> Result<Value, String> {
        from_bytes(&self.definition, bytes)
    }

    fn weight(&self, old: Option<&Value>, new: Option<&Value>) -> usize {
        let kept =
            old.map_or(0, |old| new.map_or_else(|| old.footprint(), |new| old.unshared(new)));
        EVENT + kept
    }

    fn topics(&self, _: &str, object: &Value) -> Vec<Topic> {
        let meta = Object::view(object).metadata();
        let name = Topic::Name(NamespacedName::from_meta(meta).to_string().into());
        let mut topics = vec![Topic::All, name];
        if self.definition.is_namespaced() {
            topics.push(Topic::Namespace(meta.namespace().into()));
        }
        for index in self.definition.strategy.watch_topic_fields() {
            // A selector treats an absent field as empty, so it is indexed as empty.
            let value =
                self.definition.strategy.selectable_field_value(object, index).unwrap_or_default();
            topics.push(Topic::Index(index.into(), value));
        }
        topics
    }
}
