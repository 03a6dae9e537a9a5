//! Bootstrap objects, which every cluster has from its first start: namespaces, roles, priority
//! classes, flow control, the `kubernetes` Service, and what clients need to know about this
//! server.

mod authentication;
mod flow;
mod roles;
mod system;

use std::sync::Arc;

use object::{Object, Status, Value, View};
use server::{Registry, RequestContext, UserInfo};

pub(crate) use self::{
    authentication::{CaBundles, publish_ca_bundles},
    system::{PublishedInfo, publish, publish_with_retry},
};

/// The request context in which the server acts for itself, as `system:apiserver`.
pub(crate) fn internal_context() -> RequestContext {
    RequestContext::new(UserInfo::new("system:apiserver", &["system:masters"]), "kube-apiserver")
}

/// Creates the missing bootstrap objects. Existing ones stay as users changed them, except that
/// bootstrap roles get their missing rules back.
pub(crate) async fn bootstrap(registry: &Arc<Registry>) -> Result<(), Status> {
    for object in system::objects().into_iter().chain(flow::objects()) {
        create_if_missing(registry, object).await?;
    }
    for object in roles::objects() {
        roles::reconcile(registry, object).await?;
    }
    Ok(())
}

/// Creates the object, unless it exists.
pub(crate) async fn create_if_missing(registry: &Registry, object: Value) -> Result<(), Status> {
    let named = Object::view(&object);
    let group = named.api_version().rsplit_once('/').map_or("", |(group, _)| group);
    let plural = plural(named.kind());
    let served = registry.kind(group, &plural)?;
    let (namespace, name) =
        (named.metadata().namespace().to_owned(), named.metadata().name().to_owned());
    if registry.get(&served, &namespace, &name).is_ok() {
        return Ok(());
    }
    match registry.create(&mut internal_context(), &served, &namespace, object).await {
        Err(status) if status.has_reason("AlreadyExists") => Ok(()),
        made => made.map(drop),
    }
}

/// The plural of a kind; correct for the kinds that are created here.
fn plural(kind: &str) -> String {
    if kind == "Endpoints" {
        return "endpoints".to_owned();
    }
    let lower = kind.to_lowercase();
    match lower.strip_suffix("ss") {
        Some(stem) => format!("{stem}sses"),
        None => format!("{lower}s"),
    }
}
