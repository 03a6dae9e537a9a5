//! Files of the group `apiserver.config.k8s.io`: what all of them have in common.

use anyhow::{Result, ensure};
use object::Value;
use schema::{Errors, Path};

/// The file must be of this kind, in one of these versions.
pub(crate) fn known(file: &Value, kind: &str, versions: &[&str]) -> Result<()> {
    let (said, version) = (text(file, "kind"), text(file, "apiVersion"));
    let right = version.strip_prefix("apiserver.config.k8s.io/");
    ensure!(
        said == kind && right.is_some_and(|version| versions.contains(&version)),
        "no kind {said:?} is registered for version {version:?}: a {kind} of apiserver.config.k8s.io is expected"
    );
    Ok(())
}

/// Notes fields that are none of these.
pub(crate) fn strict(tree: &Value, path: &Path<'_>, fields: &[&str], errors: &mut Errors) {
    for (name, _) in tree.entries() {
        if !fields.contains(&name) {
            errors.invalid(&path.field(name), name, "unknown field");
        }
    }
}

/// All that is wrong, in one message.
pub(crate) fn aggregate(errors: &Errors) -> String {
    let mut all: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    match all.len() {
        1 => all.remove(0),
        _ => format!("[{}]", all.join(", ")),
    }
}

pub(crate) fn text<'a>(tree: &'a Value, name: &str) -> &'a str {
    tree.get(name).as_str().unwrap_or_default()
}

pub(crate) fn texts(tree: &Value) -> Vec<String> {
    tree.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
