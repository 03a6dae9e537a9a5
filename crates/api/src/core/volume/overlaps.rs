//! Files of a volume that hide each other.

use object::List;
use schema::Warnings;

use super::{KeyToPath, Volume, VolumeProjection};
use crate::core::DownwardAPIVolumeFile;

/// A path, and what it comes from where that is worth telling.
#[derive(Clone, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }

    /// Whether one is the other, or inside it.
    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (one.starts_with(&two) || two.starts_with(&one))
    }
}

pub(crate) fn warn(volumes: &List<Volume>, warnings: &mut Warnings) {
    for volume in volumes.iter() {
        let (name, source) = (volume.name(), volume.volume_source());
        if let Some(map) = source.config_map() {
            let kind = format!("ConfigMap {:?}", map.local_object_reference().name());
            warn_files(name, &kind, &keys(map.items(), ""), warnings);
        }
        if let Some(secret) = source.secret() {
            let kind = format!("Secret {:?}", secret.secret_name());
            warn_files(name, &kind, &keys(secret.items(), ""), warnings);
        }
        if let Some(files) = source.downward_api() {
            warn_files(name, "DownwardAPI", &fields(files.items(), ""), warnings);
        }
        if let Some(projected) = source.projected() {
            let mut files = Vec::new();
            for source in projected.sources().iter() {
                if *source == VolumeProjection::new() {
                    let what = format!("volume {name:?} (Projected) has no sources provided");
                    warnings.say(what);
                }
                files.extend(projection(source));
            }
            warn_files(name, "Projected", &files, warnings);
        }
    }
}

fn warn_files(volume: &str, kind: &str, files: &[File], warnings: &mut Warnings) {
    for (i, file) in files.iter().enumerate() {
        for other in files[..i].iter().filter(|other| file.overlaps(other)) {
            let (file, other) = (file.shown(), other.shown());
            warnings
                .say(format!("volume {volume:?} ({kind}): overlapping paths: {file} with {other}"));
        }
    }
}

fn projection(source: &VolumeProjection) -> Vec<File> {
    if let Some(map) = source.config_map().filter(|map| !map.items().is_empty()) {
        keys(map.items(), &format!("ConfigMap {:?}", map.local_object_reference().name()))
    } else if let Some(secret) = source.secret().filter(|secret| !secret.items().is_empty()) {
        keys(secret.items(), &format!("Secret {:?}", secret.local_object_reference().name()))
    } else if let Some(files) = source.downward_api().filter(|files| !files.items().is_empty()) {
        fields(files.items(), "DownwardAPI")
    } else if let Some(token) = source.service_account_token() {
        vec![File::new(token.path(), "ServiceAccountToken")]
    } else if let Some(bundle) = source.cluster_trust_bundle() {
        let name = bundle.name().or(bundle.signer_name()).unwrap_or_default();
        vec![File::new(bundle.path(), &format!("ClusterTrustBundle {name:?}"))]
    } else if let Some(certificate) = source.pod_certificate() {
        [
            (certificate.certificate_chain_path(), "PodCertificate chain"),
            (certificate.key_path(), "PodCertificate key"),
            (certificate.credential_bundle_path(), "PodCertificate credential bundle"),
        ]
        .into_iter()
        .filter(|(path, _)| !path.is_empty())
        .map(|(path, source)| File::new(path, source))
        .collect()
    } else {
        Vec::new()
    }
}

fn keys(items: &List<KeyToPath>, source: &str) -> Vec<File> {
    items.iter().map(|item| File::new(item.path(), source)).collect()
}

fn fields(items: &List<DownwardAPIVolumeFile>, source: &str) -> Vec<File> {
    items.iter().map(|item| File::new(item.path(), source)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_inside_another_is_told() {
        let item = |path: &str| KeyToPath::new().with_key("k").with_path(path);
        let items = List::from([item("a/"), item("a/b"), item("ab")]);
        let mut warnings = Warnings::default();
        warn_files("v", "Secret \"s\"", &keys(&items, ""), &mut warnings);
        assert_eq!(
            warnings.0,
            ["volume \"v\" (Secret \"s\"): overlapping paths: \"a/b\" with \"a\""]
        );
    }
}
