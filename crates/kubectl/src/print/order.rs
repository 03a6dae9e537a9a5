//! The declaration order of the fields of built-in kinds. Upstream prints objects that it holds as Go structs in that
//! order, and everything else sorted by name.

use object::{SchemaRef, StructSchema, Type, Value};

/// Fields of types that are not among the built-in kinds, by the field that contains them: a kubeconfig, a
/// TokenRequest and the output of `api-resources`.
const OTHERS: &[(&str, &str)] = &[
    (
        "",
        "kind apiVersion metadata spec status groupVersion resources items preferences clusters users contexts current-context",
    ),
    ("resources", "name singularName namespaced group version kind verbs shortNames categories"),
    (
        "metadata",
        "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp labels annotations ownerReferences finalizers managedFields",
    ),
    ("spec", "audiences expirationSeconds boundObjectRef"),
    ("boundObjectRef", "kind apiVersion name uid"),
    ("status", "token expirationTimestamp"),
    ("clusters", "name cluster"),
    ("users", "name user"),
    ("contexts", "name context"),
    (
        "cluster",
        "server tls-server-name insecure-skip-tls-verify certificate-authority certificate-authority-data proxy-url disable-compression extensions",
    ),
    ("exec", "command args env apiVersion installHint provideClusterInfo interactiveMode"),
    ("context", "cluster user namespace extensions"),
    (
        "user",
        "client-certificate client-certificate-data client-key client-key-data token tokenFile as as-uid as-groups as-user-extra username password auth-provider exec extensions",
    ),
];

/// The schema of an object's kind, which has the declaration order.
pub(crate) struct Declared {
    schema: Option<SchemaRef<StructSchema>>,
    /// Whether the object is a list of the kind.
    list: bool,
}

/// A position in a schema.
enum Place<'a> {
    Struct(&'a StructSchema),
    /// Fields are sorted by name.
    Names,
}

impl Declared {
    /// The schema for an object, found by its `apiVersion` and `kind`.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |name: &str| object[name].as_str().unwrap_or_default();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let find = |kind: &str| {
            let mut all = api::builtin_resources().into_iter();
            all.find(|d| {
                d.names.group == group && d.names.version == version && d.names.kind == kind
            })
            .map(|definition| definition.schema)
        };
        if let Some(schema) = find(text("kind")) {
            return Self { schema: Some(schema), list: false };
        }
        let item = text("kind").strip_suffix("List").filter(|kind| !kind.is_empty());
        Self { schema: item.and_then(find), list: true }
    }

    /// Sorts the entries of the value at `path`.
    pub(crate) fn sort(&self, path: &[&str], entries: &mut [(&str, &Value)]) {
        let Some(schema) = &self.schema else {
            let parent = path.last().copied().unwrap_or_default();
            if let Some((_, fields)) = OTHERS.iter().find(|(other, _)| *other == parent) {
                let rank = |name: &str| fields.split(' ').position(|field| field == name);
                entries.sort_by_key(|(name, _)| rank(name).unwrap_or(usize::MAX));
            }
            return;
        };
        let below = match path {
            [] if self.list => {
                let order = ["kind", "apiVersion", "metadata"];
                let rank = |name: &str| order.iter().position(|field| *field == name);
                entries.sort_by_key(|(name, _)| rank(name).unwrap_or(usize::MAX));
                return;
            }
            ["items", below @ ..] if self.list => below,
            path => path,
        };
        if let Place::Struct(schema) = place(schema, below) {
            let written = schema.fields_in_go_order();
            let rank = |name: &str| match name {
                "kind" if schema.is_object() || below.is_empty() => 0,
                "apiVersion" if schema.is_object() || below.is_empty() => 1,
                name => written
                    .iter()
                    .position(|field| field.name == name)
                    .map_or(usize::MAX, |at| at + 2),
            };
            entries.sort_by_key(|(name, _)| rank(name));
        }
    }
}

/// The schema position at `path`; items of a list have the path of the list.
fn place<'a>(schema: &'a StructSchema, path: &[&str]) -> Place<'a> {
    let Some((name, rest)) = path.split_first() else { return Place::Struct(schema) };
    match schema.field(name) {
        Some(field) => within(&field.ty, rest),
        None => Place::Names,
    }
}

fn within<'a>(ty: &'a Type, path: &[&str]) -> Place<'a> {
    match ty {
        Type::List(item) => within(item, path),
        Type::Map(item) => path.split_first().map_or(Place::Names, |(_, rest)| within(item, rest)),
        Type::Object(schema) | Type::StructOr(schema, _) => place(schema, path),
        _ => Place::Names,
    }
}

#[test]
fn fields_are_in_the_order_of_go() {
    let names = |object: &str, path: &[&str], names: &[&'static str]| {
        let declared = Declared::of(&object::yaml::from_yaml(object).expect("YAML"));
        let mut entries: Vec<(&str, &Value)> =
            names.iter().map(|name| (*name, &Value::Null)).collect();
        declared.sort(path, &mut entries);
        entries.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    };
    let config_map = "{apiVersion: v1, kind: ConfigMap}";
    assert_eq!(
        names(config_map, &[], &["apiVersion", "data", "kind", "metadata"]),
        "kind apiVersion metadata data"
    );
    assert_eq!(names(config_map, &["data"], &["a", "b"]), "a b");
    let nodes = "{apiVersion: v1, kind: NodeList}";
    assert_eq!(
        names(nodes, &["items", "status", "addresses"], &["address", "type"]),
        "type address"
    );
    assert_eq!(
        names(nodes, &[], &["apiVersion", "items", "kind", "metadata"]),
        "kind apiVersion metadata items"
    );
    let token = "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest}";
    assert_eq!(
        names(token, &["status"], &["expirationTimestamp", "token"]),
        "token expirationTimestamp"
    );
    assert_eq!(
        names("{apiVersion: v1, kind: Config}", &["clusters"], &["cluster", "name"]),
        "name cluster"
    );
}
