//! Static admission policies and webhook configurations, loaded from a directory
//! (`staticManifestsDir`). They are enforced from the first request on, and cannot be changed or
//! deleted through the API.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use object::{
    Clock, Object, Value, View,
    yaml::{from_yaml, split_documents},
};
use ring::digest::{Context as Digest, SHA256, digest};
use server::{CounterVec, GaugeVec, MetricDesc, MetricsSource, Registry};
use store::Version;

use super::config::PluginConfigs;
use crate::{
    reload::{self, Task, WatchedFiles},
    structured::{aggregate, text},
};

/// Name suffix of every static object; objects in the API may not have it.
pub(super) const SUFFIX: &str = ".static.k8s.io";

const GROUP: &str = "admissionregistration.k8s.io";

/// The manifest directories of all plugins; each plugin opens its own.
#[derive(Debug)]
pub(crate) struct ManifestSources {
    configs: PluginConfigs,
    registry: Arc<Registry>,
    tally: Arc<ManifestMetrics>,
    opened: Mutex<Vec<Arc<ManifestDir>>>,
}

/// The objects of one directory, as of the last time that it was loaded without an error.
#[derive(Debug)]
pub(super) struct ManifestDir {
    plugin: &'static str,
    folder: PathBuf,
    /// Weak, because the registry owns this value through its admission plugin.
    registry: Weak<Registry>,
    tally: Arc<ManifestMetrics>,
    loaded: RwLock<Loaded>,
    loads: AtomicU64,
}

/// The loaded objects, sorted by name, and the hash of the files.
#[derive(Debug, Default)]
struct Loaded {
    objects: Vec<Arc<Version<Value>>>,
    hash: String,
}

/// Metrics of manifest loading, with upstream's names.
#[derive(Debug)]
pub(crate) struct ManifestMetrics {
    server: String,
    clock: Arc<dyn Clock>,
    reloads: CounterVec,
    last: GaugeVec,
    hashes: GaugeVec,
}

impl ManifestSources {
    /// `server` is the identity of this API server among its peers, reported as
    /// `apiserver_id_hash`.
    pub(crate) fn new(configs: PluginConfigs, registry: Arc<Registry>, server: &str) -> Self {
        let tally = Arc::new(ManifestMetrics::new(server, registry.clock().clone()));
        Self { configs, registry, tally, opened: Mutex::default() }
    }

    /// The metrics of all directories.
    pub(crate) fn report(&self) -> Arc<dyn MetricsSource> {
        self.tally.clone()
    }

    /// Opens and loads the plugin's `staticManifestsDir`; `None` if it has none.
    pub(super) fn open(&self, plugin: &'static str) -> Result<Option<Arc<ManifestDir>>> {
        let config = self.configs.get(plugin);
        let folder = text(&config, "staticManifestsDir");
        if folder.is_empty() {
            return Ok(None);
        }
        let manifests = Arc::new(ManifestDir {
            plugin,
            folder: folder.into(),
            registry: Arc::downgrade(&self.registry),
            tally: self.tally.clone(),
            loaded: RwLock::default(),
            loads: AtomicU64::default(),
        });
        let what = if plugin.ends_with("Policy") { "policy" } else { "webhook" };
        manifests.load().with_context(|| {
            format!(
                "failed to initialize admission plugin {plugin:?}: failed to load static {what} \
                 manifests from {folder:?}"
            )
        })?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(manifests.clone());
        Ok(Some(manifests))
    }

    /// Tasks that watch the directories for changes; they never end.
    pub(crate) fn watch_tasks(&self) -> Vec<Task> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let task = |manifests: &Arc<ManifestDir>| -> Task {
            let manifests = manifests.clone();
            let followed = WatchedFiles::new([manifests.folder.clone()]);
            Box::pin(followed.watch(move || {
                manifests.load().inspect_err(|_| manifests.tally.failed(manifests.plugin))
            }))
        };
        opened.iter().map(task).collect()
    }
}

impl ManifestDir {
    /// The loaded objects of one kind, sorted by name.
    pub(super) fn objects(&self, kind: &str) -> Vec<Arc<Version<Value>>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let is = |object: &&Arc<Version<Value>>| Object::view(&object.object).kind() == kind;
        loaded.objects.iter().filter(is).cloned().collect()
    }

    /// Loads the directory. If anything in it is invalid, the previous objects stay.
    fn load(&self) -> Result<()> {
        let (documents, hash) = documents(&self.folder)?;
        if self.loads.load(Ordering::Acquire) > 0 && self.hash() == hash {
            return Ok(());
        }
        let mut seen = HashMap::new();
        let mut objects = Vec::new();
        for (path, document) in documents {
            let tree = from_yaml(&document);
            let read = tree.map_err(anyhow::Error::from);
            let read = read.and_then(|tree| self.take(tree, &path, &mut seen, &mut objects));
            read.map_err(|why| anyhow!("error loading {path}: {why:#}"))?;
        }
        validate_bindings(&objects)?;
        let name = |object: &Value| Object::view(object).metadata().name().to_owned();
        objects.sort_by_key(&name);
        // Compiled policies are cached by revision. These revisions count down from the maximum, so
        // that no stored object has the same one.
        let revision = u64::MAX - self.loads.fetch_add(1, Ordering::AcqRel);
        let version = |object| Arc::new(Version { revision, object });
        let objects = objects.into_iter().map(version).collect();
        self.tally.succeeded(self.plugin, &hash);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Loaded { objects, hash };
        Ok(())
    }

    fn hash(&self) -> String {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).hash.clone()
    }

    /// Validates and adds an object, or all items of a list.
    fn take(
        &self,
        tree: Value,
        path: &str,
        seen: &mut HashMap<(String, String), String>,
        objects: &mut Vec<Value>,
    ) -> Result<()> {
        let (version, kind) =
            (text(&tree, "apiVersion").to_owned(), text(&tree, "kind").to_owned());
        ensure!(!kind.is_empty(), "Object 'Kind' is missing in '{}'", shown(&tree));
        ensure!(!version.is_empty(), "Object 'apiVersion' is missing in '{}'", shown(&tree));
        let single = kind.strip_suffix("List").unwrap_or(&kind);
        if version == "v1" && kind == "List" {
            for item in tree.get("items").items() {
                self.take(item.clone(), path, seen, objects)?;
            }
            return Ok(());
        }
        let (group, number) = version.split_once('/').unwrap_or(("", &version));
        let registry = self.registry.upgrade().context("the server is ending")?;
        let all = registry.kinds().all();
        let found = all.iter().find(|served| {
            let names = &served.definition.names;
            (names.group, names.version, names.kind) == (group, number, single) && group == GROUP
        });
        let Some(served) = found else {
            bail!("no kind {kind:?} is registered for version {version:?}");
        };
        let own = self
            .plugin
            .strip_suffix("AdmissionWebhook")
            .map(|way| format!("{way}WebhookConfiguration"));
        let ours = match own {
            Some(configuration) => single == configuration,
            None => single == self.plugin || single.strip_suffix("Binding") == Some(self.plugin),
        };
        ensure!(ours && number == "v1", "unsupported resource type *{number}.{kind}");
        if kind != single {
            for item in tree.get("items").items() {
                let mut item = item.clone();
                item["apiVersion"] = version.as_str().into();
                item["kind"] = single.into();
                self.take(item, path, seen, objects)?;
            }
            return Ok(());
        }
        let mut object = tree;
        let mut unknown = Vec::new();
        served.definition.coerce(&mut object, &mut unknown).map_err(|why| anyhow!(why))?;
        let odd: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        ensure!(odd.is_empty(), "strict decoding error: {}", odd.join(", "));
        let errors = registry.validate_manifest(served, &mut object);
        let name = Object::view(&object).metadata().name().to_owned();
        ensure!(errors.is_empty(), "{kind} {name:?}: {}", aggregate(&errors));
        check_name(&kind, &name, path, seen)?;
        validate_standalone(&object, &name, path)?;
        objects.push(object);
        Ok(())
    }
}

/// The YAML documents of all files in a directory, sorted by file name, and a hash that changes
/// when one of them does.
fn documents(folder: &Path) -> Result<(Vec<(String, String)>, String)> {
    let listed = fs::read_dir(folder)
        .with_context(|| format!("failed to read manifest directory \"{}\"", folder.display()))?;
    let mut files = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    let (mut all, mut digest, mut any) = (Vec::new(), Digest::new(&SHA256), false);
    for path in files {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        if path.is_dir() || !matches!(ending.as_deref(), Some("yaml" | "yml" | "json")) {
            continue;
        }
        let text = reload::text(&path);
        let path = path.display().to_string();
        let text = text.with_context(|| format!("failed to read file {path:?}"))?;
        if text.is_empty() {
            continue;
        }
        any = true;
        digest.update(text.as_bytes());
        digest.update(&[0]);
        let parts = split_documents(&text)
            .with_context(|| format!("failed to split YAML documents in file {path:?}"))?;
        all.extend(parts.into_iter().map(|part| (path.clone(), part.to_owned())));
    }
    Ok((all, if any { hex(digest.finish().as_ref()) } else { String::new() }))
}

fn check_name(
    kind: &str,
    name: &str,
    path: &str,
    seen: &mut HashMap<(String, String), String>,
) -> Result<()> {
    ensure!(!name.is_empty(), "resource in file {path:?} must have a name");
    ensure!(
        name.ends_with(SUFFIX),
        "{name:?} in file {path:?} must have a name ending with {SUFFIX:?}"
    );
    let before = seen.insert((kind.to_owned(), name.to_owned()), path.to_owned());
    if let Some(before) = before {
        bail!("duplicate name {name:?} found in file {path:?} (previously seen in {before:?})");
    }
    Ok(())
}

/// Checks that a static object needs no object of the API, such as a param or a Service.
fn validate_standalone(object: &Value, name: &str, path: &str) -> Result<()> {
    let kind = Object::view(object).kind();
    let spec = object.get("spec");
    ensure!(
        !spec.get("paramKind").is_object(),
        "{kind} {name:?}: spec.paramKind is not supported for static manifests"
    );
    if kind.ends_with("Binding") {
        let policy = text(spec, "policyName");
        ensure!(!policy.is_empty(), "binding {name:?} must reference a policy (spec.policyName)");
        ensure!(
            policy.ends_with(SUFFIX),
            "binding {name:?}: spec.policyName {policy:?} must end with {SUFFIX:?}"
        );
        ensure!(
            !spec.get("paramRef").is_object(),
            "binding {name:?}: spec.paramRef is not supported for static manifests"
        );
    }
    for hook in object.get("webhooks").items() {
        let (config, own) = (hook.get("clientConfig"), text(hook, "name"));
        let whose = || format!("webhook {own:?} in {name:?} (file {path:?})");
        ensure!(
            !config.get("service").is_object(),
            "{}: clientConfig.service is not supported for static manifests; use clientConfig.url instead",
            whose()
        );
        ensure!(
            !text(config, "url").is_empty(),
            "{}: clientConfig.url is required for static manifests",
            whose()
        );
    }
    Ok(())
}

/// Checks that the policy of every binding is in the same directory.
fn validate_bindings(objects: &[Value]) -> Result<()> {
    let name = |object: &Value| Object::view(object).metadata().name().to_owned();
    let is_binding = |object: &&Value| Object::view(object).kind().ends_with("Binding");
    for binding in objects.iter().filter(is_binding) {
        let wanted = text(binding.get("spec"), "policyName");
        ensure!(
            objects.iter().any(|object| !is_binding(&object) && name(object) == wanted),
            "binding {:?} references policy {wanted:?} which does not exist in the manifest directory",
            name(binding)
        );
    }
    Ok(())
}

fn shown(tree: &Value) -> String {
    String::from_utf8_lossy(&object::to_json(tree)).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

impl ManifestMetrics {
    fn new(server: &str, clock: Arc<dyn Clock>) -> Self {
        const LABELS: &[&str] = &["apiserver_id_hash", "plugin", "status"];
        let name = |name, help, labels| MetricDesc { name, help, labels };
        Self {
            server: hex(digest(&SHA256, server.as_bytes()).as_ref()),
            clock,
            reloads: CounterVec::new(name(
                "apiserver_manifest_admission_config_controller_automatic_reloads_total",
                "How often the files of a plugin were read.",
                LABELS,
            )),
            last: GaugeVec::new(name(
                "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds",
                "When the files of a plugin were last read.",
                LABELS,
            )),
            hashes: GaugeVec::new(name(
                "apiserver_manifest_admission_config_controller_last_config_info",
                "Which files of a plugin hold.",
                &["apiserver_id_hash", "hash", "plugin"],
            )),
        }
    }

    fn read(&self, plugin: &str, status: &str) {
        let labels = [&*self.server, plugin, status];
        self.reloads.count(&labels);
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a date fit")]
        self.last.set(&labels, self.clock.now_micros() as f64 / 1e6);
    }

    fn succeeded(&self, plugin: &str, hash: &str) {
        self.read(plugin, "success");
        self.hashes.retain(|labels| labels[2] != plugin);
        self.hashes.set(&[&self.server, hash, plugin], 1.0);
    }

    fn failed(&self, plugin: &str) {
        self.read(plugin, "failure");
    }
}

impl MetricsSource for ManifestMetrics {
    fn report(&self, out: &mut String) {
        self.reloads.write(out);
        self.last.write(out);
        self.hashes.write(out);
    }
}
