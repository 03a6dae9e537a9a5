//! The volumes of a pod: what each holds, and where it is.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use api::core::{
    Container, DownwardAPIVolumeFile, ImageVolumeSource, KeyToPath, Pod, PodCertificateProjection,
    Volume, VolumeMount, VolumeProjection,
};
use container::cri::{ImageSpec, Mount, MountPropagation};
use object::{List, Quantity};
use volume::{Empty, File, Files};

use crate::{
    Host, blocking,
    certificates::{Credentials, Slot, Wish},
    env::{self, Sources, expand},
    objects::{Data, Wanted},
};

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Folder(PathBuf),
    /// With the runtime, under this id.
    Image(String),
}

impl Place {
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) => Some(path),
            Self::Image(_) => None,
        }
    }
}

/// The bytes of all files that the kubelet writes for one pod. A pod can name the same object thousands of times,
/// and most of these files are in the node's memory.
const MOST_BYTES: usize = 128 << 20;

/// Where each volume of a pod is. Images come when a container needs them.
pub(crate) type Places = BTreeMap<String, Place>;

/// Puts every volume in place, or says what stands against it. May be repeated: then files
/// are brought up to date.
pub(crate) async fn prepare(host: &Host, pod: &Pod) -> Result<Places, String> {
    let mut places = Places::new();
    let budget = Budget { left: AtomicUsize::new(MOST_BYTES), last: Mutex::default() };
    let images = |volume: &&Volume| volume.volume_source().image().is_some();
    for volume in pod.spec().volumes().iter().filter(|volume| !images(volume)) {
        let place = place(host, pod, volume, &budget).await.map_err(|error| {
            format!("MountVolume.SetUp failed for volume \"{}\" : {error}", volume.name())
        })?;
        places.insert(volume.name().to_owned(), Place::Folder(place));
    }
    Ok(places)
}

/// Whether volumes hold what may change while the pod runs.
pub(crate) fn change(pod: &Pod) -> bool {
    pod.spec().volumes().iter().any(|volume| {
        let source = volume.volume_source();
        source.config_map().is_some()
            || source.secret().is_some()
            || source.projected().is_some()
            || source.downward_api().is_some()
    })
}

/// The volumes of a container that are images.
pub(crate) fn images<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> impl Iterator<Item = (&'a str, &'a ImageVolumeSource)> {
    let mounted = |name: &str| container.volume_mounts().iter().any(|mount| mount.name() == name);
    let all = pod.spec().volumes().iter().filter(move |volume| mounted(volume.name()));
    all.filter_map(|volume| Some((volume.name(), volume.volume_source().image()?)))
}

/// What a container sees of them.
pub(crate) fn mounts(
    host: &Host,
    pod: &Pod,
    container: &Container,
    places: &Places,
    env: &[(String, String)],
) -> Result<Vec<Mount>, String> {
    let mut out = Vec::new();
    for (at, mount) in container.volume_mounts().iter().enumerate() {
        let read_only = mount.read_only() || is_read_only(pod, mount.name());
        let place = places
            .get(mount.name())
            .ok_or_else(|| format!("cannot find volume \"{}\" to mount", mount.name()))?;
        let sub = sub_path(mount, env)?;
        let place = match place {
            Place::Folder(place) => place,
            Place::Image(id) => {
                out.push(Mount {
                    container_path: absolute(mount.mount_path()),
                    image: Some(ImageSpec { image: id.clone(), ..ImageSpec::default() }),
                    image_sub_path: sub.unwrap_or_default(),
                    readonly: true,
                    ..Mount::default()
                });
                continue;
            }
        };
        let host_path = match sub {
            None => place.clone(),
            Some(sub) => {
                let folder = host.config.pod_folder(pod.metadata().uid()).join("volume-subpaths");
                let target = folder.join(mount.name()).join(container.name()).join(at.to_string());
                // The pod's author learns nothing of what the host has there.
                volume::place_sub_path(place, Path::new(&sub), &target).map_err(|error| {
                    tracing::warn!(pod = pod.metadata().name(), %error, "a sub path is refused");
                    format!(
                        "failed to prepare subPath for volumeMount \"{}\" of container \"{}\"",
                        mount.name(),
                        container.name()
                    )
                })?;
                target
            }
        };
        let recursive = mount.recursive_read_only();
        out.push(Mount {
            container_path: absolute(mount.mount_path()),
            host_path: host_path.to_string_lossy().into_owned(),
            readonly: read_only,
            propagation: match mount.mount_propagation() {
                Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
                Some("Bidirectional") => MountPropagation::PropagationBidirectional,
                _ => MountPropagation::PropagationPrivate,
            }
            .into(),
            recursive_read_only: matches!(recursive, Some("Enabled")),
            ..Mount::default()
        });
    }
    if !container.volume_devices().is_empty() {
        return Err("block devices (volumeDevices) are not supported".into());
    }
    Ok(out)
}

/// Whether containers may only read a volume, whatever their mounts say: what the kubelet
/// writes is its own to change.
fn is_read_only(pod: &Pod, name: &str) -> bool {
    let volumes = pod.spec().volumes();
    let source = volumes.iter().find(|volume| volume.name() == name).map(Volume::volume_source);
    source.is_some_and(|source| {
        source.config_map().is_some()
            || source.secret().is_some()
            || source.projected().is_some()
            || source.downward_api().is_some()
            || source
                .persistent_volume_claim()
                .is_some_and(api::core::PersistentVolumeClaimVolumeSource::read_only)
    })
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn sub_path(mount: &VolumeMount, env: &[(String, String)]) -> Result<Option<String>, String> {
    let sub = if mount.sub_path_expr().is_empty() {
        mount.sub_path().to_owned()
    } else {
        let known = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, v)| v.as_str());
        let expanded = expand(mount.sub_path_expr(), known)
            .map_err(|error| format!("failed to expand subPath expression: {error}"))?;
        if expanded.contains("$(") {
            return Err(format!("failed to expand subPath expression: {expanded}"));
        }
        expanded
    };
    if sub.starts_with('/') {
        return Err(format!("error SubPath `{sub}` must not be an absolute path"));
    }
    if sub.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{sub}`: must not contain '..'"));
    }
    Ok(Some(sub).filter(|sub| !sub.is_empty()))
}

/// What the files of a pod may still take, while its volumes are put in place.
struct Budget {
    /// Bytes.
    left: AtomicUsize,
    /// The object that was read last, by kind and name: many sources of a volume may name the same one.
    last: Mutex<Option<(&'static str, String, Arc<Data>)>>,
}

impl Budget {
    fn spend(&self, bytes: usize) -> Result<(), String> {
        let order = Ordering::Relaxed;
        let spent = self.left.fetch_update(order, order, |left| left.checked_sub(bytes));
        spent.map(drop).map_err(|_| format!("the pod's files are larger than {MOST_BYTES} bytes"))
    }

    /// The object if it is the one that was read last.
    fn known(&self, kind: &str, name: &str) -> Option<Arc<Data>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().filter(|(of, known, _)| *of == kind && known == name);
        same.map(|(_, _, data)| data.clone())
    }

    fn remember(&self, kind: &'static str, name: &str, data: Data) -> Arc<Data> {
        let data = Arc::new(data);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((kind, name.to_owned(), data.clone()));
        data
    }
}

async fn place(
    host: &Host,
    pod: &Pod,
    volume: &Volume,
    budget: &Budget,
) -> Result<PathBuf, String> {
    let (source, name) = (volume.volume_source(), volume.name());
    let below = |kind: &str| {
        let volumes = host.config.pod_folder(pod.metadata().uid()).join("volumes");
        volumes.join(format!("kubernetes.io~{kind}")).join(name)
    };
    let group = group(pod);
    if let Some(path) = source.host_path() {
        return host_path(path.path(), path.type_()).await;
    }
    if let Some(empty) = source.empty_dir() {
        let memory = match empty.medium() {
            "" => false,
            "Memory" => true,
            other => return Err(format!("the medium {other:?} is not supported")),
        };
        let place = below("empty-dir");
        let size = empty.size_limit().map(|size| size.value().unsigned_abs());
        let mode = empty.mode().map_or(0o777, i32::unsigned_abs);
        return blocking(move || {
            let is_new = !place.exists();
            volume::empty(&place, &Empty { memory, size, mode }).map_err(said)?;
            if let Some(group) = group.filter(|_| is_new) {
                volume::give_to_group(&place, group, false).map_err(said)?;
            }
            Ok(place)
        })
        .await;
    }
    if source.git_repo().is_some() {
        // it runs what strangers put into repositories, as root of the node
        return Err("git-repo volume plugin has been disabled".into());
    }
    if let Some(claim) = source.persistent_volume_claim() {
        return persistent(host, pod, claim.claim_name()).await;
    }
    if source.ephemeral().is_some() {
        let claim = format!("{}-{name}", pod.metadata().name());
        return persistent(host, pod, &claim).await;
    }
    let reader = Reader { host, pod, volume: name, budget };
    let (kind, files) = if let Some(map) = source.config_map() {
        let part = Part {
            items: map.items(),
            mode: map.default_mode(),
            user: map.default_user(),
            optional: map.optional(),
        };
        let name = map.local_object_reference().name();
        ("configmap", reader.config_map(name, &part).await?)
    } else if let Some(secret) = source.secret() {
        let part = Part {
            items: secret.items(),
            mode: secret.default_mode(),
            user: secret.default_user(),
            optional: secret.optional(),
        };
        ("secret", reader.secret(secret.secret_name(), &part).await?)
    } else if let Some(downward) = source.downward_api() {
        (
            "downward-api",
            reader.downward(downward.items(), downward.default_mode(), downward.default_user())?,
        )
    } else if let Some(projected) = source.projected() {
        let mut files = Files::new();
        for (at, source) in projected.sources().iter().enumerate() {
            let (mode, user) = (projected.default_mode(), projected.default_user());
            files.extend(reader.projection(at, source, mode, user).await?);
        }
        ("projected", files)
    } else {
        return Err("volumes of this type are not supported".into());
    };
    let place = below(kind);
    blocking(move || {
        if matches!(kind, "secret" | "projected") {
            // secrets do not touch the disk
            volume::empty(&place, &Empty { memory: true, size: None, mode: 0o755 })
                .map_err(said)?;
        }
        volume::write(&place, &files, group).map_err(said)?;
        Ok(place)
    })
    .await
}

/// A path of the machine; where it is a link, what that leads to.
async fn host_path(path: &str, kind: &str) -> Result<PathBuf, String> {
    let (place, kind) = (PathBuf::from(path), kind.to_owned());
    blocking(move || {
        volume::check_host_path(&place, &kind).map_err(said)?;
        match std::fs::canonicalize(&place) {
            // the runtime makes what is missing
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(place),
            found => found.map_err(|error| format!("{}: {error}", place.display())),
        }
    })
    .await
}

async fn persistent(host: &Host, pod: &Pod, claim: &str) -> Result<PathBuf, String> {
    let volume = host.objects.volume(pod.metadata().namespace(), claim).await?;
    let source = volume.spec().persistent_volume_source();
    if let Some(path) = source.host_path() {
        return host_path(path.path(), path.type_()).await;
    }
    let Some(local) = source.local() else {
        return Err("persistent volumes of this type are not supported".into());
    };
    let place = host_path(local.path(), "Directory").await?;
    let Some(group) = group(pod) else { return Ok(place) };
    let policy = pod.spec().security_context().and_then(|context| context.fs_group_change_policy());
    let trust = policy == Some("OnRootMismatch");
    blocking(move || {
        volume::give_to_group(&place, group, trust).map_err(said)?;
        Ok(place)
    })
    .await
}

fn group(pod: &Pod) -> Option<u32> {
    pod.spec().security_context().and_then(|context| context.fs_group()?.try_into().ok())
}

#[expect(clippy::needless_pass_by_value, reason = "errors come by value")]
fn said(error: volume::Error) -> String {
    error.to_string()
}

struct Part<'a> {
    items: &'a List<KeyToPath>,
    mode: i32,
    /// The owner of files that name none.
    user: Option<i64>,
    optional: Option<bool>,
}

struct Reader<'a> {
    host: &'a Host,
    pod: &'a Pod,
    volume: &'a str,
    budget: &'a Budget,
}

impl Reader<'_> {
    async fn config_map(&self, name: &str, part: &Part<'_>) -> Result<Files, String> {
        let mut data = self.budget.known("configmap", name);
        if data.is_none() {
            let namespace = self.pod.metadata().namespace();
            let read = self.host.objects.config_map(namespace, name).await?;
            data = read.map(|data| self.budget.remember("configmap", name, data));
        }
        select(data.as_deref(), ("configmap", name), part, self.budget)
    }

    async fn secret(&self, name: &str, part: &Part<'_>) -> Result<Files, String> {
        let mut data = self.budget.known("secret", name);
        if data.is_none() {
            let namespace = self.pod.metadata().namespace();
            let read = self.host.objects.secret(namespace, name).await?;
            data = read.map(|data| self.budget.remember("secret", name, data));
        }
        select(data.as_deref(), ("secret", name), part, self.budget)
    }

    async fn projection(
        &self,
        at: usize,
        source: &VolumeProjection,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Files, String> {
        if let Some(map) = source.config_map() {
            let part = Part { items: map.items(), mode, user, optional: map.optional() };
            return self.config_map(map.local_object_reference().name(), &part).await;
        }
        if let Some(secret) = source.secret() {
            let part = Part { items: secret.items(), mode, user, optional: secret.optional() };
            return self.secret(secret.local_object_reference().name(), &part).await;
        }
        if let Some(downward) = source.downward_api() {
            return self.downward(downward.items(), mode, user);
        }
        if let Some(token) = source.service_account_token() {
            let wanted = Wanted {
                volume: self.volume,
                path: token.path(),
                audience: token.audience(),
                seconds: token.expiration_seconds(),
            };
            let content = self.host.objects.token(self.pod, &wanted, self.host.now()).await?;
            let file = self.private(content, mode, token.user().or(user))?;
            return Ok([(token.path().to_owned(), file)].into());
        }
        if let Some(bundle) = source.cluster_trust_bundle() {
            let content = self.host.objects.trust(bundle).await?;
            let file = self.private(content, mode, bundle.user().or(user))?;
            return Ok([(bundle.path().to_owned(), file)].into());
        }
        if let Some(certificate) = source.pod_certificate() {
            return self.certificate(at, certificate, mode, user).await;
        }
        Err("a projection without a source".into())
    }

    /// A key and its certificate, in one file or in two.
    async fn certificate(
        &self,
        at: usize,
        source: &PodCertificateProjection,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Files, String> {
        let pod = self.pod.metadata().uid().to_owned();
        let slot = Slot { pod, volume: self.volume.to_owned(), source: at };
        let node = self.host.node().ok_or("the node is not registered yet")?;
        let node = (node.metadata().name(), node.metadata().uid());
        let wish = Wish { pod: self.pod, source, node };
        let Credentials { key, chain, .. } =
            self.host.objects.certificate(&slot, &wish, self.host.now()).await?;
        let both = format!("{key}{chain}");
        let files = [
            (source.credential_bundle_path(), both),
            (source.key_path(), key),
            (source.certificate_chain_path(), chain),
        ];
        let wanted = files.into_iter().filter(|(path, _)| !path.is_empty());
        let file = |content| self.private(content, mode, source.user().or(user));
        wanted.map(|(path, content)| Ok((path.to_owned(), file(content)?))).collect()
    }

    /// A file that only its owner reads where it has one, or where a group is given the volume: the user that is
    /// named for it, or else the one that all containers run as.
    fn private(&self, content: String, mode: i32, user: Option<i64>) -> Result<File, String> {
        self.budget.spend(content.len())?;
        let user = user.or_else(|| common_user(self.pod));
        let grouped = self.pod.spec().security_context().is_some_and(|c| c.fs_group().is_some());
        let mode = if grouped || user.is_some() { 0o600 } else { mode.unsigned_abs() };
        Ok(File { content: content.into_bytes(), mode, user: owner(user) })
    }

    fn downward(
        &self,
        items: &List<DownwardAPIVolumeFile>,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Files, String> {
        let sources = Sources {
            host_ips: self.host.host_ips(),
            allocatable: self.host.allocatable(),
            ..Sources::default()
        };
        let mut files = Files::new();
        for item in items.iter() {
            let content = match (item.field_ref(), item.resource_field_ref()) {
                (Some(field), _) => env::field(self.pod, field, &sources)?,
                (None, Some(resource)) => env::resource(self.pod, None, resource, &sources)?,
                (None, None) => continue,
            };
            self.budget.spend(content.len())?;
            let mode = item.mode().unwrap_or(mode).unsigned_abs();
            let user = owner(item.user().or(user));
            let file = File { content: content.into_bytes(), mode, user };
            files.insert(item.path().to_owned(), file);
        }
        Ok(files)
    }
}

/// The user that all containers of the pod are to run as, if they agree.
fn common_user(pod: &Pod) -> Option<i64> {
    let spec = pod.spec();
    let of_pod = spec.security_context().and_then(|context| context.run_as_user());
    let of = |container: &Container| {
        let own = container.security_context().and_then(|context| context.run_as_user());
        own.or(of_pod)
    };
    let ephemeral = spec.ephemeral_containers().iter().map(|one| one.as_container());
    let mut users = spec.all_containers().chain(ephemeral).map(of);
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}

fn owner(user: Option<i64>) -> Option<u32> {
    user.and_then(|user| user.try_into().ok())
}

/// All of an object's keys, or those that are named.
fn select(
    data: Option<&Data>,
    (kind, name): (&str, &str),
    part: &Part<'_>,
    budget: &Budget,
) -> Result<Files, String> {
    let optional = part.optional == Some(true);
    let Some(data) = data else {
        return if optional {
            Ok(Files::new())
        } else {
            Err(format!("{kind} \"{name}\" not found"))
        };
    };
    let mode = part.mode.unsigned_abs();
    if part.items.is_empty() {
        budget.spend(data.values().map(Vec::len).sum())?;
        let user = owner(part.user);
        let file = |content: &Vec<u8>| File { content: content.clone(), mode, user };
        return Ok(data.iter().map(|(key, content)| (key.clone(), file(content))).collect());
    }
    let mut files = Files::new();
    for item in part.items.iter() {
        match data.get(item.key()) {
            Some(content) => {
                budget.spend(content.len())?;
                let mode = item.mode().map_or(mode, i32::unsigned_abs);
                let user = owner(item.user().or(part.user));
                let file = File { content: content.clone(), mode, user };
                files.insert(item.path().to_owned(), file);
            }
            None if optional => {}
            None => return Err(format!("references non-existent {kind} key: {}", item.key())),
        }
    }
    Ok(files)
}

/// What the machine offers, where a container has no limit.
pub(crate) type Allocatable = BTreeMap<String, Quantity>;

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn pod(volumes: &str) -> Pod {
        Pod::from(from_yaml(&format!("spec: {{volumes: [{volumes}]}}")).expect("a pod"))
    }

    #[test]
    fn what_the_kubelet_writes_is_read_only() {
        for (source, expected) in [
            ("configMap: {name: x}", true),
            ("secret: {secretName: x}", true),
            ("projected: {sources: []}", true),
            ("downwardAPI: {items: []}", true),
            ("persistentVolumeClaim: {claimName: x, readOnly: true}", true),
            ("persistentVolumeClaim: {claimName: x}", false),
            ("emptyDir: {}", false),
            ("hostPath: {path: /x}", false),
        ] {
            let pod = pod(&format!("{{name: other, emptyDir: {{}}}}, {{name: v, {source}}}"));
            assert_eq!(is_read_only(&pod, "v"), expected, "{source}");
            assert!(!is_read_only(&pod, "other"));
        }
    }

    #[test]
    fn sub_paths_stay_in_the_volume_also_when_expanded() {
        let env = [("A", "../x"), ("B", "/etc"), ("C", "a/b"), ("D", "a;$(id)"), ("E", "")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sub = |text: &str| {
            let mount = VolumeMount::from(from_yaml(text).expect("a mount"));
            sub_path(&mount, &env)
        };
        for bad in ["$(A)", "$(B)", "x/$(A)", "$(C)/..", "$(missing)", "$(D)"] {
            assert!(sub(&format!("subPathExpr: {bad}")).is_err(), "{bad}");
        }
        for bad in ["..", "../x", "/x", "a/../../x"] {
            assert!(sub(&format!("subPath: {bad}")).is_err(), "{bad}");
        }
        assert_eq!(sub("subPathExpr: x/$(C)").unwrap().unwrap(), "x/a/b");
        assert_eq!(sub("subPath: ..a/b..").unwrap().unwrap(), "..a/b..");
        assert_eq!(sub("subPathExpr: $(E)").unwrap(), None);
        assert_eq!(sub("name: x").unwrap(), None);
    }

    #[test]
    fn a_secret_file_belongs_to_the_user_that_all_containers_run_as() {
        let user =
            |spec: &str| common_user(&Pod::from(from_yaml(&format!("spec: {{{spec}}}")).unwrap()));
        let of_pod = "securityContext: {runAsUser: 7}";
        let with = |id: &str| format!("securityContext: {{runAsUser: {id}}}");
        assert_eq!(user("containers: [{name: a}]"), None);
        assert_eq!(user(&format!("{of_pod}, containers: [{{name: a}}, {{name: b}}]")), Some(7));
        let one = |id: &str, rest: &str| format!("containers: [{{name: a, {}}}], {rest}", with(id));
        assert_eq!(user(&one("8", of_pod)), Some(8));
        assert_eq!(user(&one("8", "initContainers: [{name: b}]")), None);
        let init = format!("{of_pod}, initContainers: [{{name: b}}]");
        assert_eq!(user(&one("8", &init)), None, "they do not agree");
        assert_eq!(user(&one("7", &init)), Some(7));
        let debug = format!("{of_pod}, ephemeralContainers: [{{name: e, {}}}]", with("9"));
        assert_eq!(user(&one("7", &debug)), None);
    }

    /// The same large object, named again and again.
    #[test]
    fn the_files_of_a_pod_are_bounded() {
        let budget = Budget { left: AtomicUsize::new(MOST_BYTES), last: Mutex::default() };
        let data = budget.remember("secret", "s", Data::from([("k".into(), vec![7; 1 << 20])]));
        assert!(budget.known("configmap", "s").is_none() && budget.known("secret", "t").is_none());
        let text = "items: [{key: k, path: a}, {key: k, path: b}]";
        let source = api::core::SecretVolumeSource::from(from_yaml(text).expect("a source"));
        let part = Part { items: source.items(), mode: 0o644, user: None, optional: None };
        let mut refused = None;
        for round in 0..100 {
            match select(Some(&data), ("secret", "s"), &part, &budget) {
                Ok(files) => assert_eq!(files.len(), 2, "one key may be two files"),
                Err(error) => refused = refused.or(Some((round, error))),
            }
        }
        let (round, error) = refused.expect("there is a limit");
        assert_eq!(round, 64);
        assert!(error.contains("larger than 134217728 bytes"), "{error}");
    }
}
