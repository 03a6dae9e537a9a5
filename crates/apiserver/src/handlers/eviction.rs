//! Eviction: a deletion that asks first whether a disruption budget allows it.

use std::sync::Arc;

use api::{
    core::Pod,
    policy::{Eviction, PodDisruptionBudget},
};
use object::{Lens, Object, Status, StatusCause, Value, View, selector::Selector};
use ref_cast::RefCast;
use server::{Delete, Handle, Handling, Page, Request, Selection, Server, object_reply};

use super::{body_of, call};

#[derive(Debug)]
pub(super) struct Evictions;

impl Handle for Evictions {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> Handling<'a> {
        Box::pin(async move {
            let (mut call, info) = (call(&request), request.info.clone());
            let given = body_of(server, request, "policy/v1", "Eviction", Eviction::SHAPE).await?;
            let options = Eviction::view(&given).delete_options().cloned().unwrap_or_default();
            let pods = server.registry.kind("", "pods")?;
            let key = (&*info.namespace, &*info.name);
            let found = server.registry.get(&pods, key.0, key.1)?;
            let pod = Pod::view(&found.object);
            let finished = matches!(pod.status().phase(), "Succeeded" | "Failed" | "Pending");
            if !finished && !pod.metadata().is_terminating() {
                allow(server, &mut call, pod).await?;
            }
            let preconditions = options.preconditions();
            let delete = Delete {
                grace_seconds: options.grace_period_seconds(),
                uid: preconditions.and_then(|own| own.uid()).unwrap_or_default().into(),
                ..Delete::default()
            };
            server.registry.delete(&mut call, &pods, key, &delete).await?;
            let status = Object::from(Value::from(Status::success().with_code(201)));
            Ok(object_reply(201, &status.with_kind("Status").with_api_version("v1").into()))
        })
    }
}

/// Takes one disruption from the budget that the pod belongs to.
async fn allow(server: &Server, call: &mut server::Call, pod: &Pod) -> Result<(), Status> {
    let budgets = server.registry.kind("policy", "poddisruptionbudgets")?;
    let namespace = pod.metadata().namespace();
    let all = server.registry.list(&budgets, &Selection::namespace(namespace), &Page::default())?;
    let mut mine = all.items.iter().filter(|version| {
        let budget = PodDisruptionBudget::view(&version.object);
        let selector = budget.spec().selector();
        let selector = selector.and_then(|tree| Selector::from_tree(tree.tree()).ok());
        selector.is_some_and(|selector| selector.matches(pod.metadata().labels()))
    });
    let Some(budget) = mine.next() else { return Ok(()) };
    if mine.next().is_some() {
        return Err(Status::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
             not support.",
        ));
    }
    let name = PodDisruptionBudget::view(&budget.object).metadata().name().to_owned();
    let evicted = pod.metadata().name().to_owned();
    let now = object::Time::text(server.registry.clock().now());
    let change = |old: &store::Version<Value>| {
        let mut object = old.object.clone();
        let budget = PodDisruptionBudget::ref_cast_mut(&mut object);
        let (generation, status) = (budget.metadata().generation(), budget.status());
        if status.observed_generation() < generation {
            return Err(refused(
                &name,
                10,
                "DisruptionBudget: the budget is still being processed by the server.",
            ));
        } else if status.disruptions_allowed() < 1 {
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                status.desired_healthy(),
                status.current_healthy()
            );
            return Err(refused(&name, 0, &why));
        }
        let left = status.disruptions_allowed() - 1;
        let status = budget.status_mut();
        status.set_disruptions_allowed(left);
        status.disrupted_pods_mut().insert(&evicted, now.clone());
        Ok(object)
    };
    server.registry.change(call, &budgets, (namespace, &name), "status", change).await.map(drop)
}

fn refused(_budget: &str, retry: i32, why: &str) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry,
    );
    let cause = StatusCause::new().with_reason("DisruptionBudget").with_message(why);
    let details = status.details().cloned().unwrap_or_default().with_causes([cause]);
    status.set_details(details);
    status
}
