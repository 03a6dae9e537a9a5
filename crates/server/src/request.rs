//! Request info: group, version, resource, verb and name, parsed from method and path.

use http::{Method, request::Parts};
use object::{
    Text,
    names::{NAMESPACES, path_segment_name},
    percent_decode,
    selector::{FieldSelector, Selector},
};

use crate::{Attributes, Peer, Query, RequestBody, UserInfo};

/// A request that has passed the filters.
#[derive(Debug)]
pub struct Request {
    pub head: Parts,
    pub body: RequestBody,
    pub peer: Peer,
    pub info: RequestInfo,
    pub query: Query,
    pub user: UserInfo,
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    pub is_resource: bool,
    pub verb: Text,
    pub path: Text,
    pub group: Text,
    pub version: Text,
    pub namespace: Text,
    pub resource: Text,
    pub subresource: Text,
    pub name: Text,
    /// The path after the subresource: the path to proxy to.
    pub rest: Text,
    /// Whether the path contains the verb, as in the deprecated `/api/v1/watch/pods`.
    pub verb_in_path: bool,
}

impl RequestInfo {
    /// Parses method and path, as upstream's `RequestInfoFactory` does.
    pub fn of(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.into(), verb: plain_verb(method), ..Self::default() };
        if path.starts_with("//") {
            return info; // not found
        }
        // An escaped slash also separates segments.
        let whole = percent_decode(path, false);
        let mut parts: Vec<&str> = whole.trim_start_matches('/').split('/').collect();
        while parts.last() == Some(&"") {
            parts.pop();
        }
        let rest = match &*parts {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                info.version = (*version).into();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (info.group, info.version) = ((*group).into(), (*version).into());
                rest
            }
            _ => return info,
        };
        if rest == ["watch"] || rest == ["proxy"] {
            return info; // deprecated prefix without a resource
        }
        info.is_resource = true;
        info.locate(method, rest, query);
        info
    }

    fn locate(&mut self, method: &Method, parts: &[&str], query: &Query) {
        let (watching, parts) = match parts {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            parts => (false, parts),
        };
        let parts = match parts {
            [NAMESPACES, namespace, rest @ ..]
                if !matches!(rest, [] | ["status" | "finalize", ..]) =>
            {
                self.namespace = (*namespace).into();
                rest
            }
            parts => parts,
        };
        if let [resource, more @ ..] = parts {
            self.resource = (*resource).into();
            self.name = more.first().copied().unwrap_or_default().into();
            self.subresource = more.get(1).copied().unwrap_or_default().into();
            self.rest = more.get(2..).unwrap_or_default().join("/").into();
        }
        // A Namespace belongs to itself.
        if self.resource == NAMESPACES && self.namespace.is_empty() {
            self.namespace = self.name.clone();
        }
        self.verb_in_path = watching;
        self.verb = match (method.as_str(), self.name.is_empty()) {
            _ if watching => "watch", // whatever the method is
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            ("GET" | "HEAD", _) if self.watches(query) => "watch",
            ("GET" | "HEAD", true) => "list",
            ("GET" | "HEAD", false) => "get",
            _ => "",
        }
        .into();
    }

    /// Only collections are watched; a single object by a field selector with its name.
    fn watches(&self, query: &Query) -> bool {
        self.name.is_empty() && query.flag("watch")
    }

    /// The attributes to authorize. Selectors count for list, watch and deletecollection only. A
    /// field selector that requires a name restricts a list or watch to that object, so that
    /// `resourceNames` of roles apply.
    pub fn attributes(&self, query: &Query) -> Attributes {
        let selects = !self.verb_in_path
            && matches!(&*self.verb, "list" | "watch" | "deletecollection")
            && self.is_resource;
        let selector =
            |name: &str| -> Text { query.get(name).filter(|_| selects).unwrap_or_default().into() };
        let field_selector = selector("fieldSelector");
        let named = selects && self.verb != "deletecollection" && self.name.is_empty();
        let named = named.then(|| selected_name(query, &field_selector)).flatten();
        Attributes {
            verb: self.verb.clone(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: named.unwrap_or_else(|| self.name.clone()),
            path: self.path.clone(),
            is_resource: self.is_resource,
            field_selector,
            label_selector: selector("labelSelector"),
        }
    }
}

/// The name that a field selector requires; `None` if an option of the request is malformed.
fn selected_name(query: &Query, field_selector: &str) -> Option<Text> {
    let fields = FieldSelector::parse(field_selector).ok()?;
    let name =
        fields.required_value("metadata.name").filter(|name| path_segment_name(name).is_empty())?;
    let labels = Selector::parse(query.get("labelSelector").unwrap_or_default());
    let readable =
        labels.is_ok() && query.integer("limit").is_ok() && query.integer("timeoutSeconds").is_ok();
    readable.then(|| name.into())
}

fn plain_verb(method: &Method) -> Text {
    method.as_str().to_lowercase().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::of(&method.parse().unwrap(), path, &Query::parse(query))
    }

    #[test]
    fn reads_paths_as_upstream_does() {
        let cases = [
            ("GET", "/api/v1/pods", "list", "", "pods", "", ""),
            ("GET", "/api/v1/pods?watch=true", "watch", "", "pods", "", ""),
            ("GET", "/api/v1/watch/namespaces/d/pods", "watch", "d", "pods", "", ""),
            (
                "POST",
                "/apis/apps/v1/namespaces/d/deployments",
                "create",
                "d",
                "deployments",
                "",
                "",
            ),
            ("PATCH", "/api/v1/namespaces/d/pods/p/status", "patch", "d", "pods", "p", "status"),
            ("GET", "/api/v1/namespaces/d", "get", "d", "namespaces", "d", ""),
            ("PUT", "/api/v1/namespaces/d/finalize", "update", "d", "namespaces", "d", "finalize"),
            ("DELETE", "/api/v1/nodes", "deletecollection", "", "nodes", "", ""),
        ];
        for (method, uri, verb, namespace, resource, name, subresource) in cases {
            let info = info(method, uri);
            assert_eq!(
                (&*info.verb, &*info.namespace, &*info.resource, &*info.name, &*info.subresource),
                (verb, namespace, resource, name, subresource),
                "{method} {uri}"
            );
        }
        assert!(!info("GET", "/healthz").is_resource);
        assert!(!info("GET", "/apis/apps/v1").is_resource);
        assert_eq!(info("GET", "/api/v1/nodes/n/proxy/a/b").rest, "a/b");
        assert_eq!(info("GET", "/apis/x/v1/things/system%3Aa+b").name, "system:a+b");
    }

    #[test]
    fn a_selector_names_an_object_to_lists_and_watches_only() {
        let named = |method: &str, uri: &str| {
            let (_, query) = uri.split_once('?').unwrap_or((uri, ""));
            let attributes = info(method, uri).attributes(&Query::parse(query));
            (attributes.verb.to_string(), attributes.name.to_string())
        };
        let x = "fieldSelector=metadata.name%3Dx";
        for (method, uri, verb, name) in [
            ("GET", format!("/api/v1/secrets?{x}"), "list", "x"),
            ("HEAD", format!("/api/v1/secrets?{x}"), "list", "x"),
            ("GET", format!("/api/v1/secrets?watch=true&{x}"), "watch", "x"),
            ("GET", format!("/api/v1/secrets?watch=FaLsE&{x}"), "list", "x"),
            ("GET", format!("/api/v1/secrets?watch&{x}"), "watch", "x"),
            ("GET", format!("/api/v1/secrets?{x}%2Ctype%3Da"), "list", "x"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3D%3Dx".into(), "list", "x"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name!%3Dx".into(), "list", ""),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3D..".into(), "list", ""),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3Da%252Fb".into(), "list", ""),
            ("GET", format!("/api/v1/secrets?{x}&limit=many"), "list", ""),
            ("GET", format!("/api/v1/secrets?{x}&labelSelector=%3D%3D"), "list", ""),
            ("GET", format!("/api/v1/secrets?fieldSelector=&{x}"), "list", ""),
            ("GET", format!("/api/v1/watch/secrets?{x}"), "watch", ""),
            ("GET", format!("/api/v1/namespaces/d/secrets/y?{x}"), "get", "y"),
            ("POST", format!("/api/v1/namespaces/d/secrets?{x}"), "create", ""),
            ("PUT", format!("/api/v1/namespaces/d/secrets?{x}"), "update", ""),
            ("PATCH", format!("/api/v1/namespaces/d/secrets?{x}"), "patch", ""),
            ("DELETE", format!("/api/v1/namespaces/d/secrets?{x}"), "deletecollection", ""),
            ("OPTIONS", format!("/api/v1/namespaces/d/secrets?{x}"), "", ""),
        ] {
            assert_eq!(named(method, &uri), (verb.to_owned(), name.to_owned()), "{method} {uri}");
        }
        let selector = |method: &str, uri: &str| {
            let (_, query) = uri.split_once('?').unwrap_or((uri, ""));
            info(method, uri).attributes(&Query::parse(query)).field_selector
        };
        assert_eq!(selector("GET", &format!("/api/v1/watch/pods?{x}")), "");
        assert_eq!(selector("POST", &format!("/api/v1/pods?{x}")), "");
        assert_eq!(selector("DELETE", &format!("/api/v1/pods?{x}")), "metadata.name=x");
    }
}
