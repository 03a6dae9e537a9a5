//! Groups and versions that other servers serve, behind this one.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use object::Value;

use crate::{Request, ResponseFuture, Server};

/// A group that is served elsewhere.
#[derive(Clone, Debug)]
pub struct RemoteGroup {
    pub name: String,
    /// Each with its `APIResourceList`; `Null` where that is not known.
    pub versions: Vec<(String, Value)>,
}

/// How a version of such a group is described by who serves it.
#[derive(Clone, Debug)]
pub struct RemoteDocument {
    pub group: String,
    pub version: String,
    /// All of that server, in the older form.
    pub v2: Arc<Value>,
    /// Of this version alone.
    pub v3: Bytes,
}

/// Knows who serves what, and passes requests on.
pub trait Aggregator: fmt::Debug + Send + Sync {
    fn has(&self, group: &str, version: &str) -> bool;
    fn groups(&self) -> Vec<RemoteGroup>;
    fn documents(&self) -> Vec<RemoteDocument>;
    /// Changes whenever the documents do.
    fn change_counter(&self) -> u64;
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a>;
}

/// Group and version of a path below `/apis`.
pub(crate) fn group_version_of_path(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    Some((parts.next()?, parts.next().filter(|version| !version.is_empty())?))
}
