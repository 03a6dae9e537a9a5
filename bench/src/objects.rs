//! Benchmark of objects: time to read, write, patch, apply and validate a pod of 7 KB, compared with
//! `serde_json::Value` where that can do the same, and the memory of pods.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use object::{Value, from_json, to_json};
use schema::{
    ErrorList, ResourceDefinition,
    apply::{self, FieldManagerRequest},
    patch, protobuf, validate_object_meta,
};

const ROUNDS: u32 = 200;
const TIMES: u32 = 50;
const NOW: &str = "2024-01-02T03:04:05Z";

/// Measures everything and prints a line for each.
pub(crate) fn measure() -> Result<()> {
    let kinds = api::builtin_resources();
    let pods = kinds.iter().find(|kind| kind.names.kind == "Pod" && kind.names.group.is_empty());
    let pods = pods.context("there are pods")?;
    let pod = pod(pods, 0)?;
    let json = to_json(&pod);
    println!("a pod of {} bytes in JSON", json.len());
    speed(pods, &json)?;
    memory(pods, &json)?;
    let managed = FieldManagerRequest { manager: "kube-controller-manager", ..write(pods) };
    let pod = apply::update_managed_fields(&managed, None, pod)?;
    let mut before = pod.clone();
    before.remove("status");
    let reset: &[&[&str]] = &[&["spec"]];
    let managed = FieldManagerRequest {
        manager: "kubelet",
        subresource: "status",
        reset_fields: reset,
        ..managed
    };
    let json = to_json(&apply::update_managed_fields(&managed, Some(&before), pod)?);
    println!("\nwith its managed fields, {} bytes", json.len());
    memory(pods, &json)
}

fn speed(pods: &ResourceDefinition, json: &[u8]) -> Result<()> {
    let pod = read(pods, json)?;
    steps(pods, json, &pod);
    let message = protobuf::encode(&pods.schema, &pod);
    let [plain, ours, theirs, binary] = beside([
        &|| drop(black_box(to_json(&from_json(json).expect("read before")))),
        &|| drop(black_box(to_json(&read(pods, json).expect("read before")))),
        &|| {
            let value: serde_json::Value = serde_json::from_slice(json).expect("read before");
            drop(black_box(serde_json::to_vec(&value)));
        },
        &|| {
            let pod = protobuf::decode(&pods.schema, &message).expect("written above");
            drop(black_box(protobuf::encode(&pods.schema, &pod)));
        },
    ]);
    line("JSON, read and written", plain);
    line("the same, with types checked", ours);
    line("serde_json::Value", theirs);
    line("protobuf, read and written", binary);
    println!(
        "beside serde_json::Value: JSON {:.2}, with types checked {:.2}, protobuf {:.2}",
        ratio(theirs, plain),
        ratio(theirs, ours),
        ratio(theirs, binary)
    );
    let change = from_json(
        br#"{"metadata":{"labels":{"new":"1"}},"spec":{"containers":[{"name":"c1","image":"i:2"}]}}"#,
    )?;
    line(
        "strategic merge",
        each(|| {
            drop(black_box(patch::apply_strategic_merge_patch(
                &pods.schema,
                &pod,
                &mut change.clone(),
            )));
        }),
    );
    let (bare, live) = applied(pods, &pod)?;
    line("apply", each(|| drop(black_box(apply::apply(&write(pods), Some(&live), &bare, false)))));
    let fresh = from_json(&to_json(&bare))?;
    line(
        "apply, nothing shared",
        each(|| drop(black_box(apply::apply(&write(pods), Some(&live), &fresh, false)))),
    );
    let mut less = fresh.clone();
    less["spec"].remove("tolerations");
    less["spec"].remove("enableServiceLinks");
    line(
        "apply of less",
        each(|| drop(black_box(apply::apply(&write(pods), Some(&live), &less, false)))),
    );
    line(
        "validation",
        each(|| {
            let mut errs = ErrorList::default();
            check(pods, &pod, &mut errs);
            black_box(&errs);
        }),
    );
    let mut errs = ErrorList::default();
    check(pods, &pod, &mut errs);
    if errs.is_empty() { Ok(()) } else { Err(anyhow!("the pod is not valid: {errs:?}")) }
}

/// Measures the steps of creating a pod.
fn steps(pods: &ResourceDefinition, json: &[u8], pod: &Value) {
    let plain = from_json(json).expect("read before");
    line("read JSON", each(|| drop(black_box(from_json(json)))));
    line("write JSON", each(|| drop(black_box(to_json(pod)))));
    line("check types", each(|| drop(black_box(pods.coerce(&mut plain.clone(), &mut Vec::new())))));
    line(
        "fill defaults",
        each(|| {
            let mut pod = pod.clone();
            pods.apply_defaults(&mut pod);
            black_box(&pod);
        }),
    );
    line(
        "normalize what is normal",
        each(|| {
            let mut pod = pod.clone();
            pods.normalize(&mut pod);
            black_box(&pod);
        }),
    );
    line(
        "managed fields",
        each(|| drop(black_box(apply::update_managed_fields(&write(pods), None, pod.clone())))),
    );
    let message = protobuf::encode(&pods.schema, pod);
    line("write protobuf", each(|| drop(black_box(protobuf::encode(&pods.schema, pod)))));
    line("read protobuf", each(|| drop(black_box(protobuf::decode(&pods.schema, &message)))));
}

fn memory(pods: &ResourceDefinition, json: &[u8]) -> Result<()> {
    const MANY: usize = 2_000;
    let apart = grown(|| (0..MANY).map(|_| read(pods, json)).collect::<Result<Vec<_>>>())?;
    println!("{:<34} {apart:>9} bytes live", "a pod read by itself");
    let filled = grown(|| {
        let whole = |_| {
            let mut pod = read(pods, json)?;
            pods.apply_defaults(&mut pod);
            pods.normalize(&mut pod);
            Ok(pod)
        };
        (0..MANY).map(whole).collect::<Result<Vec<_>>>()
    })?;
    println!("{:<34} {filled:>9} bytes live", "the same, defaulted");
    let one = read(pods, json)?;
    let updates = grown(|| {
        (0..MANY)
            .map(|n| {
                let mut new = read(pods, &to_json(&one))?;
                new["status"]["phase"] = if n % 2 == 0 { "Running" } else { "Failed" }.into();
                new["status"]["conditions"] = [from_json(
                    br#"{"type":"Ready","status":"True","lastTransitionTime":"2024-01-02T03:04:05Z"}"#,
                )?]
                .into_iter()
                .collect();
                new.share_subtrees_with(&one);
                Ok(new)
            })
            .collect::<Result<Vec<_>>>()
    })?;
    println!("{:<34} {updates:>9} bytes live", "an update of its status");
    let template = read(pods, json)?;
    let like = grown(|| {
        (0..MANY)
            .map(|n| {
                let mut new = read(pods, json)?;
                new["metadata"]["name"] = format!("web-{n}").into();
                new["metadata"]["uid"] = format!("00000000-0000-4000-8000-{n:012}").into();
                new.share_subtrees_with(&template);
                Ok(new)
            })
            .collect::<Result<Vec<_>>>()
    })?;
    println!("{:<34} {like:>9} bytes live", "a pod of a known template");
    Ok(())
}

/// A pod with all the usual fields.
fn pod(pods: &ResourceDefinition, n: usize) -> Result<Value> {
    let mut pod = from_json(
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-5d8f7c9b6d-",
        "namespace":"default","labels":{"app":"web","tier":"front","pod-template-hash":"5d8f7c9b6d"},
        "annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d8f7c9b6d",
        "uid":"6b0d5e52-7a1c-4c55-9f0e-0a1b2c3d4e5f","controller":true,"blockOwnerDeletion":true}]},
        "spec":{"serviceAccountName":"default","nodeName":"node-17","priority":0,
        "enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority","tolerations":[
        {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
        {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
        "volumes":[{"name":"kube-api-access-x2x9z","projected":{"defaultMode":420,"sources":[
        {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
        {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
        {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}},
        {"name":"config","configMap":{"name":"web","defaultMode":420}},{"name":"tmp","emptyDir":{}}]},
        "status":{"phase":"Running","hostIP":"10.0.0.17","podIP":"10.244.17.5","podIPs":[{"ip":"10.244.17.5"}],
        "qosClass":"Burstable","startTime":"2024-01-02T03:04:05Z","conditions":[
        {"type":"Initialized","status":"True","lastTransitionTime":"2024-01-02T03:04:05Z"},
        {"type":"Ready","status":"True","lastTransitionTime":"2024-01-02T03:04:15Z"},
        {"type":"ContainersReady","status":"True","lastTransitionTime":"2024-01-02T03:04:15Z"},
        {"type":"PodScheduled","status":"True","lastTransitionTime":"2024-01-02T03:04:05Z"}]}}"#,
    )?;
    pod["metadata"]["name"] = format!("web-5d8f7c9b6d-{n:05}").into();
    pod["spec"]["containers"] = (1..=3).map(container).collect::<Result<_>>()?;
    pod["status"]["containerStatuses"] = (1..=3).map(status).collect::<Result<_>>()?;
    pods.coerce(&mut pod, &mut Vec::new()).map_err(|error| anyhow!(error))?;
    pods.apply_defaults(&mut pod);
    Ok(pod)
}

fn container(n: usize) -> Result<Value> {
    let text = format!(
        r#"{{"name":"c{n}","image":"registry.example/team/web-{n}:1.27.{n}","args":["--port=80{n}","--verbose"],
        "ports":[{{"name":"http-{n}","containerPort":80{n},"protocol":"TCP"}}],
        "env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},
        {{"name":"LEVEL","value":"info"}},{{"name":"REGION","value":"eu-central-{n}"}}],
        "resources":{{"limits":{{"cpu":"500m","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},
        "volumeMounts":[{{"name":"kube-api-access-x2x9z","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}},
        {{"name":"config","mountPath":"/etc/web"}},{{"name":"tmp","mountPath":"/tmp"}}],
        "livenessProbe":{{"httpGet":{{"path":"/healthz","port":"http-{n}"}},"periodSeconds":10}},
        "readinessProbe":{{"httpGet":{{"path":"/ready","port":"http-{n}"}},"periodSeconds":5}},
        "securityContext":{{"allowPrivilegeEscalation":false,"capabilities":{{"drop":["ALL"]}},"runAsNonRoot":true}}}}"#
    );
    Ok(from_json(text.as_bytes())?)
}

fn status(n: usize) -> Result<Value> {
    let text = format!(
        r#"{{"name":"c{n}","ready":true,"started":true,"restartCount":{n},"state":{{"running":{{"startedAt":"2024-01-02T03:04:0{n}Z"}}}},
        "lastState":{{}},"image":"registry.example/team/web-{n}:1.27.{n}",
        "imageID":"registry.example/team/web-{n}@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde{n}",
        "containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde{n}"}}"#
    );
    Ok(from_json(text.as_bytes())?)
}

fn read(pods: &ResourceDefinition, json: &[u8]) -> Result<Value> {
    let mut pod = from_json(json)?;
    pods.coerce(&mut pod, &mut Vec::new()).map_err(|error| anyhow!(error))?;
    Ok(pod)
}

/// All validation of a new object.
fn check(pods: &ResourceDefinition, pod: &Value, errs: &mut ErrorList) {
    validate_object_meta(pod, None, pods.scope, errs);
    schema::validate_declarative(&pods.schema, pod, None, errs);
    pods.strategy.validate(pod, None, errs);
}

fn write(pods: &ResourceDefinition) -> FieldManagerRequest<'_> {
    FieldManagerRequest {
        schema: &pods.schema,
        api_version: "v1",
        kind: "Pod",
        manager: "bench",
        subresource: "",
        reset_fields: &[&["status"]],
        now: NOW,
        converter: &apply::SingleVersion,
    }
}

/// An apply configuration, and the live object that it is merged into.
fn applied(pods: &ResourceDefinition, pod: &Value) -> Result<(Value, Value)> {
    let mut bare = pod.clone();
    bare.remove("status");
    let live = apply::apply(&write(pods), None, &bare, false);
    Ok((bare, live.map_err(|error| anyhow!("{error:?}"))?))
}

/// Allocated bytes per created object.
fn grown<T>(make: impl FnOnce() -> Result<Vec<T>>) -> Result<usize> {
    let before = sys::allocated_bytes();
    let made = make()?;
    let held = sys::allocated_bytes().saturating_sub(before) / made.len().max(1);
    drop(black_box(made));
    Ok(held)
}

/// The shortest time of several rounds.
fn each(work: impl Fn()) -> Duration {
    let [best] = beside([&work]);
    best
}

/// The shortest times of many short rounds, with the functions taking turns: other processes share the host, but do
/// not interrupt every round.
fn beside<const N: usize>(works: [&dyn Fn(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..ROUNDS {
        for (work, best) in works.iter().zip(&mut best) {
            let began = Instant::now();
            for _ in 0..TIMES {
                work();
            }
            *best = began.elapsed().min(*best);
        }
    }
    best.map(|best| best / TIMES)
}

fn line(name: &str, time: Duration) {
    println!("{name:<34} {:>9.2} µs", time.as_secs_f64() * 1e6);
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
