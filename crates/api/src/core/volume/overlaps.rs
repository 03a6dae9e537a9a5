//! Files of a volume that hide each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::List;
use schema::WarningList;

use super::{KeyToPath, Volume, VolumeProjection};
use crate::core::DownwardAPIVolumeFile;

/// A path, and what it comes from where that is worth telling.
#[derive(Clone, PartialEq, Eq, Hash)]
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

    /// The path such that what is inside begins with it.
    fn prefix(&self) -> String {
        format!("{}/", self.path)
    }
}

pub(crate) fn warn(volumes: &List<Volume>, warnings: &mut WarningList) {
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
                    warnings.push(what);
                }
                files.extend(projection(source));
            }
            warn_files(name, "Projected", &files, warnings);
        }
    }
}

/// Warns of each pair of files of which one is the other, or inside it. The pairs are found by
/// their paths, so that many files that do not overlap take no quadratic time.
fn warn_files(volume: &str, kind: &str, files: &[File], warnings: &mut WarningList) {
    let prefixes: BTreeSet<String> = files.iter().map(File::prefix).collect();
    let above = parents(&prefixes);
    let mut different: Vec<&File> = Vec::new();
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut looked_at: HashMap<&File, usize> = HashMap::new();
    for file in files.iter().filter(|file| !file.path.is_empty()) {
        if warnings.is_full() {
            return;
        }
        // The same file again: it was compared with those before its last occurrence.
        let (prefix, again) = (file.prefix(), looked_at.insert(file, different.len()));
        if again == Some(different.len()) {
            continue;
        }
        let up = std::iter::successors(Some(&*prefix), |path| above.get(*path).copied());
        let inside = places.range(prefix.clone()..).skip_while(|(path, _)| **path == prefix);
        let inside = inside.take_while(|(path, _)| path.starts_with(&prefix)).map(|(_, it)| it);
        let found = up.filter_map(|path| places.get(path)).chain(inside).flatten().copied();
        let mut found: Vec<usize> = found.filter(|it| *it >= again.unwrap_or(0)).collect();
        found.sort_unstable();
        for other in found.into_iter().filter_map(|it| different.get(it)) {
            let (file, other) = (file.shown(), other.shown());
            warnings.push(format!(
                "volume {volume:?} ({kind}): overlapping paths: {file} with {other}"
            ));
            if warnings.is_full() {
                return;
            }
        }
        if again.is_none() {
            places.entry(prefix).or_default().push(different.len());
            different.push(file);
        }
    }
}

/// The nearest path above each path that has one.
fn parents(paths: &BTreeSet<String>) -> HashMap<&str, &str> {
    let mut parents = HashMap::new();
    let mut above: Vec<&str> = Vec::new();
    for path in paths {
        while above.pop_if(|last| !path.starts_with(*last)).is_some() {}
        if let Some(last) = above.last() {
            parents.insert(path.as_str(), *last);
        }
        above.push(path);
    }
    parents
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
        let mut warnings = WarningList::default();
        warn_files("v", "Secret \"s\"", &keys(&items, ""), &mut warnings);
        assert_eq!(
            warnings.0,
            ["volume \"v\" (Secret \"s\"): overlapping paths: \"a/b\" with \"a\""]
        );
    }

    /// The same by comparing each with each.
    fn pairwise(files: &[File]) -> Vec<String> {
        let overlap = |a: &File, b: &File| {
            !a.path.is_empty()
                && !b.path.is_empty()
                && (a.prefix().starts_with(&b.prefix()) || b.prefix().starts_with(&a.prefix()))
        };
        let mut warnings = WarningList::default();
        for (i, file) in files.iter().enumerate() {
            for other in files[..i].iter().filter(|other| overlap(file, other)) {
                let (file, other) = (file.shown(), other.shown());
                warnings.push(format!("volume \"v\" (k): overlapping paths: {file} with {other}"));
            }
        }
        warnings.0
    }

    #[test]
    fn pairs_are_those_that_comparing_each_with_each_finds() {
        let paths = ["", "a", "a/b", "a/b/c", "ab", "a-b", "b", "b/a", "a/b/d", "a.", "a/"];
        let mut seed = 7_u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize % below
        };
        let mut some = 0;
        for _ in 0..500 {
            let count = next(9);
            let files: Vec<File> = (0..count)
                .map(|_| File::new(paths[next(paths.len())], ["", "s"][next(2)]))
                .collect();
            let mut warnings = WarningList::default();
            warn_files("v", "k", &files, &mut warnings);
            assert_eq!(warnings.0, pairwise(&files));
            some += warnings.0.len();
        }
        assert!(some > 1_000, "{some}");
    }
}
