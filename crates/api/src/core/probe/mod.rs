//! core/v1: probe.

mod rules;

use macros::api;
use object::{IntOrString, List};

pub(crate) use self::rules::{End, Role};

#[api]
pub struct Probe {
    #[api(tag = 1, inline)]
    probe_handler: ProbeHandler,
    /// How long to wait before the first try.
    #[api(tag = 2)]
    initial_delay_seconds: i32,
    /// How long a try may take.
    #[api(tag = 3, default = 1, implied)]
    timeout_seconds: i32,
    /// How often it is tried.
    #[api(tag = 4, default = 10, implied)]
    period_seconds: i32,
    /// How many successes in a row mean success.
    #[api(tag = 5, default = 1, implied)]
    success_threshold: i32,
    /// How many failures in a row mean failure.
    #[api(tag = 6, default = 3, implied)]
    failure_threshold: i32,
    /// How long the container may take to stop when the probe fails.
    #[api(tag = 7)]
    termination_grace_period_seconds: Option<i64>,
}

#[api]
pub struct ProbeHandler {
    /// Runs a command in the container.
    #[api(tag = 1)]
    exec: Option<ExecAction>,
    /// Asks by HTTP.
    #[api(tag = 2)]
    http_get: Option<HTTPGetAction>,
    /// Opens a connection.
    #[api(tag = 3)]
    tcp_socket: Option<TCPSocketAction>,
    /// Asks by the gRPC health protocol.
    #[api(tag = 4)]
    grpc: Option<GRPCAction>,
}

#[api]
pub struct HTTPGetAction {
    #[api(tag = 1, default = "/", implied)]
    path: String,
    #[api(tag = 2, required, always)]
    port: IntOrString,
    #[api(tag = 3)]
    host: String,
    #[api(tag = 4, default = "HTTP", implied, go = "v1.URIScheme")]
    scheme: String,
    #[api(tag = 5)]
    http_headers: List<HTTPHeader>,
    #[api(tag = 6, go = "v1.HTTPProtocol")]
    protocol: Option<String>,
}

#[api]
pub struct HTTPHeader {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    value: String,
}

#[api]
pub struct TCPSocketAction {
    #[api(tag = 1, required, always)]
    port: IntOrString,
    #[api(tag = 2)]
    host: String,
}

#[api]
pub struct GRPCAction {
    #[api(tag = 1, required, always)]
    port: i32,
    #[api(tag = 2, default = "")]
    service: Option<String>,
    #[api(tag = 3, go = "v1.GRPCProbeMode")]
    mode: Option<String>,
}

#[api]
pub struct ExecAction {
    #[api(tag = 1)]
    command: List<String>,
}

#[api]
pub struct Lifecycle {
    #[api(tag = 1)]
    post_start: Option<LifecycleHandler>,
    #[api(tag = 2)]
    pre_stop: Option<LifecycleHandler>,
    #[api(tag = 3, go = "v1.Signal")]
    stop_signal: Option<String>,
}

#[api]
pub struct LifecycleHandler {
    #[api(tag = 1)]
    exec: Option<ExecAction>,
    #[api(tag = 2)]
    http_get: Option<HTTPGetAction>,
    #[api(tag = 3)]
    tcp_socket: Option<TCPSocketAction>,
    #[api(tag = 4)]
    sleep: Option<SleepAction>,
}

#[api]
pub struct SleepAction {
    #[api(tag = 1, required, always)]
    seconds: i64,
}
