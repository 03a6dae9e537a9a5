//! Kustomize: builds objects from manifests and other kustomizations, and transforms them.
//!
//! ```text
//!  directory ── kustomization.yaml
//!    resources ─► generators ─► components      the objects
//!      └► patches ─► namespace ─► names ─► labels ─► annotations ─► replicas ─► images ─► replacements
//!  outermost: hash suffixes of generated objects ─► name references ─► order
//! ```

mod fields;
mod generate;
mod merge;
mod patch;
mod read;
mod references;
mod replace;
mod transform;

use std::path::{Path, PathBuf};

use object::Value;

pub(crate) use self::generate::hash;
use crate::error::{CommandError, Result};

/// An object during the build, with its previous names.
#[derive(Clone, Debug)]
struct Resource {
    object: Value,
    /// Previous namespaces and names, the oldest first.
    previous_names: Vec<(String, String)>,
    /// The kustomizations that it comes from, the innermost last.
    origin_chain: Vec<PathBuf>,
    /// Whether its name gets a hash of its data as suffix.
    hashed: bool,
}

/// Maximum nesting depth of kustomizations.
const DEEPEST: usize = 64;

/// Cluster-scoped kinds.
const CLUSTER_KINDS: &[&str] = &[
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CSIDriver",
    "CSINode",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IngressClass",
    "IPAddress",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersionMigration",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// Kinds that are printed first, in this order.
const ORDER_FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const ORDER_LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Builds the objects of a kustomization. `say` is called with deprecation warnings.
pub(crate) fn build(folder: &str, say: &mut dyn FnMut(&str)) -> Result<Vec<Value>> {
    if folder.contains("://") || folder.starts_with("git@") {
        return Err(CommandError::error(format!(
            "the remote kustomization {folder} is not supported"
        )));
    }
    let root = read::folder(Path::new(folder), Path::new(folder))
        .map_err(|why| CommandError::error(format!("must build at directory: {why}")))?;
    let outermost = read::Kustomization::load(&root, say)?;
    let mut resources = Vec::new();
    accumulate(&outermost, &mut resources, &[], say)?;
    for resource in &mut resources {
        if resource.hashed {
            let name = format!("{}-{}", resource.name(), hash(&resource.object, "", &"".into()));
            resource.rename(&name);
        }
    }
    references::update_name_references(&mut resources);
    resources.retain(|resource| {
        let local =
            &resource.object["metadata"]["annotations"]["config.kubernetes.io/local-config"];
        local.is_null() || local.as_str() == Some("false")
    });
    order(&outermost, &mut resources)?;
    Ok(resources.into_iter().map(|resource| resource.object).collect())
}

impl Resource {
    fn new(object: Value, chain: &[PathBuf]) -> Self {
        Self { object, previous_names: Vec::new(), origin_chain: chain.to_vec(), hashed: false }
    }

    fn text(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.text("name")
    }

    fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    fn group_and_version(&self) -> (&str, &str) {
        let api_version = self.object["apiVersion"].as_str().unwrap_or_default();
        api_version.split_once('/').unwrap_or(("", api_version))
    }

    fn namespaced(&self) -> bool {
        !CLUSTER_KINDS.contains(&self.kind())
    }

    fn now(&self) -> (String, String) {
        (self.text("namespace").to_owned(), self.name().to_owned())
    }

    /// All current and previous namespaces and names.
    fn names(&self) -> Vec<(String, String)> {
        let mut names = self.previous_names.clone();
        names.push(self.now());
        names
    }

    fn remember(&mut self) {
        let now = self.now();
        self.previous_names.push(now);
    }

    fn rename(&mut self, name: &str) {
        self.remember();
        self.object["metadata"]["name"] = name.into();
    }
}

/// Adds the objects of a kustomization to `all`, and transforms them. A component also transforms the objects that
/// are already there.
fn accumulate(
    kustomization: &read::Kustomization,
    all: &mut Vec<Resource>,
    outer: &[PathBuf],
    say: &mut dyn FnMut(&str),
) -> Result {
    if outer.len() > DEEPEST || outer.contains(&kustomization.root) {
        return Err(CommandError::error(format!(
            "cycle detected: candidate root '{}' contains visited root '{}'",
            kustomization.root.display(),
            kustomization.root.display()
        )));
    }
    let mut chain = outer.to_vec();
    chain.push(kustomization.root.clone());
    for path in kustomization.texts("resources") {
        resources(kustomization, &path, all, &chain, say).map_err(|fail| {
            CommandError::error(format!("accumulating resources: {}", fail.message()))
        })?;
    }
    generate::run(kustomization, all, &chain)?;
    for path in kustomization.texts("components") {
        let inner = read::folder(&kustomization.root.join(&path), Path::new(&path))
            .map_err(CommandError::error)
            .and_then(|folder| read::Kustomization::load(&folder, say));
        let inner = inner.and_then(|inner| {
            if inner.component() {
                return Ok(inner);
            }
            Err(CommandError::error(format!(
                "expected kind 'Component' for path '{path}' but got 'Kustomization'"
            )))
        });
        let done = inner.and_then(|inner| accumulate(&inner, all, &chain, say));
        done.map_err(|fail| {
            CommandError::error(format!("accumulating components: {}", fail.message()))
        })?;
    }
    transform::run(kustomization, all)
}

/// Adds the objects of a manifest, or of the kustomization in a directory.
fn resources(
    kustomization: &read::Kustomization,
    path: &str,
    all: &mut Vec<Resource>,
    chain: &[PathBuf],
    say: &mut dyn FnMut(&str),
) -> Result {
    if path.contains("://") || path.starts_with("git@") {
        return Err(CommandError::error(format!("the remote resource {path} is not supported")));
    }
    let full = kustomization.root.join(path);
    if full.is_dir() {
        let folder = read::folder(&full, Path::new(path)).map_err(CommandError::error)?;
        let inner = read::Kustomization::load(&folder, say)?;
        if inner.component() {
            return Err(CommandError::error(format!(
                "expected kind != 'Component' for path '{path}'"
            )));
        }
        let mut more = Vec::new();
        accumulate(&inner, &mut more, chain, say)?;
        for resource in more {
            add(all, resource)?;
        }
        return Ok(());
    }
    let text = match read::inside(&kustomization.root, path) {
        Ok(text) => text,
        Err(why) => {
            let again = read::folder(&full, Path::new(path)).err().unwrap_or_default();
            return Err(CommandError::error(format!(
                "accumulation err='accumulating resources from '{path}': {why}': must build at directory: {again}"
            )));
        }
    };
    for document in crate::files::parse_documents(path, &text, false) {
        add(all, Resource::new(document?.1, chain))?;
    }
    Ok(())
}

/// Adds an object, unless there is one with the same kind and name.
fn add(all: &mut Vec<Resource>, resource: Resource) -> Result {
    let same = |other: &&Resource| {
        other.group_and_version() == resource.group_and_version()
            && other.kind() == resource.kind()
            && other.now() == resource.now()
    };
    if all.iter().find(same).is_some() {
        let (group, version) = resource.group_and_version();
        let (namespace, name) = resource.now();
        let namespace = if namespace.is_empty() { "[noNs]".to_owned() } else { namespace };
        let group = if group.is_empty() { "[noGrp]" } else { group };
        return Err(CommandError::error(format!(
            "may not add resource with an already registered id: {}.{version}.{group}/{name}.{namespace}",
            resource.kind()
        )));
    }
    all.push(resource);
    Ok(())
}

fn order(kustomization: &read::Kustomization, all: &mut [Resource]) -> Result {
    let options = &kustomization.tree["sortOptions"];
    match options["order"].as_str().unwrap_or("legacy") {
        "fifo" => return Ok(()),
        "legacy" => {}
        _ => {
            return Err(CommandError::error(
                "the field 'sortOptions.order' must be one of [fifo, legacy]",
            ));
        }
    }
    let texts = |field: &str, usual: &[&str]| -> Vec<String> {
        let given = &options["legacySortOptions"];
        if given.is_null() {
            return usual.iter().map(|kind| (*kind).to_owned()).collect();
        }
        given[field].items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (first, last) = (texts("orderFirst", ORDER_FIRST), texts("orderLast", ORDER_LAST));
    all.sort_by_cached_key(|resource| {
        let place = |kinds: &[String]| kinds.iter().position(|kind| kind == resource.kind());
        let rank = match (place(&first), place(&last)) {
            (Some(at), _) => (0, at),
            (_, Some(at)) => (2, at),
            _ => (1, 0),
        };
        let or = |text: &str, none: &str| if text.is_empty() { none } else { text }.to_owned();
        let (group, version) = resource.group_and_version();
        (
            rank,
            or(group, "~G"),
            or(version, "~V"),
            resource.kind().to_owned(),
            or(resource.text("namespace"), "~X"),
            or(resource.name(), "~N"),
        )
    });
    Ok(())
}
