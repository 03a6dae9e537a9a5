//! core/v1: options.

use macros::api;
use object::{Bytes, List, ObjectMeta, OwnerReference, Time};

use super::ObjectReference;

#[api(atomic)]
pub struct TopologySelectorTerm {
    /// What must hold of the labels of a place.
    match_label_expressions: List<TopologySelectorLabelRequirement>,
}

#[api]
pub struct TopologySelectorLabelRequirement {
    /// The label.
    key: Must<String>,
    /// What it may be.
    values: Must<List<String>>,
}

#[api]
pub struct AvoidPods {
    /// The pods that the node would rather not have.
    prefer_avoid_pods: List<PreferAvoidPodsEntry>,
}

#[api]
pub struct PreferAvoidPodsEntry {
    /// Which pods.
    pod_signature: Must<PodSignature>,
    /// When one was last evicted.
    eviction_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

#[api]
pub struct PodSignature {
    /// What the pods belong to.
    pod_controller: Option<OwnerReference>,
}

#[api]
pub struct Preconditions {
    /// The uid that the object must have.
    #[api(go_type = "types.UID")]
    uid: Option<String>,
}

#[api]
pub struct PodLogOptions {
    /// The container; not needed where there is only one.
    container: String,
    /// Whether to go on as more is written.
    follow: bool,
    /// Whether to read what the container wrote before its last restart.
    previous: bool,
    /// How far back to begin.
    since_seconds: Option<i64>,
    /// When to begin.
    since_time: Option<Time>,
    /// Whether each line begins with its time.
    timestamps: bool,
    /// How many of the last lines to read.
    tail_lines: Option<i64>,
    /// How many bytes to read at most.
    limit_bytes: Option<i64>,
    /// Whether the kubelet's certificate is not checked.
    #[api(name = "insecureSkipTLSVerifyBackend")]
    insecure_skip_tls_verify_backend: bool,
    /// Which output: All, Stdout or Stderr.
    stream: Option<String>,
}

#[api]
pub struct PodAttachOptions {
    /// Whether the input is passed on.
    stdin: bool,
    /// Whether the output is passed back.
    stdout: bool,
    /// Whether the errors are passed back.
    stderr: bool,
    /// Whether it is a terminal.
    tty: bool,
    /// The container; not needed where there is only one.
    container: String,
}

#[api]
pub struct PodExecOptions {
    /// Whether the input is passed on.
    stdin: bool,
    /// Whether the output is passed back.
    stdout: bool,
    /// Whether the errors are passed back.
    stderr: bool,
    /// Whether it is a terminal.
    tty: bool,
    /// The container; not needed where there is only one.
    container: String,
    /// The program and its arguments.
    command: Must<List<String>>,
}

#[api]
pub struct PodPortForwardOptions {
    /// The ports to forward.
    ports: List<i32>,
}

#[api]
pub struct PodProxyOptions {
    /// The path to ask for.
    path: String,
}

#[api]
pub struct NodeProxyOptions {
    /// The path to ask for.
    path: String,
}

#[api]
pub struct ServiceProxyOptions {
    /// The path to ask for.
    path: String,
}

#[api]
pub struct SerializedReference {
    /// The object.
    reference: ObjectReference,
}

#[api]
pub struct RangeAllocation {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The range, as text.
    range: Must<String>,
    /// What of it is taken, one bit each.
    data: Must<Bytes>,
}
