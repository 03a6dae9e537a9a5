//! The paths of a kind and their operations.

use object::Value;

use super::{
    non_resource_paths::{GROUP, GROUPS, INFO, VERSIONS},
    operation::{DELETE, FORCE, Operation, PRETTY, SELECT, WATCH, WRITE, shared, sorted},
    schemas::{DELETE_OPTIONS, PATCH, RESOURCES, STATUS, Schemas, WATCH_EVENT},
};
use crate::{QueryParameter, ResourceDefinition, Subresource};

const OK: &[(&str, &str)] = &[("200", "OK")];
const PUT: &[(&str, &str)] = &[("200", "OK"), ("201", "Created")];
const POST: &[(&str, &str)] = &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
const DELETE_RESPONSES: &[(&str, &str)] = &[("200", "OK"), ("202", "Accepted")];

/// The paths of one document.
#[derive(Debug, Default)]
pub(super) struct Paths(Value);

impl Paths {
    /// All paths. The parameters of a path's only operation are moved to the path.
    pub(super) fn into_value(mut self) -> Value {
        self.0.retain(|_, path| {
            let methods: Vec<String> = path
                .entries()
                .filter(|(name, _)| *name != "parameters")
                .map(|(name, _)| name.to_owned())
                .collect();
            if let [only] = &*methods {
                let own = path.get(only).get("parameters").items().to_vec();
                if !own.is_empty() {
                    path[only.as_str()].remove("parameters");
                    let all = path.get("parameters").items().iter().cloned().chain(own);
                    path["parameters"] = sorted(all);
                }
            }
            true
        });
        self.0
    }

    /// Adds the discovery path of a group and version.
    pub(super) fn version(&mut self, group: &str, version: &str) {
        let id = format!("get{}{}APIResources", camel(group), capital(version));
        let operation = Operation::new(id, &tag(group, version), "Tells what resources there are.");
        let path = format!("{}/", base(group, version));
        self.put(&path, "get", operation.responses(OK, RESOURCES));
    }

    /// Adds a path that is no resource, such as discovery of groups; returns the schemas that it
    /// needs.
    pub(super) fn non_resource(&mut self, name: &str) -> Option<Vec<&'static str>> {
        let path = format!("/{name}/");
        let new = |id: &str, tag: &str, what: &str| Operation::new(id.to_owned(), tag, what);
        let (operation, schema) = match name {
            "api" => {
                let operation = new("getCoreAPIVersions", "core", "Tells the versions there are.");
                (operation.responses(OK, VERSIONS), Some(VERSIONS))
            }
            "apis" => {
                let operation = new("getAPIVersions", "apis", "Tells the groups there are.");
                (operation.responses(OK, GROUPS), Some(GROUPS))
            }
            "version" => {
                let operation = new("getCodeVersion", "version", "Tells the server's version.");
                (operation.gives_json(INFO), Some(INFO))
            }
            ".well-known/openid-configuration" => {
                let id = "getServiceAccountIssuerOpenIDConfiguration";
                let operation = new(id, "WellKnown", "Tells how tokens can be checked.");
                (operation.gives_plain("application/json"), None)
            }
            "openid/v1/jwks" => {
                let id = "getServiceAccountIssuerOpenIDKeyset";
                let operation = new(id, "openid", "Tells the keys of tokens.");
                (operation.gives_plain("application/jwk-set+json"), None)
            }
            name => {
                let group = name.strip_prefix("apis/")?;
                let id = format!("get{}APIGroup", camel(group));
                let tag = tag(group, "");
                let tag = tag.trim_end_matches('_');
                let operation = new(&id, tag, "Tells the versions of a group.");
                (operation.responses(OK, GROUP), Some(GROUP))
            }
        };
        self.put(&path, "get", operation);
        Some(schema.into_iter().collect())
    }

    /// Adds all paths of a kind.
    pub(super) fn kind(&mut self, definition: &ResourceDefinition, schemas: &mut Schemas) {
        let place = ResourcePaths::of(definition);
        let can = |verb: &str| definition.verbs.contains(&verb);
        let one = schemas.kind(definition);
        let kind = place.kind;
        if can("list") {
            let list = schemas.list(definition);
            if definition.is_namespaced() {
                let path = format!("{}/{}", place.base, place.plural);
                let id = format!("list{}{kind}ForAllNamespaces", place.version);
                let all = Operation::new(id, &place.tag, "Lists objects of all namespaces.");
                self.put(&path, "get", all.action("list", place.gvk).watch_response(&list));
                self.share(&path, listing().chain([PRETTY]));
            }
            let operation = place.operation("list", "", "Lists objects.").action("list", place.gvk);
            self.put(&place.many, "get", operation.with(listing()).watch_response(&list));
        }
        if can("create") {
            let operation =
                place.operation("create", "", "Makes an object.").action("post", place.gvk);
            let operation =
                operation.with(WRITE.to_vec()).request_body(&one, true).responses(POST, &one);
            self.put(&place.many, "post", operation);
        }
        if can("deletecollection") {
            let id = format!("delete{}Collection{}{kind}", place.version, place.scope);
            let operation = Operation::new(id, &place.tag, "Deletes all selected objects.");
            let operation = operation.action("deletecollection", place.gvk);
            let parameters = DELETE.iter().chain(SELECT).copied();
            let operation = operation.with(parameters).request_body(DELETE_OPTIONS, false);
            self.put(&place.many, "delete", operation.responses(OK, STATUS));
        }
        if !self.0.get(&place.many).is_null() {
            self.share(&place.many, [PRETTY]);
        }
        self.object(&place, definition.verbs, "", (&one, place.gvk));
        if can("delete") {
            let operation =
                place.operation("delete", "", "Deletes an object.").action("delete", place.gvk);
            let operation = operation.with(DELETE.to_vec()).request_body(DELETE_OPTIONS, false);
            let left = if definition.return_deleted_object { &one } else { STATUS };
            self.put(&place.one, "delete", operation.responses(DELETE_RESPONSES, left));
        }
        if !self.0.get(&place.one).is_null() {
            self.share(&place.one, [PRETTY]);
        }
        for subresource in definition.subresources {
            self.subresource(&place, subresource, schemas);
        }
        if can("watch") {
            self.watches(&place, definition.is_namespaced());
        }
    }

    /// Adds the operations that read and change an object or a subresource.
    fn object(
        &mut self,
        place: &ResourcePaths,
        verbs: &[&str],
        subresource: &str,
        (schema, gvk): (&str, (&str, &str, &str)),
    ) {
        let path = match subresource {
            "" => place.one.clone(),
            subresource => format!("{}/{subresource}", place.one),
        };
        let suffix = capital(subresource);
        if verbs.contains(&"get") {
            let operation = place.operation("read", &suffix, "Reads an object.").action("get", gvk);
            self.put(&path, "get", operation.responses(OK, schema));
        }
        if verbs.contains(&"update") {
            let operation =
                place.operation("replace", &suffix, "Replaces an object.").action("put", gvk);
            let operation =
                operation.with(WRITE.to_vec()).request_body(schema, true).responses(PUT, schema);
            self.put(&path, "put", operation);
        }
        if verbs.contains(&"patch") {
            let operation = place.operation("patch", &suffix, "Changes part of an object.");
            let operation =
                operation.action("patch", gvk).with(WRITE.iter().copied().chain([FORCE]));
            self.put(
                &path,
                "patch",
                operation.patch_body(PATCH, place.typed).responses(PUT, schema),
            );
        }
    }

    fn subresource(
        &mut self,
        place: &ResourcePaths,
        subresource: &Subresource,
        schemas: &mut Schemas,
    ) {
        let (name, kind) = (subresource.name, subresource.kind);
        let path = format!("{}/{name}", place.one);
        if kind.ends_with("Options") {
            return self.connections(place, subresource, &path);
        } else if name == "log" {
            let operation = place.operation("read", "Log", "Reads a log.").action("get", place.gvk);
            self.put(&path, "get", operation.gives_text());
            return self.share(&path, subresource.parameters.iter().copied().chain([PRETTY]));
        }
        let (group, version) = subresource.group_version.unwrap_or((place.gvk.0, place.gvk.1));
        let gvk = (group, version, kind);
        let schema = schemas.kind_by_gvk(group, version, kind);
        self.object(place, subresource.verbs, name, (&schema, gvk));
        if subresource.verbs.contains(&"create") {
            let operation = place.operation("create", &capital(name), "Makes an object.");
            let operation = operation.action("post", gvk).with(WRITE.to_vec());
            self.put(&path, "post", operation.request_body(&schema, true).responses(POST, &schema));
        }
        self.share(&path, [PRETTY]);
    }

    /// Adds the connect operations of a subresource (exec, attach, proxy), which have several
    /// methods.
    fn connections(&mut self, place: &ResourcePaths, subresource: &Subresource, path: &str) {
        let proxy = subresource.name == "proxy";
        let methods: &[&str] = if proxy {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let further = format!("{path}/{{path}}");
        for (path, suffix) in [(path, ""), (&further, "WithPath")] {
            if !suffix.is_empty() && !proxy {
                continue;
            }
            for method in methods {
                let (version, scope, kind) = (&place.version, place.scope, place.kind);
                let (verb, name) = (capital(method), capital(subresource.name));
                let id = format!("connect{version}{verb}{scope}{kind}{name}{suffix}");
                let operation = Operation::new(id, &place.tag, "Opens a connection.");
                let gvk = (place.gvk.0, place.gvk.1, subresource.kind);
                self.put(path, method, operation.action("connect", gvk).connect_response());
            }
            self.share(path, subresource.parameters.iter().copied());
        }
    }

    /// Adds the deprecated watch paths.
    fn watches(&mut self, place: &ResourcePaths, namespaced: bool) {
        let (version, kind) = (&place.version, place.kind);
        let mut paths = vec![
            (
                watched(place, &place.many),
                format!("watch{version}{}{kind}List", place.scope),
                "watchlist",
            ),
            (watched(place, &place.one), format!("watch{version}{}{kind}", place.scope), "watch"),
        ];
        if namespaced {
            let path = format!("{}/watch/{}", place.base, place.plural);
            let id = format!("watch{version}{kind}ListForAllNamespaces");
            paths.push((path, id, "watchlist"));
        }
        for (path, id, action) in paths {
            let operation =
                Operation::new(id, &place.tag, "Watches; use the watch parameter of a list.");
            self.put(&path, "get", operation.action(action, place.gvk).watch_response(WATCH_EVENT));
            self.share(&path, listing().chain([PRETTY]));
        }
    }

    fn put(&mut self, path: &str, method: &str, operation: Operation) {
        self.0[path][method] = operation.into_value();
    }

    fn share(&mut self, path: &str, queries: impl IntoIterator<Item = QueryParameter>) {
        self.0[path]["parameters"] = shared(path, queries);
    }
}

/// The paths of a kind, and the parts of its operation ids.
struct ResourcePaths<'a> {
    base: String,
    plural: &'a str,
    many: String,
    one: String,
    kind: &'a str,
    gvk: (&'a str, &'a str, &'a str),
    tag: String,
    /// `AppsV1`.
    version: String,
    scope: &'static str,
    /// Whether the kind is built-in, not declared by a CRD.
    typed: bool,
}

impl<'a> ResourcePaths<'a> {
    fn of(definition: &'a ResourceDefinition) -> Self {
        let names = &definition.names;
        let base = base(names.group, names.version);
        let (scope, many) = if definition.is_namespaced() {
            ("Namespaced", format!("{base}/namespaces/{{namespace}}/{}", names.plural))
        } else {
            ("", format!("{base}/{}", names.plural))
        };
        Self {
            plural: names.plural,
            one: format!("{many}/{{name}}"),
            many,
            kind: names.kind,
            gvk: (names.group, names.version, names.kind),
            tag: tag(names.group, names.version),
            version: format!("{}{}", camel(names.group), capital(names.version)),
            scope,
            base,
            typed: definition.is_built_in(),
        }
    }

    fn operation(&self, verb: &str, suffix: &str, description: &str) -> Operation {
        let id = format!("{verb}{}{}{}{suffix}", self.version, self.scope, self.kind);
        Operation::new(id, &self.tag, description)
    }
}

fn listing() -> impl Iterator<Item = QueryParameter> {
    SELECT.iter().chain(WATCH).copied()
}

fn watched(place: &ResourcePaths, path: &str) -> String {
    path.replacen(&place.base, &format!("{}/watch", place.base), 1)
}

fn base(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// The group in operation ids: `rbac.authorization.k8s.io` becomes `RbacAuthorization`.
fn camel(group: &str) -> String {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "Core".to_owned(),
        group => group.split('.').map(capital).collect(),
    }
}

/// The tag of a group and version: `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    let name = camel(group);
    let (first, rest) = name.split_at_checked(1).unwrap_or(("", ""));
    format!("{}{rest}_{version}", first.to_lowercase())
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at_checked(1).unwrap_or(("", text));
    format!("{}{rest}", first.to_uppercase())
}
