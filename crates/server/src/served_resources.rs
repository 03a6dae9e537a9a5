//! The kinds that are served, each with its place in the store.

mod custom;
mod storage_versions;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

pub(crate) use self::storage_versions::was_registered;

use bytes::Bytes;
use object::{
    NamespacedName, Object, ResourceRef, Status, Text, Value, View, depth, from_json, to_json,
};
use schema::{ResourceDefinition, protobuf};
use store::{CacheCodec, Engine, Error, Topic, WatchCache, WatchCacheSet};

use crate::{Transformer, cbor, registry::unreadable::NOT_TRANSFORMABLE};

/// A kind in one of its versions, and its objects.
#[derive(Clone, Debug)]
pub struct ServedResource {
    /// The version that the request speaks.
    pub definition: Arc<ResourceDefinition>,
    /// The version that is stored; mostly the same.
    pub internal: Arc<ResourceDefinition>,
    /// The version that a custom kind is stored in. It is handled in the version that the
    /// request speaks, for each has a schema of its own; so the hub is that one.
    pub storage_version: Option<Arc<ResourceDefinition>>,
    /// All versions of the kind that there are; of a custom kind also those that are not served.
    pub versions: Arc<[Arc<ResourceDefinition>]>,
    /// The objects; `None` for kinds that are never stored, like reviews.
    pub cache: Option<Arc<WatchCache<Value>>>,
}

impl ServedResource {
    pub fn subject<'a>(&'a self, name: &'a str) -> ResourceRef<'a> {
        let names = &self.definition.names;
        ResourceRef { group: names.group, resource: names.plural, name }
    }

    /// Where an object is kept.
    pub fn path(&self, namespace: &str, name: &str) -> Text {
        path(self.internal.storage.prefix, namespace, name)
    }

    /// Below what all objects of a namespace are kept, or all at all.
    pub fn prefix(&self, namespace: &str) -> String {
        match namespace {
            "" => format!("/registry/{}/", self.internal.storage.prefix),
            namespace => format!("/registry/{}/{namespace}/", self.internal.storage.prefix),
        }
    }

    /// The definition that tells what objects show, and are selected by. Versions of a
    /// custom kind each have their own.
    pub(crate) fn presentation(&self) -> &Arc<ResourceDefinition> {
        if self.definition.custom_resource.is_some() { &self.definition } else { &self.internal }
    }

    pub fn objects(&self) -> Result<&Arc<WatchCache<Value>>, Status> {
        self.cache.as_ref().ok_or_else(|| {
            let kind = self.definition.names.plural;
            Status::method_not_allowed(format!("{kind} are not stored"))
        })
    }

    /// Whether objects are stored as the request speaks of them.
    pub(crate) fn is_storage_version(&self) -> bool {
        match &self.storage_version {
            None => {
                Arc::ptr_eq(&self.definition, &self.internal) && !self.definition.keep_empty_bytes
            }
            Some(kept) => Arc::ptr_eq(&self.definition, kept) && !self.needs_conversion_webhook(),
        }
    }

    /// Whether somebody else must be asked for objects in another version.
    pub(crate) fn needs_conversion_webhook(&self) -> bool {
        self.definition.custom_resource.as_ref().is_some_and(|custom| custom.conversion.is_some())
    }

    /// From the stored version to the request's.
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

    /// From the request's version to the stored one.
    pub fn to_internal_version(&self, object: &mut Value) {
        if !Arc::ptr_eq(&self.definition, &self.internal) {
            self.definition.strategy.convert_to_storage(object);
        }
        let names = &self.internal.names;
        let typed = Object::from(std::mem::take(object));
        *object = typed.with_api_version(names.api_version()).with_kind(names.kind).into();
    }
}

/// From one version of a custom kind to another that differs in its schema alone.
pub(crate) fn set_api_version(object: &mut Value, to: &ResourceDefinition) {
    let version = to.names.api_version();
    if Object::view(object).api_version() != version {
        // What cannot be read as metadata is told when it is written.
        let _ = to.coerce(object, &mut Vec::new());
        object["apiVersion"] = version.into();
    }
}

/// All kinds by group, version and plural. Custom ones come and go.
#[derive(Debug, Default)]
pub struct ServedResources {
    state: RwLock<State>,
}

/// Group, version and plural.
type Name = (&'static str, &'static str, &'static str);

#[derive(Debug, Default)]
struct State {
    by_name: HashMap<Name, ServedResource>,
    /// Built-in kinds by group and plural, each in the version that comes first.
    first: HashMap<(&'static str, &'static str), ServedResource>,
    /// As discovery tells them.
    order: Vec<ServedResource>,
    /// Custom kinds by group and plural, in the version that is stored, served or not.
    stored: HashMap<(Text, Text), ServedResource>,
    /// Counts how often any of this has changed.
    edition: u64,
}

impl ServedResources {
    /// Serves those of the definitions that are to be served, and stores them in the
    /// versions that they name, served or not. The order is the order of discovery.
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

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<ServedResource> {
        self.read().by_name.get(&(group, version, plural)).cloned()
    }

    /// Whether a resource is served, or this part of it.
    pub(crate) fn has(&self, group: &str, version: &str, plural: &str, part: &str) -> bool {
        let state = self.read();
        let served = state.by_name.get(&(group, version, plural));
        served
            .is_some_and(|served| part.is_empty() || served.definition.subresource(part).is_some())
    }

    /// A kind by the names that objects have for it.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<ServedResource> {
        let is = |served: &&ServedResource| {
            let names = &served.definition.names;
            names.group == group && names.version == version && names.kind == kind
        };
        self.read().order.iter().find(is).cloned()
    }

    /// Whether anything built in is served of the group.
    pub fn has_group(&self, group: &str) -> bool {
        let built_in = |served: &ServedResource| served.definition.custom_resource.is_none();
        self.read().order.iter().any(|s| s.definition.names.group == group && built_in(s))
    }

    /// A kind in whatever version comes first.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<ServedResource> {
        let is = |served: &&ServedResource| {
            let names = &served.definition.names;
            names.group == group && names.plural == plural
        };
        let state = self.read();
        state.first.get(&(group, plural)).or_else(|| state.order.iter().find(is)).cloned()
    }

    /// All of them, in the order of discovery.
    pub fn all(&self) -> Vec<ServedResource> {
        self.read().order.clone()
    }

    /// Changes whenever a kind comes or goes.
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
        if served.definition.custom_resource.is_none() {
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

/// The objects of a kind, in memory.
pub(crate) fn resource(
    hub: &Arc<ResourceDefinition>,
    engine: &dyn Engine<Value>,
    mirror: &WatchCacheSet<Value>,
    transform: &Arc<dyn Transformer>,
) -> Result<Arc<WatchCache<Value>>, Error> {
    let resident = ObjectCacheCodec { definition: hub.clone(), transform: transform.clone() };
    mirror.start(&format!("/registry/{}/", hub.storage.prefix), Arc::new(resident), engine)
}

/// The group and version that objects are stored in, whether it is served or not.
pub(crate) fn storage_group_version(
    definition: &ResourceDefinition,
) -> (&'static str, &'static str) {
    match definition.storage.version.split_once('/') {
        Some(("core", version)) => ("", version),
        Some((group, version)) => (group, version),
        None => (definition.names.group, definition.storage.version),
    }
}

/// The definition that says how objects of `definition` are stored.
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

/// The stored bytes of an object.
pub(crate) fn to_bytes(hub: &ResourceDefinition, object: &Value, cbor: bool) -> Bytes {
    if cbor && hub.custom_resource.is_some() {
        return cbor::encode_document(None, object).into();
    }
    if hub.storage.json {
        return to_json(object).into();
    }
    let message = protobuf::encode(&hub.schema, object);
    protobuf::encode_envelope(&hub.names.api_version(), hub.names.kind, &message).into()
}

/// The error says why not.
fn from_bytes(hub: &ResourceDefinition, bytes: &[u8]) -> Result<Value, String> {
    let mut object = if bytes.starts_with(protobuf::MAGIC) {
        let opened = protobuf::decode_envelope(bytes).map_err(|error| error.to_string())?;
        storage_versions::check(hub, opened.api_version, opened.kind)?;
        protobuf::decode(&hub.schema, opened.message).map_err(|error| error.to_string())?
    } else if bytes.starts_with(cbor::MAGIC) {
        cbor::read(None, bytes).map_err(|error| error.to_string())?.tree
    } else {
        let mut object = from_json(bytes).map_err(|error| error.to_string())?;
        if hub.custom_resource.is_none() {
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
    if foreign && hub.custom_resource.as_ref().is_some_and(|custom| custom.conversion.is_some()) {
        return Ok(object); // whoever converts it knows its version
    }
    hub.normalize_stored(&mut object);
    let named = Object::from(object).with_api_version(hub.names.api_version());
    Ok(named.with_kind(hub.names.kind).into())
}

/// Earlier builds have stored objects that nobody could read. Where only the managed fields nest
/// too deep, the object is read without them, as one whose managed fields cannot be decoded.
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

/// What an event takes beside the object: its key, its topics, its place in the chains of each.
const EVENT: usize = 1_024;

/// What the mirror must know about the objects of a kind.
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

    /// Those that expire, which are events: they come by the thousand.
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
            // Absent is empty to a selector, so it is to those who watch for it.
            let value =
                self.definition.strategy.selectable_field_value(object, index).unwrap_or_default();
            topics.push(Topic::Index(index.into(), value));
        }
        topics
    }
}
