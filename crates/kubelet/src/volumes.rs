//! The volumes of a pod: set-up on the host, and the mounts of containers.

mod files;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use api::core::{Container, EmptyDirVolumeSource, ImageVolumeSource, Pod, Volume, VolumeMount};
use container::cri::{ImageSpec, Mount, MountPropagation};
use object::Quantity;
use volume::{EmptyDir, Payload};

pub(crate) use self::files::PodFiles;
use self::files::{Budget, KeySelection, Reader};
use crate::{KubeletContext, blocking, env::expand};

/// Where a volume is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MountedVolume {
    Directory(PathBuf),
    /// An image volume, which the runtime mounts; its image id.
    Image(String),
}

impl MountedVolume {
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Image(_) => None,
        }
    }
}

/// The mounted volumes of a pod by name. Image volumes are added when a container that mounts them starts.
pub(crate) type MountedVolumes = BTreeMap<String, MountedVolume>;

/// Sets up every volume of a pod except image volumes; the error says which one failed. Can be repeated to refresh the
/// files.
pub(crate) async fn mount_volumes(
    host: &KubeletContext,
    pod: &Pod,
) -> Result<MountedVolumes, String> {
    let mut places = MountedVolumes::new();
    let budget = host.pod_files.budget(pod.metadata().uid(), |uid| host.pods.has(uid));
    let images = |volume: &&Volume| volume.volume_source().image().is_some();
    for volume in pod.spec().volumes().iter().filter(|volume| !images(volume)) {
        let place = mount_volume(host, pod, volume, &budget).await.map_err(|error| {
            format!("MountVolume.SetUp failed for volume \"{}\" : {error}", volume.name())
        })?;
        places.insert(volume.name().to_owned(), MountedVolume::Directory(place));
    }
    budget.finish();
    Ok(places)
}

/// Whether the pod has volumes whose contents may change while it runs: ConfigMaps, Secrets, tokens, downward API.
pub(crate) fn needs_refresh(pod: &Pod) -> bool {
    pod.spec().volumes().iter().any(|volume| {
        let source = volume.volume_source();
        source.config_map().is_some()
            || source.secret().is_some()
            || source.projected().is_some()
            || source.downward_api().is_some()
    })
}

/// The image volumes of a container.
pub(crate) fn images<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> impl Iterator<Item = (&'a str, &'a ImageVolumeSource)> {
    let mounted = |name: &str| container.volume_mounts().iter().any(|mount| mount.name() == name);
    let all = pod.spec().volumes().iter().filter(move |volume| mounted(volume.name()));
    all.filter_map(|volume| Some((volume.name(), volume.volume_source().image()?)))
}

/// The CRI mounts of a container.
pub(crate) fn mounts(
    host: &KubeletContext,
    pod: &Pod,
    container: &Container,
    places: &MountedVolumes,
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
            MountedVolume::Directory(place) => place,
            MountedVolume::Image(id) => {
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
                // The error does not reveal to the pod's author what exists on the host.
                volume::bind_mount_sub_path(place, Path::new(&sub), &target).map_err(|error| {
                    tracing::warn!(pod = pod.metadata().name(), %error, "rejected a subPath");
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

/// Whether a volume is mounted read-only whatever the mount says: because the kubelet writes it, or its claim is
/// read-only.
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

/// Sets up one volume; returns its directory on the host.
async fn mount_volume(
    host: &KubeletContext,
    pod: &Pod,
    volume: &Volume,
    budget: &Budget<'_>,
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
        return empty_dir(below("empty-dir"), empty, group).await;
    }
    if source.git_repo().is_some() {
        // gitRepo would run hooks from untrusted repositories as root on the node
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
        let part = KeySelection {
            items: map.items(),
            mode: map.default_mode(),
            user: map.default_user(),
            optional: map.optional(),
        };
        let name = map.local_object_reference().name();
        ("configmap", reader.config_map(name, &part).await?)
    } else if let Some(secret) = source.secret() {
        let part = KeySelection {
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
        let mut files = Payload::new();
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
            // secrets are kept on tmpfs and never written to disk
            volume::set_up_empty_dir(
                &place,
                &EmptyDir { tmpfs: true, size_limit: None, mode: 0o755 },
            )
            .map_err(to_message)?;
        }
        volume::write_atomically(&place, &files, group).map_err(to_message)?;
        Ok(place)
    })
    .await
}

async fn empty_dir(
    place: PathBuf,
    source: &EmptyDirVolumeSource,
    group: Option<u32>,
) -> Result<PathBuf, String> {
    let memory = match source.medium() {
        "" => false,
        "Memory" => true,
        other => return Err(format!("the medium {other:?} is not supported")),
    };
    // size 0 would mean no limit for a tmpfs
    let size = source.size_limit().and_then(|size| u64::try_from(size.value()).ok());
    let size = size.filter(|size| *size > 0);
    let mode = source.mode().map_or(0o777, i32::unsigned_abs);
    blocking(move || {
        let is_new = !place.exists();
        volume::set_up_empty_dir(&place, &EmptyDir { tmpfs: memory, size_limit: size, mode })
            .map_err(to_message)?;
        if let Some(group) = group.filter(|_| is_new) {
            volume::apply_fs_group(&place, group, false).map_err(to_message)?;
        }
        Ok(place)
    })
    .await
}

/// The resolved path of a hostPath volume; symlinks are followed.
async fn host_path(path: &str, kind: &str) -> Result<PathBuf, String> {
    let (place, kind) = (PathBuf::from(path), kind.to_owned());
    blocking(move || {
        volume::check_host_path(&place, &kind).map_err(to_message)?;
        match std::fs::canonicalize(&place) {
            // the runtime creates a missing directory
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(place),
            found => found.map_err(|error| format!("{}: {error}", place.display())),
        }
    })
    .await
}

/// The directory of a bound PersistentVolumeClaim: hostPath or local volumes.
async fn persistent(host: &KubeletContext, pod: &Pod, claim: &str) -> Result<PathBuf, String> {
    let volume = host.api_reader.bound_volume(pod.metadata().namespace(), claim).await?;
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
        volume::apply_fs_group(&place, group, trust).map_err(to_message)?;
        Ok(place)
    })
    .await
}

/// The pod's fsGroup.
fn group(pod: &Pod) -> Option<u32> {
    pod.spec().security_context().and_then(|context| context.fs_group()?.try_into().ok())
}

#[expect(clippy::needless_pass_by_value, reason = "errors come by value")]
fn to_message(error: volume::Error) -> String {
    error.to_string()
}

/// Allocatable resources of the node by name.
pub(crate) type Allocatable = BTreeMap<String, Quantity>;

#[cfg(test)]
mod tests;
