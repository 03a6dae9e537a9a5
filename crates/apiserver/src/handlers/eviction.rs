//! The Eviction handler: deletes a pod if its PodDisruptionBudget allows that.

use std::sync::Arc;

use api::{
    core::{Pod, PodCondition},
    policy::{Eviction, PodDisruptionBudget},
};
use object::{
    DeleteOptions, Lens, ResourceRef, Status, StatusCause, Text, Time, Value, View,
    selector::Selector,
};
use ref_cast::RefCast;
use schema::{ErrorList, FieldPath, ResourceDefinition};
use server::{
    DeleteRequest, EndpointHandler, ListOptions, Operation, Request, RequestContext,
    ResponseFuture, Selection, Server, decode_body, parse_delete_options,
};
use store::Version;

use super::{
    ResponseParams, asking, bytes_of, eviction_kind, prepare_subresource, request_context,
    same_namespace, served,
};

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// Maximum number of evictions in `disruptedPods` that the disruption controller has not yet
/// confirmed.
const MOST_DISRUPTED: usize = 2000;

#[derive(Debug)]
pub(super) struct Evictions;

impl EndpointHandler for Evictions {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (mut call, info) = (request_context(&request), request.info.clone());
            let asked = ResponseParams::of(&request);
            let pods = served(server, &request)?;
            let kind = eviction_kind();
            let given = body(server, request, &kind).await?;
            same_namespace(Eviction::view(&given).metadata().namespace(), &info.namespace)?;
            let given = prepare_subresource(server, (&call, &info), &kind, given)?;
            let asking = asking(&info, Operation::Create, given);
            let dry_run = call.dry_run;
            let checked = |given: &mut Value| {
                let eviction = Eviction::view(given);
                check_options(eviction, &info.name)?;
                check_dry_run(eviction.delete_options(), dry_run)
            };
            let given =
                server.registry.admit_subresource(&mut call, &pods, asking, checked).await?;
            let options = Eviction::view(&given).delete_options().cloned().unwrap_or_default();
            let mut inner = call.clone().admitted();
            inner.dry_run |= !options.dry_run().is_empty();
            evict(server, &mut inner, (&info.namespace, &info.name), &options).await?;
            Ok(asked.created(&call))
        })
    }
}

fn check_options(eviction: &Eviction, name: &str) -> Result<(), Status> {
    if eviction.metadata().name() != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.delete_options();
    let unread = DeleteOptions::ignore_store_read_error_with_cluster_breaking_potential;
    if options.and_then(unread) == Some(true) {
        let mut errs = ErrorList::default();
        let at = FieldPath::Root.field("deleteOptions");
        let at = at.field("ignoreStoreReadErrorWithClusterBreakingPotential");
        let why = "can not be set for pod eviction, try after removing the option";
        errs.invalid(&at, true, why);
        return Err(errs.into_status("policy", "Eviction", name));
    }
    Ok(())
}

/// Checks that the dry-run options of the query and of the body do not differ.
fn check_dry_run(options: Option<&DeleteOptions>, asked: bool) -> Result<(), Status> {
    let within: Vec<&str> = options.map(|own| own.dry_run().iter().collect()).unwrap_or_default();
    if !asked || within.is_empty() || within == ["All"] {
        return Ok(());
    }
    let why = "Non-matching dry-run options in request and content";
    Err(Status::failure(500, "", format!("{why}: [All] and [{}]", within.join(" "))))
}

/// Decodes the Eviction, in version v1 or v1beta1.
async fn body(
    server: &Server,
    request: Request,
    kind: &ResourceDefinition,
) -> Result<Value, Status> {
    let asked = ResponseParams::of(&request);
    let bytes = bytes_of(server, request).await?;
    let kinds = server.registry.kinds();
    let read = |kind: &ResourceDefinition| {
        decode_body(kinds, kind, &asked.headers, &asked.query, &bytes).map(|read| read.object)
    };
    let mut old = kind.clone();
    old.names.version = "v1beta1";
    read(kind).or_else(|status| read(&old).map_err(|_| status))
}

async fn evict(
    server: &Server,
    call: &mut RequestContext,
    key: (&str, &str),
    options: &DeleteOptions,
) -> Result<(), Status> {
    let pods = server.registry.kind("", "pods")?;
    let found = server.registry.get(&pods, key.0, key.1)?;
    let pod = Pod::view(&found.object);
    let finished = matches!(pod.status().phase(), "Succeeded" | "Failed" | "Pending");
    if !finished && !pod.metadata().is_terminating() {
        allow(server, call, pod).await?;
    }
    let preconditions = options.preconditions();
    let uid = preconditions.and_then(|own| own.uid());
    let mut revision = preconditions.and_then(|own| own.resource_version()).map(Text::from);
    if !call.dry_run {
        let now = Time::format(server.registry.clock().now());
        revision = revision.filter(|own| !own.is_empty());
        let change = |old: &Version<Value>| marked(old, uid, revision.as_deref(), &now);
        let made = server.registry.guaranteed_update(call, &pods, key, "status", change).await?;
        revision = revision.map(|_| made.revision.to_string().into());
    }
    let delete = DeleteRequest { revision, ..parse_delete_options(options)? };
    server.registry.delete(call, &pods, key, &delete).await.map(drop)
}

/// The pod with the condition DisruptionTarget, if the preconditions match.
fn marked(
    old: &Version<Value>,
    uid: Option<&str>,
    version: Option<&str>,
    now: &str,
) -> Result<Value, Status> {
    let mut object = old.object.clone();
    let pod = Pod::ref_cast_mut(&mut object);
    let (name, have) = (pod.metadata().name().to_owned(), pod.metadata().uid().to_owned());
    let subject = ResourceRef { group: "", resource: "Pod", name: &name };
    if let Some(uid) = uid.filter(|uid| *uid != have) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({have}). The \
             object might have been deleted and then recreated"
        );
        return Err(Status::conflict(subject, &why));
    }
    if let Some(version) = version.filter(|version| *version != old.revision.to_string()) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({}). The object might have been modified",
            old.revision
        );
        return Err(Status::conflict(subject, &why));
    }
    let condition = PodCondition::new()
        .with_type("DisruptionTarget")
        .with_status("True")
        .with_reason("EvictionByEvictionAPI")
        .with_message("Eviction API: evicting")
        .with_last_transition_time(now);
    pod.status_mut().conditions_mut().upsert(condition, |own| own.type_() == "DisruptionTarget");
    Ok(object)
}

/// Takes one disruption from the PodDisruptionBudget that selects the pod.
async fn allow(server: &Server, call: &mut RequestContext, pod: &Pod) -> Result<(), Status> {
    let budgets = server.registry.kind("policy", "poddisruptionbudgets")?;
    let namespace = pod.metadata().namespace();
    let all = server.registry.list(
        &budgets,
        &Selection::namespace(namespace),
        &ListOptions::default(),
    )?;
    let mut mine = all.items.iter().filter(|version| {
        let budget = PodDisruptionBudget::view(&version.object);
        let selector = budget.spec().selector();
        let selector = selector.and_then(|tree| Selector::from_label_selector(tree.tree()).ok());
        selector.is_some_and(|selector| selector.matches(pod.metadata().labels()))
    });
    let Some(budget) = mine.next() else { return Ok(()) };
    if mine.next().is_some() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                   does not support.";
        return Err(Status::failure(500, "", why));
    }
    let budget = PodDisruptionBudget::view(&budget.object);
    if !pod.is_ready() {
        // A pod that is not ready may be evicted, if the budget is met or its policy is
        // AlwaysAllow.
        let status = budget.status();
        let enough =
            status.current_healthy() >= status.desired_healthy() && status.desired_healthy() > 0;
        if budget.spec().unhealthy_pod_eviction_policy() == Some("AlwaysAllow") || enough {
            return Ok(());
        }
    }
    let name = budget.metadata().name().to_owned();
    let evicted = pod.metadata().name().to_owned();
    let now = Time::format(server.registry.clock().now());
    let change = |old: &Version<Value>| {
        let mut object = old.object.clone();
        let budget = PodDisruptionBudget::ref_cast_mut(&mut object);
        check(budget)?;
        let left = budget.status().disruptions_allowed() - 1;
        let status = budget.status_mut();
        status.set_disruptions_allowed(left);
        status.disrupted_pods_mut().insert(&evicted, now.clone());
        Ok(object)
    };
    server
        .registry
        .guaranteed_update(call, &budgets, (namespace, &name), "status", change)
        .await
        .map(drop)
}

fn check(budget: &PodDisruptionBudget) -> Result<(), Status> {
    let (name, status) = (budget.metadata().name(), budget.status());
    let forbidden = |why: &str, said: &str| {
        let subject = ResourceRef { group: "policy", resource: "poddisruptionbudget", name };
        let said =
            format!("The disruption budget {name} does not allow evicting pods currently: {said}");
        with_cause(Status::forbidden(subject, why), &said)
    };
    if status.observed_generation() < budget.metadata().generation() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(with_cause(Status::too_many_requests(REFUSED, 10), &why));
    } else if status.disruptions_allowed() < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(forbidden(why, why));
    } else if status.disrupted_pods().iter().len() > MOST_DISRUPTED {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    } else if status.disruptions_allowed() > 0 {
        return Ok(());
    }
    let condition = status.conditions().find(|own| own.type_() == "DisruptionAllowed");
    let said = condition.filter(|own| own.status() == "False" && !own.message().is_empty());
    let why = match said {
        Some(said) if said.reason() == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed \
             sync: {}",
            said.message()
        ),
        _ if status.current_healthy() <= status.desired_healthy() => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status.desired_healthy(),
            status.current_healthy()
        ),
        Some(said) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            said.reason(),
            said.message()
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(with_cause(Status::too_many_requests(REFUSED, 0), &why))
}

fn with_cause(mut status: Status, why: &str) -> Status {
    let cause = StatusCause::new().with_reason("DisruptionBudget").with_message(why);
    let details = status.details().cloned().unwrap_or_default().with_causes([cause]);
    status.set_details(details);
    status
}
