//! core/v1: options.

use macros::api;
use object::{Bytes, List, ObjectMeta, OwnerReference, Time};

use super::ObjectReference;

#[api(atomic)]
pub struct TopologySelectorTerm {
    #[api(tag = 1)]
    match_label_expressions: List<TopologySelectorLabelRequirement>,
}

#[api]
pub struct TopologySelectorLabelRequirement {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2, required, always)]
    values: List<String>,
}

#[api]
pub struct AvoidPods {
    #[api(tag = 1)]
    prefer_avoid_pods: List<PreferAvoidPodsEntry>,
}

#[api]
pub struct PreferAvoidPodsEntry {
    #[api(tag = 1, required, always)]
    pod_signature: PodSignature,
    #[api(tag = 2)]
    eviction_time: Time,
    #[api(tag = 3)]
    reason: String,
    #[api(tag = 4)]
    message: String,
}

#[api]
pub struct PodSignature {
    #[api(tag = 1)]
    pod_controller: Option<OwnerReference>,
}

#[api]
pub struct Preconditions {
    #[api(tag = 1, go = "types.UID")]
    uid: Option<String>,
}

#[api]
pub struct PodLogOptions {
    #[api(tag = 1)]
    container: String,
    #[api(tag = 2)]
    follow: bool,
    #[api(tag = 3)]
    previous: bool,
    #[api(tag = 4)]
    since_seconds: Option<i64>,
    #[api(tag = 5)]
    since_time: Option<Time>,
    #[api(tag = 6)]
    timestamps: bool,
    #[api(tag = 7)]
    tail_lines: Option<i64>,
    #[api(tag = 8)]
    limit_bytes: Option<i64>,
    #[api(tag = 9, name = "insecureSkipTLSVerifyBackend")]
    insecure_skip_tls_verify_backend: bool,
    #[api(tag = 10)]
    stream: Option<String>,
}

#[api]
pub struct PodAttachOptions {
    #[api(tag = 1)]
    stdin: bool,
    #[api(tag = 2)]
    stdout: bool,
    #[api(tag = 3)]
    stderr: bool,
    #[api(tag = 4)]
    tty: bool,
    #[api(tag = 5)]
    container: String,
}

#[api]
pub struct PodExecOptions {
    #[api(tag = 1)]
    stdin: bool,
    #[api(tag = 2)]
    stdout: bool,
    #[api(tag = 3)]
    stderr: bool,
    #[api(tag = 4)]
    tty: bool,
    #[api(tag = 5)]
    container: String,
    #[api(tag = 6, required, always)]
    command: List<String>,
}

#[api]
pub struct PodPortForwardOptions {
    #[api(tag = 1)]
    ports: List<i32>,
}

#[api]
pub struct PodProxyOptions {
    #[api(tag = 1)]
    path: String,
}

#[api]
pub struct NodeProxyOptions {
    #[api(tag = 1)]
    path: String,
}

#[api]
pub struct ServiceProxyOptions {
    #[api(tag = 1)]
    path: String,
}

#[api]
pub struct SerializedReference {
    #[api(tag = 1)]
    reference: ObjectReference,
}

#[api]
pub struct RangeAllocation {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    range: String,
    #[api(tag = 3, required, always)]
    data: Bytes,
}
