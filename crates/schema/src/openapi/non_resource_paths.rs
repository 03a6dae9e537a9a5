//! Schemas of paths that are no resources: discovery, and the server's version.

use object::Value;

use super::schemas::{kind_value, object, reference};

pub(super) const VERSIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions";
pub(super) const GROUPS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList";
pub(super) const GROUP: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
pub(super) const INFO: &str = "io.k8s.apimachinery.pkg.version.Info";
const VERSION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery";
const ADDRESS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR";

/// Paths that every server has.
pub(super) const NON_RESOURCE_PATHS: &[&str] =
    &["api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"];

/// The schema of this name, and those that it refers to.
pub(super) fn schemas(name: &str) -> Vec<(&'static str, Value)> {
    match name {
        VERSIONS => vec![(VERSIONS, versions()), (ADDRESS, address())],
        GROUP => vec![(GROUP, group()), (VERSION, version()), (ADDRESS, address())],
        GROUPS => {
            let mut all = schemas(GROUP);
            all.push((GROUPS, groups()));
            all
        }
        INFO => vec![(INFO, info())],
        _ => Vec::new(),
    }
}

fn versions() -> Value {
    let versions = [("versions", list(plain())), ("serverAddressByClientCIDRs", list_of(ADDRESS))];
    kind("APIVersions", &["versions", "serverAddressByClientCIDRs"], versions)
}

fn groups() -> Value {
    kind("APIGroupList", &["groups"], [("groups", list_of(GROUP))])
}

fn group() -> Value {
    let mut preferred = object([("default".to_owned(), Value::object())]);
    preferred["allOf"] = [reference(VERSION)].into_iter().collect();
    let fields = [
        ("name", text()),
        ("versions", list_of(VERSION)),
        ("preferredVersion", preferred),
        ("serverAddressByClientCIDRs", list_of(ADDRESS)),
    ];
    kind("APIGroup", &["name", "versions"], fields)
}

fn version() -> Value {
    texts(&["groupVersion", "version"], &[])
}

fn address() -> Value {
    texts(&["clientCIDR", "serverAddress"], &[])
}

fn info() -> Value {
    let always =
        "major minor gitVersion gitCommit gitTreeState buildDate goVersion compiler platform";
    let always: Vec<_> = always.split(' ').collect();
    let more =
        ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    texts(&always, &more)
}

fn kind<const N: usize>(name: &str, required: &[&str], fields: [(&str, Value); N]) -> Value {
    let mut schema = Value::object();
    for (field, of) in fields.into_iter().chain([("apiVersion", plain()), ("kind", plain())]) {
        schema["properties"][field] = of;
    }
    schema["required"] = required.iter().copied().collect();
    schema["type"] = "object".into();
    schema["x-kubernetes-group-version-kind"] = [kind_value("", "v1", name)].into_iter().collect();
    schema
}

fn texts(always: &[&str], more: &[&str]) -> Value {
    let mut schema = Value::object();
    for name in always {
        schema["properties"][*name] = text();
    }
    for name in more {
        schema["properties"][*name] = plain();
    }
    schema["required"] = always.iter().copied().collect();
    schema["type"] = "object".into();
    schema
}

fn plain() -> Value {
    object([("type".to_owned(), "string".into())])
}

fn text() -> Value {
    object([("type".to_owned(), "string".into()), ("default".to_owned(), "".into())])
}

fn list_of(name: &str) -> Value {
    list(reference(name))
}

fn list(item: Value) -> Value {
    let mut list = object([("type".to_owned(), "array".into())]);
    list["items"] = item;
    list["x-kubernetes-list-type"] = "atomic".into();
    list
}
