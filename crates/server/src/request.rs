//! What a request is about, read from its method and path alone.

use http::{Method, request::Parts};
use object::Text;

use crate::{Arriving, Attributes, Peer, Query, User, query::unescaped};

/// A request on its way through the filters.
#[derive(Debug)]
pub struct Request {
    pub head: Parts,
    pub body: Arriving,
    pub peer: Peer,
    pub info: RequestInfo,
    pub query: Query,
    pub user: User,
}

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
    /// What stands behind the subresource: the path to proxy to.
    pub rest: Text,
}

impl RequestInfo {
    pub fn of(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.into(), verb: plain_verb(method), ..Self::default() };
        if path.starts_with("//") {
            return info; // no page
        }
        // A slash divides, however it is written.
        let whole = unescaped(path, false);
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
            return info; // of nothing
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
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest[0], "status" | "finalize") =>
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
        if self.resource == "namespaces" && !self.name.is_empty() {
            self.namespace = self.name.clone();
        }
        self.verb = match (method.as_str(), self.name.is_empty()) {
            _ if watching => "watch", // and nothing else, whatever the method
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

    /// Only collections are watched; a single object by its name as a selector.
    fn watches(&self, query: &Query) -> bool {
        self.name.is_empty() && query.flag("watch")
    }

    pub fn attributes(&self, query: &Query) -> Attributes {
        let named = query.get("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
        let named = named.filter(|name| self.name.is_empty() && !name.contains(','));
        Attributes {
            verb: self.verb.clone(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: named.map_or_else(|| self.name.clone(), Text::from),
            path: self.path.clone(),
            is_resource: self.is_resource,
            field_selector: query.get("fieldSelector").unwrap_or_default().into(),
            label_selector: query.get("labelSelector").unwrap_or_default().into(),
        }
    }
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
}
