//! Canaries: checks that controllers and scheduler still work after an attack. Each gets a simple task, and its
//! effect is awaited. This finds controllers that are blocked for ever or in a busy loop.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::future::join_all;
use serde_json::Value;

use super::{judge::Fault, world::World};

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

/// Timeout of a task. A reconcile takes milliseconds, but the controllers may have a long queue and the host other
/// work; only a blocked controller takes this long.
const PATIENCE: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_millis(100);
/// Timeout for a process to work through its queues.
const LONGEST_WORK: Duration = Duration::from_mins(10);
/// A busy process runs or waits for a CPU for most of the time,
const WANTED: f64 = 0.5;
/// and runs for some of it, however loaded the host is.
const HAD: f64 = 0.05;
const WINDOW: Duration = Duration::from_secs(1);
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
    let faults = join_all(CANARIES.iter().map(|canary| try_one(world, canary, &id))).await;
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
        let began = Instant::now();
        while world.ask("GET", &path, None).await?.code != 404 {
            if began.elapsed() > PATIENCE {
                faults.push(stuck(controller, &format!("{path} is still there")));
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(faults)
}

async fn try_one(world: &World, canary: &Canary, id: &str) -> Result<Option<Fault>> {
    let object = canary.object.replace("ID", id);
    let began = Instant::now();
    let made = world.ask("POST", canary.collection, Some(&object)).await?;
    if made.code != 201 {
        let why = super::judge::message(&made);
        let text = format!("{} cannot be created: {} {why}", canary.collection, made.code);
        return Ok(Some(stuck(canary.controller, &text)));
    }
    let path = canary.effect.replace("ID", id);
    loop {
        let answer = world.ask("GET", &path, None).await?;
        let effect = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        if (canary.is_there)(&effect) {
            return Ok(None);
        }
        if began.elapsed() > PATIENCE {
            let text = format!("nothing at {path} after {PATIENCE:?}");
            return Ok(Some(stuck(canary.controller, &text)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn stuck(controller: &str, text: &str) -> Fault {
    Fault::new(format!("stuck: {controller}"), text)
}

async fn delete(world: &World, path: &str) -> Result<()> {
    world.ask("DELETE", path, None).await.map(drop)
}

/// Whether the process becomes idle when it gets no requests. Busy threads either run or wait for a CPU, so both are
/// counted: otherwise other load on the host would hide them.
pub(crate) async fn comes_to_rest() -> Option<Fault> {
    let began = Instant::now();
    while began.elapsed() < LONGEST_WORK {
        let (from, (ran, waited)) = (Instant::now(), demand());
        tokio::time::sleep(WINDOW).await;
        let now = demand();
        let part = |time: Duration| time.as_secs_f64() / from.elapsed().as_secs_f64();
        let had = part(now.0.saturating_sub(ran));
        if had < HAD || had + part(now.1.saturating_sub(waited)) < WANTED {
            return None;
        }
    }
    let text = format!("with nothing to do, the process was busy for {LONGEST_WORK:?}");
    Some(Fault::new("busy: the process does not come to rest", text))
}

/// Time that all threads have run, and time that they have waited for a CPU.
fn demand() -> (Duration, Duration) {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let (mut ran, mut waited) = (0, 0);
    for task in tasks {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|n| n.parse::<u64>().ok());
        ran += numbers.next().unwrap_or_default();
        waited += numbers.next().unwrap_or_default();
    }
    (Duration::from_nanos(ran), Duration::from_nanos(waited))
}
