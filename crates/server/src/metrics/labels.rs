//! What a request is counted as.

use std::fmt;

use object::Text;

use crate::RequestInfo;

/// What is no resource and counted by itself.
const PLAIN: &[&str] = &[
    "/readyz",
    "/livez",
    "/healthz",
    "/metrics",
    "/version",
    "/openapi/v2",
    "/openapi/v3",
    "/apis",
    "/api",
];

/// What a request was about. Names are those of kinds that are served, so that nobody
/// can make up new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) resource: Text,
    pub(crate) subresource: Text,
    pub(crate) scope: &'static str,
    pub(crate) dry_run: bool,
}

pub(crate) fn method_verb(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "APPLY" => "APPLY",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        _ => "other",
    }
}

impl Labels {
    /// What is counted for a request; of a kind that nobody serves only the verb.
    pub(crate) fn of(info: &RequestInfo, verb: &'static str, served: bool, dry_run: bool) -> Self {
        if !served {
            let path = &*info.path;
            let known = PLAIN.iter().find(|own| !info.is_resource && path.starts_with(**own));
            let subresource = known.copied().unwrap_or_default().into();
            return Self { verb, subresource, ..Self::default() };
        }
        let scope = match (&*info.verb, info.name.is_empty(), info.namespace.is_empty()) {
            ("create", ..) | (_, false, _) => "resource",
            (_, true, false) => "namespace",
            (_, true, true) => "cluster",
        };
        let verb = match &*info.verb {
            "list" => "LIST",
            "watch" => "WATCH",
            "deletecollection" => "DELETECOLLECTION",
            _ => verb,
        };
        Self {
            verb,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            scope,
            dry_run,
        }
    }

    /// How rights call a write of a resource; `None`: it is none.
    pub(super) fn writes(&self) -> Option<&'static str> {
        let verb = match self.verb {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" | "APPLY" => "patch",
            "DELETE" | "DELETECOLLECTION" => "delete",
            _ => return None,
        };
        (!self.resource.is_empty()).then_some(verb)
    }

    pub(super) fn component(&self) -> &'static str {
        if self.resource.is_empty() { "" } else { "apiserver" }
    }

    pub(super) fn dry(&self) -> &'static str {
        if self.dry_run { "dry_run=\"All\"" } else { "dry_run=\"\"" }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, version, resource, subresource, scope, .. } = self;
        write!(
            f,
            "group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
             subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }
}
