//! The registry: create, update, patch, delete, get, list and watch for objects of every kind.

mod connect;
mod continuation;
mod create;
mod delete;
mod internal_objects;
mod list;
mod managed_fields;
mod missing_parts;
mod patch;
mod provenance;
mod reencode;
mod selection;
mod subresource_field;
mod subtree_sharing;
mod system_fields;
pub(crate) mod unreadable;
mod update;
mod versions;
mod watch;
mod write;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use object::{Clock, Status, Text, Value, WriteCause, steady_clock};
use schema::{ResourceDefinition, custom::CrdDefinitions};
use store::{Engine, Version, WatchCacheSet};

pub use self::{
    connect::SubresourceRequest,
    delete::{DeleteOutcome, DeleteRequest},
    list::{ListOptions, ListResult},
    managed_fields::ApplyRequest,
    patch::{Patch, PatchType},
    provenance::WriteProvenance,
    selection::Selection,
    system_fields::uid,
    update::{revision, uid_conflict},
    watch::{Watch, WatchEvent, WatchStart},
};
pub(crate) use self::{
    continuation::ContinueToken,
    delete::nanos,
    list::path,
    system_fields::{random, random_fraction},
    update::unparsed,
};
use crate::{
    AdmissionPlugin, Allocator, ServedResource, ServedResources, Transformer, UserInfo,
    WriteOptions,
    admit::AdmissionOutput,
    convert::{self, Converter},
    metrics::AdmissionMetrics,
};

/// Access to the stored objects of all kinds.
#[derive(Debug)]
pub struct Registry {
    engine: Arc<dyn Engine<Value>>,
    mirror: Arc<WatchCacheSet<Value>>,
    kinds: ServedResources,
    clock: Arc<dyn Clock>,
    /// The clock of the store, by which events of the watch caches grow old.
    steady: Arc<dyn Clock>,
    transform: Arc<dyn Transformer>,
    admission: OnceLock<(Vec<Arc<dyn AdmissionPlugin>>, AdmissionMetrics)>,
    converter: OnceLock<Arc<dyn Converter>>,
    claims: OnceLock<Arc<dyn Allocator>>,
    siblings: subtree_sharing::SubtreeSharing,
    lacking: missing_parts::Lacking,
    cbor: OnceLock<()>,
    history: OnceLock<u64>,
}

/// Context of one write: user, field manager, request options, dry run and cause. Collects the
/// warnings for the response.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    pub user: UserInfo,
    /// The field manager.
    pub manager: Text,
    /// The `fieldManager` and `fieldValidation` options as given in the request.
    pub options: WriteOptions,
    pub dry_run: bool,
    pub cause: Option<WriteCause>,
    /// Whether this is an apply, which updates `managedFields` itself.
    pub(crate) is_apply: bool,
    /// Whether admission is skipped, because it has already run for the request that this write is
    /// part of.
    pub(crate) skip_admission: bool,
    /// Warnings for the response, collected while the request is handled.
    pub warnings: Vec<String>,
}

impl RequestContext {
    /// A context with default options.
    pub fn new(user: UserInfo, manager: &str) -> Self {
        Self { user, manager: manager.into(), ..Self::default() }
    }

    /// Leaves `managedFields` as the caller has set them.
    pub fn skip_managed_fields(&mut self) {
        self.is_apply = true;
    }

    /// The context for the writes that an already admitted request consists of.
    #[must_use]
    pub fn admitted(mut self) -> Self {
        self.skip_admission = true;
        self
    }

    fn add_admission_output(&mut self, said: AdmissionOutput) {
        let AdmissionOutput { warnings, annotations } = said;
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        crate::audit::annotate(&annotations);
    }
}

impl Registry {
    /// Opens the storage of all given kinds.
    pub fn open(
        definitions: Vec<ResourceDefinition>,
        engine: Arc<dyn Engine<Value>>,
        mirror: &Arc<WatchCacheSet<Value>>,
        transform: Arc<dyn Transformer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, store::Error> {
        let kinds = ServedResources::open(definitions, &*engine, mirror, &transform)?;
        Ok(Arc::new(Self {
            engine,
            mirror: mirror.clone(),
            kinds,
            steady: steady_clock(&clock),
            clock,
            transform,
            admission: OnceLock::new(),
            converter: OnceLock::new(),
            claims: OnceLock::new(),
            siblings: subtree_sharing::SubtreeSharing::default(),
            lacking: missing_parts::Lacking::default(),
            cbor: OnceLock::new(),
            history: OnceLock::new(),
        }))
    }

    /// Serves a custom resource. If it was served before, watches of the previous definition end.
    pub fn register_custom(&self, declared: CrdDefinitions) -> Result<(), store::Error> {
        self.kinds.register_custom(declared, &*self.engine, &self.mirror, &self.transform)
    }

    /// Stops serving a custom resource. Its stored objects are kept.
    pub fn unregister_custom(&self, group: &str, plural: &str) {
        self.kinds.unregister_custom(group, plural, &self.mirror);
    }

    /// Sets the admission plugins, in the order in which they run. They may need the registry, so
    /// they are set after it is built, once.
    pub fn set_admission_plugins(&self, plugins: Vec<Arc<dyn AdmissionPlugin>>) {
        let times = AdmissionMetrics::new(plugins.iter().map(|plugin| plugin.name()));
        assert!(self.admission.set((plugins, times)).is_ok(), "admission is set up once");
    }

    /// Sets the allocator of cluster-wide values, once.
    pub fn set_allocator(&self, claims: Arc<dyn Allocator>) {
        assert!(self.claims.set(claims).is_ok(), "claims are set up once");
    }

    /// Stores custom resources as CBOR from now on. Either encoding can be read.
    pub fn store_cbor(&self) {
        self.cbor.get_or_init(|| ());
    }

    /// Sets the oldest revision that a watch can start from, because no client can have seen an
    /// earlier one.
    pub fn set_oldest_revision(&self, revision: u64) {
        self.history.get_or_init(|| revision);
    }

    pub fn kinds(&self) -> &ServedResources {
        &self.kinds
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn engine(&self) -> &Arc<dyn Engine<Value>> {
        &self.engine
    }

    /// Drops the watch cache events that no watch is likely to need.
    pub(crate) fn trim(&self) {
        self.mirror.trim(self.steady.now(), &*self.engine);
    }

    pub(crate) fn held(&self) -> Vec<(Text, store::Held)> {
        self.mirror.held()
    }

    fn plugins(&self) -> &[Arc<dyn AdmissionPlugin>] {
        self.admission.get().map_or(&[], |(plugins, _)| plugins)
    }

    /// Admission metrics; `None` if no plugins are set.
    pub(crate) fn admissions(&self) -> Option<&AdmissionMetrics> {
        self.admission.get().map(|(_, times)| times)
    }

    /// The latest version of an object.
    pub fn get(
        &self,
        served: &ServedResource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Version<Value>>, Status> {
        let found = served.objects()?.try_get(&served.path(namespace, name));
        let found = found.map_err(|error| unreadable::read(&error))?;
        let found = found.ok_or_else(|| Status::not_found(served.subject(name)))?;
        Ok(renamed(served, found))
    }

    /// The latest version of an object, in the version of the request; calls the conversion webhook
    /// if needed.
    pub async fn get_converted(
        &self,
        served: &ServedResource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Version<Value>>, Status> {
        let found = self.get(served, namespace, name)?;
        self.convert_stored(served, found).await
    }

    /// Converts a stored object to the version of the request.
    async fn convert_stored(
        &self,
        served: &ServedResource,
        stored: Arc<Version<Value>>,
    ) -> Result<Arc<Version<Value>>, Status> {
        if !served.needs_conversion_webhook() {
            return Ok(renamed(served, stored));
        }
        let told = self.converted(served, vec![stored.clone()]).await?.pop();
        Ok(told.unwrap_or(stored))
    }

    /// Sets the caller of conversion webhooks, once.
    pub fn set_converter(&self, converter: Arc<dyn Converter>) {
        assert!(self.converter.set(converter).is_ok(), "conversion is set up once");
    }

    /// Converts stored objects to the version of the request.
    pub(crate) async fn converted(
        &self,
        served: &ServedResource,
        versions: Vec<Arc<Version<Value>>>,
    ) -> Result<Vec<Arc<Version<Value>>>, Status> {
        convert::converted(self.converter.get(), &served.definition, versions).await
    }

    /// A kind by group and plural, in its preferred version.
    pub fn kind(&self, group: &str, plural: &str) -> Result<ServedResource, Status> {
        self.kinds.preferred(group, plural).ok_or_else(Status::unknown_resource)
    }

    fn to_bytes(
        &self,
        served: &ServedResource,
        key: &str,
        object: &Value,
    ) -> Result<Bytes, Status> {
        let cbor = self.cbor.get().is_some();
        self.transform
            .to_storage(key, crate::served_resources::to_bytes(&served.internal, object, cbor))
    }
}

/// Converts a custom resource to the version of the request, if that needs no webhook (strategy
/// `None`).
fn renamed(served: &ServedResource, stored: Arc<Version<Value>>) -> Arc<Version<Value>> {
    if served.storage_version.is_none()
        || served.is_storage_version()
        || served.needs_conversion_webhook()
    {
        return stored;
    }
    let mut version = Version::clone(&stored);
    served.to_request_version(&mut version.object);
    Arc::new(version)
}

/// The Status for a storage error.
pub(crate) fn store_status(error: &store::Error) -> Status {
    match error {
        store::Error::Compacted { floor } => {
            Status::expired(format!("too old resource version: the oldest known is {floor}"))
        }
        store::Error::FutureRevision { revision } => {
            Status::failure(504, "Timeout", format!("Too large resource version: {revision}"))
                .with_details(
                    object::StatusDetails::new()
                        .with_causes([object::StatusCause::new()
                            .with_reason("ResourceVersionTooLarge")
                            .with_message("Too large resource version")])
                        .with_retry_after_seconds(1),
                )
        }
        store::Error::TooLarge { .. } => Status::too_large("etcdserver: request is too large")
            .with_details(object::StatusDetails::new()),
        store::Error::Full
        | store::Error::Broken
        | store::Error::Slow { .. }
        | store::Error::Unavailable(_) => Status::unavailable(error.to_string()),
        other => Status::internal(other),
    }
}
