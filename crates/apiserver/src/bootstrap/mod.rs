//! What every cluster has from its first moment: namespaces, roles, priority
//! classes, the `kubernetes` service and what clients must know of this server.

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

/// The server acting for itself.
pub(crate) fn internal_context() -> RequestContext {
    RequestContext::new(UserInfo::new("system:apiserver", &["system:masters"]), "kube-apiserver")
}

/// Makes what is missing. What is there already is a user's matter, except that
/// bootstrap roles get back what they lack.
pub(crate) async fn bootstrap(registry: &Arc<Registry>) -> Result<(), Status> {
    for object in system::objects().into_iter().chain(flow::objects()) {
        create_if_missing(registry, object).await?;
    }
    for object in roles::objects() {
        roles::reconcile(registry, object).await?;
    }
    Ok(())
}

/// Creates an object, unless one of its name is there.
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

/// Good for the kinds that are made here.
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
