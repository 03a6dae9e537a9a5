//! Contents of the volumes that the kubelet writes: ConfigMaps, Secrets, tokens, certificates, downward API.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::core::{
    Container, DownwardAPIVolumeFile, EphemeralContainer, KeyToPath, Pod, PodCertificateProjection,
    PodSecurityContext, SecurityContext, VolumeProjection,
};
use object::List;
use volume::{FileProjection, Payload};

use crate::{
    KubeletContext,
    certificates::{CertificateKey, CertificateRequest, Credentials},
    env::{self, EnvSources},
    objects::{Data, TokenProjection},
};

/// Maximum size in bytes of all files that the kubelet writes for one pod. A pod can refer to the same object thousands
/// of times, and most of these files are on tmpfs, in the node's memory.
const MOST_BYTES: usize = 128 << 20;

/// Sizes of the files of all pods. They use the node's own memory: they are not charged to a pod's cgroup.
#[derive(Debug)]
pub(crate) struct PodFiles {
    /// Maximum size in bytes.
    most: usize,
    /// Size in bytes, by pod uid.
    by_pod: Mutex<HashMap<String, usize>>,
}

/// Sizes of the files of one pod, while its volumes are set up.
pub(super) struct Budget<'a> {
    files: &'a PodFiles,
    uid: &'a str,
    /// Bytes used so far.
    spent: Mutex<usize>,
    /// The object that was read last, by kind and name: several sources of a volume may refer to the same one.
    last: Mutex<Option<(&'static str, String, Arc<Data>)>>,
}

impl PodFiles {
    /// The limit is a tenth of the host's memory, but at least the maximum of two pods.
    pub(crate) fn new(memory: i64) -> Self {
        let most = usize::try_from(memory / 10).unwrap_or_default().max(2 * MOST_BYTES);
        Self { most, by_pod: Mutex::default() }
    }

    /// Begins to count the files of a pod. Pods that no longer exist are dropped from the count.
    pub(super) fn budget<'a>(
        &'a self,
        uid: &'a str,
        is_there: impl Fn(&str) -> bool,
    ) -> Budget<'a> {
        self.lock().retain(|uid, _| is_there(uid));
        Budget { files: self, uid, spent: Mutex::default(), last: Mutex::default() }
    }

    /// Records that a pod's files have at least this size; fails if all pods together exceed the limit.
    fn grow(&self, uid: &str, bytes: usize) -> Result<(), String> {
        let mut by_pod = self.lock();
        let known = by_pod.get(uid).copied().unwrap_or_default();
        let sum = by_pod.values().fold(0, |sum: usize, one| sum.saturating_add(*one));
        if bytes > known && (sum - known).saturating_add(bytes) > self.most {
            let most = self.most;
            return Err(format!("the files of all pods of the node are larger than {most} bytes"));
        }
        by_pod.insert(uid.to_owned(), known.max(bytes));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.by_pod.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget<'_> {
    fn spend(&self, bytes: usize) -> Result<(), String> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = spent.saturating_add(bytes);
        if now > MOST_BYTES {
            return Err(format!("the pod's files are larger than {MOST_BYTES} bytes"));
        }
        self.files.grow(self.uid, now)?;
        *spent = now;
        Ok(())
    }

    /// All files are written: replaces the recorded size by the current one, which may be smaller.
    pub(super) fn finish(&self) {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.lock().insert(self.uid.to_owned(), spent);
    }

    /// The object, if it is the one that was read last.
    pub(super) fn known(&self, kind: &str, name: &str) -> Option<Arc<Data>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().filter(|(of, known, _)| *of == kind && known == name);
        same.map(|(_, _, data)| data.clone())
    }

    pub(super) fn remember(&self, kind: &'static str, name: &str, data: Data) -> Arc<Data> {
        let data = Arc::new(data);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((kind, name.to_owned(), data.clone()));
        data
    }
}

/// Which keys of a ConfigMap or Secret to project, with what mode and owner.
pub(super) struct KeySelection<'a> {
    pub(super) items: &'a List<KeyToPath>,
    pub(super) mode: i32,
    /// Owner of files whose item names none.
    pub(super) user: Option<i64>,
    pub(super) optional: Option<bool>,
}

/// Reads the sources of a volume.
pub(super) struct Reader<'a> {
    pub(super) host: &'a KubeletContext,
    pub(super) pod: &'a Pod,
    pub(super) volume: &'a str,
    pub(super) budget: &'a Budget<'a>,
}

impl Reader<'_> {
    pub(super) async fn config_map(
        &self,
        name: &str,
        part: &KeySelection<'_>,
    ) -> Result<Payload, String> {
        let mut data = self.budget.known("configmap", name);
        if data.is_none() {
            let namespace = self.pod.metadata().namespace();
            let read = self.host.api_reader.config_map(namespace, name).await?;
            data = read.map(|data| self.budget.remember("configmap", name, data));
        }
        project_keys(data.as_deref(), ("configmap", name), part, self.budget)
    }

    pub(super) async fn secret(
        &self,
        name: &str,
        part: &KeySelection<'_>,
    ) -> Result<Payload, String> {
        let mut data = self.budget.known("secret", name);
        if data.is_none() {
            let namespace = self.pod.metadata().namespace();
            let read = self.host.api_reader.secret(namespace, name).await?;
            data = read.map(|data| self.budget.remember("secret", name, data));
        }
        project_keys(data.as_deref(), ("secret", name), part, self.budget)
    }

    /// The files of one source of a projected volume.
    pub(super) async fn projection(
        &self,
        at: usize,
        source: &VolumeProjection,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Payload, String> {
        if let Some(map) = source.config_map() {
            let part = KeySelection { items: map.items(), mode, user, optional: map.optional() };
            return self.config_map(map.local_object_reference().name(), &part).await;
        }
        if let Some(secret) = source.secret() {
            let part =
                KeySelection { items: secret.items(), mode, user, optional: secret.optional() };
            return self.secret(secret.local_object_reference().name(), &part).await;
        }
        if let Some(downward) = source.downward_api() {
            return self.downward(downward.items(), mode, user);
        }
        if let Some(token) = source.service_account_token() {
            let wanted = TokenProjection {
                volume: self.volume,
                path: token.path(),
                audience: token.audience(),
                seconds: token.expiration_seconds(),
            };
            let content = self.host.api_reader.token(self.pod, &wanted, self.host.now()).await?;
            let file = self.private(content, mode, token.user().or(user))?;
            return Ok([(token.path().to_owned(), file)].into());
        }
        if let Some(bundle) = source.cluster_trust_bundle() {
            let content = self.host.api_reader.trust_bundle(bundle).await?;
            let file = self.private(content, mode, bundle.user().or(user))?;
            return Ok([(bundle.path().to_owned(), file)].into());
        }
        if let Some(certificate) = source.pod_certificate() {
            return self.certificate(at, certificate, mode, user).await;
        }
        Err("a projection without a source".into())
    }

    /// The private key and certificate chain of a `podCertificate` source, in one file or in two.
    async fn certificate(
        &self,
        at: usize,
        source: &PodCertificateProjection,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Payload, String> {
        let pod = self.pod.metadata().uid().to_owned();
        let slot = CertificateKey { pod, volume: self.volume.to_owned(), source: at };
        let node = self.host.node().ok_or("the node is not registered yet")?;
        let node = (node.metadata().name(), node.metadata().uid());
        let request = CertificateRequest { pod: self.pod, source, node };
        let Credentials { key, chain, .. } =
            self.host.api_reader.certificate(&slot, &request, self.host.now()).await?;
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

    /// A file with credentials. Its owner is the given user, or else the one that all containers run as. It gets mode
    /// 0600 if it has an owner or the pod has an fsGroup.
    fn private(
        &self,
        content: String,
        mode: i32,
        user: Option<i64>,
    ) -> Result<FileProjection, String> {
        self.budget.spend(content.len())?;
        let user = user.or_else(|| common_user(self.pod));
        let grouped = self.pod.spec().security_context().is_some_and(|c| c.fs_group().is_some());
        let mode = if grouped || user.is_some() { 0o600 } else { mode.unsigned_abs() };
        Ok(FileProjection { content: content.into_bytes(), mode, uid: owner(user) })
    }

    pub(super) fn downward(
        &self,
        items: &List<DownwardAPIVolumeFile>,
        mode: i32,
        user: Option<i64>,
    ) -> Result<Payload, String> {
        let sources = EnvSources {
            host_ips: self.host.host_ips(),
            allocatable: self.host.allocatable(),
            ..EnvSources::default()
        };
        let mut files = Payload::new();
        for item in items.iter() {
            let content = match (item.field_ref(), item.resource_field_ref()) {
                (Some(field), _) => env::field_ref_value(self.pod, field, &sources)?,
                (None, Some(resource)) => {
                    env::resource_field_value(self.pod, None, resource, &sources)?
                }
                (None, None) => continue,
            };
            self.budget.spend(content.len())?;
            let mode = item.mode().unwrap_or(mode).unsigned_abs();
            let user = owner(item.user().or(user));
            let file = FileProjection { content: content.into_bytes(), mode, uid: user };
            files.insert(item.path().to_owned(), file);
        }
        Ok(files)
    }
}

/// The user that all containers of the pod run as; `None` if they differ.
pub(super) fn common_user(pod: &Pod) -> Option<i64> {
    let spec = pod.spec();
    let of_pod = spec.security_context().and_then(PodSecurityContext::run_as_user);
    let of = |container: &Container| {
        let own = container.security_context().and_then(SecurityContext::run_as_user);
        own.or(of_pod)
    };
    let ephemeral = spec.ephemeral_containers().iter().map(EphemeralContainer::as_container);
    let mut users = spec.all_containers().chain(ephemeral).map(of);
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}

fn owner(user: Option<i64>) -> Option<u32> {
    user.and_then(|user| user.try_into().ok())
}

/// The files of a ConfigMap or Secret: all keys, or the selected ones.
pub(super) fn project_keys(
    data: Option<&Data>,
    (kind, name): (&str, &str),
    part: &KeySelection<'_>,
    budget: &Budget<'_>,
) -> Result<Payload, String> {
    let optional = part.optional == Some(true);
    let Some(data) = data else {
        return if optional {
            Ok(Payload::new())
        } else {
            Err(format!("{kind} \"{name}\" not found"))
        };
    };
    let mode = part.mode.unsigned_abs();
    if part.items.is_empty() {
        budget.spend(data.values().map(Vec::len).sum())?;
        let user = owner(part.user);
        let file = |content: &Vec<u8>| FileProjection { content: content.clone(), mode, uid: user };
        return Ok(data.iter().map(|(key, content)| (key.clone(), file(content))).collect());
    }
    let mut files = Payload::new();
    for item in part.items.iter() {
        match data.get(item.key()) {
            Some(content) => {
                budget.spend(content.len())?;
                let mode = item.mode().map_or(mode, i32::unsigned_abs);
                let user = owner(item.user().or(part.user));
                let file = FileProjection { content: content.clone(), mode, uid: user };
                files.insert(item.path().to_owned(), file);
            }
            None if optional => {}
            None => return Err(format!("references non-existent {kind} key: {}", item.key())),
        }
    }
    Ok(files)
}
