//! Canaries: checks that controllers and scheduler still work after an attack. Each gets a simple task, and its
//! effect is awaited. This finds controllers that are blocked for ever.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::future::join_all;
use serde_json::Value;

use super::{judge::Fault, rest, world::World};

/// A task for a controller: the object to create, and the effect that must follow. `ID` is replaced by a new word
/// each time.
struct Canary {
    controller: &'static str,
    collection: &'static str,
    object: &'static str,
    /// The path of the effect, below `/api` or `/apis`.
    effect: &'static str,
    is_there: fn(&Value) -> bool,
}

/// Timeout of a task, if the process does not come to rest. A reconcile takes milliseconds, but the controllers may
/// have a long queue and the host other work. In a process at rest, what has not happened does not happen.
const PATIENCE: Duration = Duration::from_mins(5);
/// Pause between two looks at an effect. It grows: the looks themselves must not keep the process busy.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
static COUNT: AtomicU64 = AtomicU64::new(0);

const CANARIES: &[Canary] = &[
    Canary {
        controller: "deployment",
        collection: "/apis/apps/v1/namespaces/ping/deployments",
        object: r#"{"metadata":{"name":"ID"},"spec":{"replicas":1,"selector":{"matchLabels":{"by":"d-ID"}},"template":{"metadata":{"labels":{"by":"d-ID"}},"spec":{"containers":[{"name":"c","image":"image"}]}}}}"#,
        effect: "/apis/apps/v1/namespaces/ping/replicasets?labelSelector=by%3Dd-ID",
        is_there: has_items,
    },
    Canary {
        controller: "replicaset",
        collection: "/apis/apps/v1/namespaces/ping/replicasets",
        object: r#"{"metadata":{"name":"ID"},"spec":{"replicas":1,"selector":{"matchLabels":{"by":"r-ID"}},"template":{"metadata":{"labels":{"by":"r-ID"}},"spec":{"containers":[{"name":"c","image":"image"}]}}}}"#,
        effect: "/api/v1/namespaces/ping/pods?labelSelector=by%3Dr-ID",
        is_there: has_items,
    },
    Canary {
        controller: "statefulset",
        collection: "/apis/apps/v1/namespaces/ping/statefulsets",
        object: r#"{"metadata":{"name":"ID"},"spec":{"serviceName":"ID","selector":{"matchLabels":{"by":"s-ID"}},"template":{"metadata":{"labels":{"by":"s-ID"}},"spec":{"containers":[{"name":"c","image":"image"}]}}}}"#,
        effect: "/api/v1/namespaces/ping/pods?labelSelector=by%3Ds-ID",
        is_there: has_items,
    },
    Canary {
        controller: "job",
        collection: "/apis/batch/v1/namespaces/ping/jobs",
        object: r#"{"metadata":{"name":"ID"},"spec":{"template":{"metadata":{"labels":{"by":"j-ID"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"image"}]}}}}"#,
        effect: "/api/v1/namespaces/ping/pods?labelSelector=by%3Dj-ID",
        is_there: has_items,
    },
    Canary {
        controller: "disruption",
        collection: "/apis/policy/v1/namespaces/ping/poddisruptionbudgets",
        object: r#"{"metadata":{"name":"ID"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"by":"ID"}}}}"#,
        effect: "/apis/policy/v1/namespaces/ping/poddisruptionbudgets/ID",
        is_there: |budget| budget["status"]["observedGeneration"].is_i64(),
    },
    Canary {
        controller: "horizontalpodautoscaling",
        collection: "/apis/autoscaling/v2/namespaces/ping/horizontalpodautoscalers",
        object: r#"{"metadata":{"name":"ID"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"none"}}}"#,
        effect: "/apis/autoscaling/v2/namespaces/ping/horizontalpodautoscalers/ID",
        is_there: |scaler| scaler["status"]["conditions"].is_array(),
    },
    Canary {
        controller: "resourcequota",
        collection: "/api/v1/namespaces/ping/resourcequotas",
        object: r#"{"metadata":{"name":"ID"},"spec":{"hard":{"persistentvolumeclaims":"5"}}}"#,
        effect: "/api/v1/namespaces/ping/resourcequotas/ID",
        is_there: |quota| quota["status"]["hard"].is_object(),
    },
    Canary {
        controller: "endpointslice",
        collection: "/api/v1/namespaces/ping/services",
        object: r#"{"metadata":{"name":"ID"},"spec":{"clusterIP":"None","selector":{"by":"ID"},"ports":[{"port":80}]}}"#,
        effect: "/apis/discovery.k8s.io/v1/namespaces/ping/endpointslices?labelSelector=kubernetes.io/service-name%3DID",
        is_there: has_items,
    },
    Canary {
        controller: "root-ca-certificate-publisher",
        collection: "/api/v1/namespaces",
        object: r#"{"metadata":{"name":"ID"}}"#,
        effect: "/api/v1/namespaces/ID/configmaps/kube-root-ca.crt",
        is_there: |map| map["data"].is_object(),
    },
];

fn has_items(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// Gives every controller its task, and returns those that have not done it. Deletes the created objects.
pub(crate) async fn check(world: &World) -> Result<Vec<Fault>> {
    let id = format!("canary-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let at_rest = AtomicBool::new(false);
    let tasks = join_all(CANARIES.iter().map(|canary| try_one(world, canary, &id, &at_rest)));
    let faults = with_rest(tasks, &at_rest).await;
    let mut faults: Vec<Fault> =
        faults.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    for canary in CANARIES {
        delete(world, &format!("{}/{id}?gracePeriodSeconds=0", canary.collection)).await?;
    }
    // The garbage collector and the namespace controller delete the rest.
    for (controller, path) in [
        ("garbage-collector", format!("/apis/apps/v1/namespaces/ping/replicasets/{id}")),
        ("namespace", format!("/api/v1/namespaces/{id}")),
    ] {
        let at_rest = AtomicBool::new(false);
        let gone =
            wait_for(&at_rest, async || Ok(world.ask("GET", &path, None).await?.code == 404));
        if !with_rest(gone, &at_rest).await? {
            faults.push(stuck(controller, &format!("{path} is still there")));
        }
    }
    Ok(faults)
}

/// Runs `tasks`, and tells them when the process has come to rest.
async fn with_rest<T>(tasks: impl Future<Output = T>, at_rest: &AtomicBool) -> T {
    let rest = async {
        rest::until_at_rest().await;
        at_rest.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        done = tasks => done,
        () = rest => unreachable!("it never ends"),
    }
}

/// Waits until `is_done`. Returns `false` if it is not done although the process is at rest, or the time is over.
async fn wait_for(at_rest: &AtomicBool, is_done: impl AsyncFn() -> Result<bool>) -> Result<bool> {
    let (began, mut pause) = (Instant::now(), PAUSE);
    loop {
        let last = at_rest.load(Ordering::Relaxed) || began.elapsed() > PATIENCE;
        if is_done().await? {
            return Ok(true);
        }
        if last {
            return Ok(false);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn try_one(
    world: &World,
    canary: &Canary,
    id: &str,
    at_rest: &AtomicBool,
) -> Result<Option<Fault>> {
    let object = canary.object.replace("ID", id);
    let made = world.ask("POST", canary.collection, Some(&object)).await?;
    if made.code != 201 {
        let why = super::judge::message(&made);
        let text = format!("{} cannot be created: {} {why}", canary.collection, made.code);
        return Ok(Some(stuck(canary.controller, &text)));
    }
    let path = canary.effect.replace("ID", id);
    let done = wait_for(at_rest, async || {
        let answer = world.ask("GET", &path, None).await?;
        let effect = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        Ok((canary.is_there)(&effect))
    });
    if done.await? {
        return Ok(None);
    }
    let text = match at_rest.load(Ordering::Relaxed) {
        true => format!("nothing at {path}, and the process is at rest"),
        false => format!("nothing at {path} after {PATIENCE:?}"),
    };
    Ok(Some(stuck(canary.controller, &text)))
}

fn stuck(controller: &str, text: &str) -> Fault {
    Fault::new(format!("stuck: {controller}"), text)
}

async fn delete(world: &World, path: &str) -> Result<()> {
    world.ask("DELETE", path, None).await.map(drop)
}
