//! Watches one object until a condition holds.

use std::time::Duration;

use object::Value;

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    resources::escape,
    select::Info,
    server::JSON,
};

impl Invocation<'_> {
    /// Passes the object to `take`, in its current state and whenever it changes, until that returns false (then the
    /// result is `true`) or `seconds` have passed. A deleted object is `None`.
    pub(crate) fn watch_object(
        &self,
        info: &Info,
        seconds: Option<f64>,
        take: impl FnMut(Option<&Value>) -> Result<bool>,
    ) -> Result<bool> {
        let collection = info.resource.path(&info.namespace, "");
        let kind = (&*info.resource.api_version(), &*info.resource.kind);
        self.follow_in((&collection, &info.name), kind, seconds, take)
    }

    /// Like `watch_object`, for the pod of that name.
    pub(crate) fn follow_pod(
        &self,
        namespace: &str,
        name: &str,
        seconds: Option<f64>,
        take: impl FnMut(Option<&Value>) -> Result<bool>,
    ) -> Result<bool> {
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        self.follow_in((&collection, name), ("v1", "Pod"), seconds, take)
    }

    fn follow_in(
        &self,
        (collection, name): (&str, &str),
        (api_version, kind): (&str, &str),
        seconds: Option<f64>,
        mut take: impl FnMut(Option<&Value>) -> Result<bool>,
    ) -> Result<bool> {
        let started = std::time::Instant::now();
        let selector = escape(&format!("metadata.name={name}"));
        loop {
            let list = self.server()?.get(&format!("{collection}?fieldSelector={selector}"))?;
            let item = list["items"].items().first().map(|item| {
                let mut item = item.clone();
                item["apiVersion"] = api_version.into();
                item["kind"] = kind.into();
                item
            });
            if !take(item.as_ref())? {
                return Ok(true);
            }
            let left = seconds.map(|seconds| seconds - started.elapsed().as_secs_f64());
            if left.is_some_and(|left| left <= 0.0) {
                return Ok(false);
            }
            let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let path = format!(
                "{collection}?watch=true&resourceVersion={version}&fieldSelector={selector}"
            );
            let ended = self.server()?.watch(
                &path,
                JSON,
                left.map(Duration::from_secs_f64),
                |kind, object| {
                    if kind == "DELETED" { take(None) } else { take(Some(object)) }
                },
            );
            match ended {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // 410 Gone, the resourceVersion is too old: starts again with a list.
                Err(CommandError::Server { status, .. }) if status.code() == 410 => {}
                Err(fail) => return Err(fail),
            }
        }
    }
}
