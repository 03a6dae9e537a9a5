//! Order of API versions by stability, as in discovery.

use std::cmp::Ordering;

/// Compares versions in Kubernetes' order: `v2` before `v1`, `v1` before `v1beta2` before `v1beta1` before `v1alpha1`,
/// and all of these before names of another form, which are sorted alphabetically. The version that comes first is the
/// greater one.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability, major version, and minor version.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = number(major)?;
    for (name, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some(minor) = rest.strip_prefix(name) {
            return Some((stability, major, number(minor)?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| *n > 0 && !text.starts_with('0'))
}

#[test]
fn ranks_as_kubernetes_does() {
    let mut versions =
        ["foo10", "v1alpha1", "v10", "v1beta1", "foo1", "v1", "v2beta1", "v1beta2", "v2"];
    versions.sort_by(|a, b| compare_versions(b, a));
    assert_eq!(
        versions,
        ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]
    );
}
