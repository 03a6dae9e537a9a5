//! The ServiceAccount admission plugin: assigns every pod a service account of its namespace, and
//! mounts the account's token.

mod secrets;
mod token;

use std::{sync::Arc, time::Duration};

use api::core::{Pod, ServiceAccount as Account};
use object::{Status, Value, View};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation, ServedResource};
use store::Version;

use super::{invalid_name_error, pod_references::uses_secrets};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DEFAULT: &str = "default";
/// How often to look for the `default` account, which is created a little after its namespace.
const TRIES: u8 = 10;
const PAUSE: Duration = Duration::from_millis(150);

#[derive(Debug)]
pub(super) struct ServiceAccount;

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            if admission.operation == Operation::Create && is_pod(admission) {
                if !is_mirror(&admission.object) {
                    assign_service_account(admission).await?;
                }
                return check(admission).await;
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move { if is_pod(admission) { check(admission).await } else { Ok(()) } })
    }
}

/// Whether the request is about a pod, or adds ephemeral containers to one.
fn is_pod(admission: &AdmissionAttributes) -> bool {
    let names = &admission.served.definition.names;
    let is = names.group.is_empty() && names.plural == "pods" && !admission.object.is_null();
    is && matches!(admission.subresource, "" | "ephemeralcontainers")
}

fn is_mirror(pod: &Value) -> bool {
    Pod::view(pod).metadata().annotations().get(MIRROR).is_some()
}

/// Sets the pod's service account, its image pull secrets and its token volume.
async fn assign_service_account(admission: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
    if spec.service_account_name().is_empty() {
        spec.set_service_account_name(DEFAULT);
    }
    let name = spec.service_account_name().to_owned();
    spec.set_service_account(name.as_str());
    let found = account(admission, &name).await?;
    let account = Account::view(&found.object);
    let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
    let wanted = spec.automount_service_account_token();
    let mounts = wanted.or(account.automount_service_account_token()).unwrap_or(true);
    if spec.image_pull_secrets().is_empty() && !account.image_pull_secrets().is_empty() {
        spec.set_image_pull_secrets(account.image_pull_secrets().clone());
    }
    if mounts {
        token::mount(&mut admission.object);
    }
    Ok(())
}

async fn account(
    admission: &AdmissionAttributes<'_>,
    name: &str,
) -> Result<Arc<Version<Value>>, Status> {
    let kind = admission.registry.kind("", "serviceaccounts")?;
    let look = |kind: &ServedResource| admission.registry.get(kind, &admission.namespace, name);
    let mut found = look(&kind);
    for _ in 1..if name == DEFAULT { TRIES } else { 1 } {
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        found = look(&kind);
    }
    found.map_err(|_| {
        let why = invalid_name_error(name)
            .unwrap_or_else(|| format!("serviceaccount {} not found", object::quote::quote(name)));
        let namespace = &admission.namespace;
        admission.forbidden(&format!("error looking up service account {namespace}/{name}: {why}"))
    })
}

async fn check(admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let pod = &admission.object;
    let added = match (admission.operation, admission.subresource) {
        (Operation::Create, _) => false,
        (Operation::Update, "ephemeralcontainers") => true,
        _ => return Ok(()),
    };
    if is_mirror(pod) && !added {
        return mirror(pod).map_or(Ok(()), |why| Err(admission.forbidden(why)));
    }
    let (name, meta) = (Pod::view(pod).spec().service_account_name(), admission.meta());
    if name.is_empty() {
        let (namespace, name) = (&admission.namespace, meta.name());
        let why = format!("no service account specified for pod {namespace}/{name}");
        return Err(admission.forbidden(&why));
    }
    let found = account(admission, name).await?;
    let limits = secrets::MountableSecrets::of(Account::view(&found.object));
    match limits.and_then(|limits| limits.violation(pod.get("spec"), added)) {
        None => Ok(()),
        // Upstream answers 500 here, not 403.
        Some(why) if added => Err(Status::failure(500, "", why)),
        Some(why) => Err(admission.forbidden(&why)),
    }
}

/// Why a mirror pod is rejected: it may refer to no service account, Secret or token.
fn mirror(pod: &Value) -> Option<&'static str> {
    let spec = pod.get("spec");
    let projects = |volume: &Value| {
        let sources = volume.get("projected").get("sources").items();
        sources.iter().any(|source| !source.get("serviceAccountToken").is_null())
    };
    if !Pod::view(pod).spec().service_account_name().is_empty() {
        return Some("a mirror pod may not reference service accounts");
    } else if uses_secrets(spec) {
        return Some("a mirror pod may not reference secrets");
    }
    let projects = spec.get("volumes").items().iter().any(projects);
    projects.then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_pod_has_no_rights() {
        for (spec, why) in [
            (r#"{"serviceAccountName":"a"}"#, Some("service accounts")),
            (r#"{"imagePullSecrets":[{"name":"a"}]}"#, Some("secrets")),
            (r#"{"containers":[{"envFrom":[{"secretRef":{"name":"a"}}]}]}"#, Some("secrets")),
            (
                r#"{"volumes":[{"projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}"#,
                Some("ServiceAccountToken"),
            ),
            (r#"{"volumes":[{"hostPath":{"path":"/"}}]}"#, None),
        ] {
            let pod = object::from_json(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
            let refused = mirror(&pod);
            assert_eq!(refused.is_some(), why.is_some(), "{spec}");
            assert!(why.is_none_or(|why| refused.is_some_and(|own| own.contains(why))), "{spec}");
        }
    }
}
