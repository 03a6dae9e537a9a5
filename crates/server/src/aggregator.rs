//! The aggregation layer: API groups and versions that extension API servers serve behind this one.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use object::Value;

use crate::{Request, ResponseFuture, Server};

/// An API group that an extension API server serves.
#[derive(Clone, Debug)]
pub struct RemoteGroup {
    pub name: String,
    /// Each version with its `APIResourceList`, or `Null` while that is not known.
    pub versions: Vec<(String, Value)>,
}

/// The OpenAPI documents of an aggregated version, as its extension API server returned them.
#[derive(Clone, Debug)]
pub struct RemoteDocument {
    pub group: String,
    pub version: String,
    /// The OpenAPI v2 document of the whole extension API server.
    pub v2: Arc<Value>,
    /// The OpenAPI v3 document of this version.
    pub v3: Bytes,
}

/// Knows which aggregated APIs there are, and proxies requests to their servers.
pub trait Aggregator: fmt::Debug + Send + Sync {
    fn has(&self, group: &str, version: &str) -> bool;
    fn groups(&self) -> Vec<RemoteGroup>;
    fn documents(&self) -> Vec<RemoteDocument>;
    /// A number that changes whenever `documents` changes.
    fn change_counter(&self) -> u64;
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a>;
}

/// The group and version of a path below `/apis`.
pub(crate) fn group_version_of_path(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    Some((parts.next()?, parts.next().filter(|version| !version.is_empty())?))
}
