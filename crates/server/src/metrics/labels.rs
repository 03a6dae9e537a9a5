//! The labels of request metrics.

use std::fmt;

use object::Text;

use crate::RequestInfo;

/// Non-resource paths that are counted separately.
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

/// The labels of a request. Group and resource are only set for served resources, so that clients
/// cannot create new series.
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

/// The verb label of an HTTP method.
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
    /// The labels of a request; if the resource is not served, only verb and path.
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

    /// The authorization verb of a write to a resource; `None` for other requests.
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
