//! core/v1: probe.

mod rules;

use macros::api;
use object::{IntOrString, List};

pub(crate) use self::rules::{PodTermination, ProbeType};

#[api]
pub struct Probe {
    /// The check itself.
    #[api(inline)]
    probe_handler: ProbeHandler,
    /// Seconds after the start of the container before the first check.
    initial_delay_seconds: i32,
    /// Seconds after which a check counts as failed, 1 by default.
    #[api(default = 1, unpublished_default)]
    timeout_seconds: i32,
    /// Seconds between checks, 10 by default.
    #[api(default = 10, unpublished_default)]
    period_seconds: i32,
    /// Consecutive successes after which the probe counts as successful, 1 by default.
    #[api(default = 1, unpublished_default)]
    success_threshold: i32,
    /// Consecutive failures after which the probe counts as failed, 3 by default.
    #[api(default = 3, unpublished_default)]
    failure_threshold: i32,
    /// Grace period for the restart if the probe fails, instead of the pod's.
    termination_grace_period_seconds: Option<i64>,
}

#[api]
pub struct ProbeHandler {
    /// Command to run in the container; exit code 0 is success.
    exec: Option<ExecAction>,
    /// HTTP request to send; a status from 200 to 399 is success.
    http_get: Option<HTTPGetAction>,
    /// TCP port to connect to; an open port is success.
    tcp_socket: Option<TCPSocketAction>,
    /// Call of the gRPC health checking protocol.
    grpc: Option<GRPCAction>,
}

#[api]
pub struct HTTPGetAction {
    /// Path of the request.
    #[api(default = "/", unpublished_default)]
    path: String,
    /// Port number or name, 1 to 65535.
    port: Must<IntOrString>,
    /// Host name to connect to. Defaults to the IP of the pod.
    host: String,
    /// HTTP (default) or HTTPS. Certificates are not verified.
    #[api(
        default = "HTTP",
        unpublished_default,
        go_type = "v1.URIScheme",
        enum_values("HTTP", "HTTPS")
    )]
    scheme: String,
    /// Headers of the request.
    http_headers: List<HTTPHeader>,
    /// HTTP1 or HTTP2.
    #[api(
        go_type = "v1.HTTPProtocol",
        feature_gate = "H2CContainerProbe",
        enum_values("HTTP1", "HTTP2")
    )]
    protocol: Option<String>,
}

#[api]
pub struct HTTPHeader {
    /// The name of the header.
    name: Must<String>,
    /// The value of the header.
    value: Must<String>,
}

#[api]
pub struct TCPSocketAction {
    /// Port number or name, 1 to 65535.
    port: Must<IntOrString>,
    /// Host name to connect to. Defaults to the IP of the pod.
    host: String,
}

#[api]
pub struct GRPCAction {
    /// Port number of the gRPC service.
    port: Must<i32>,
    /// Service name that is sent in the health check.
    #[api(default = "")]
    service: Option<String>,
    /// Plaintext or TLS.
    #[api(
        go_type = "v1.GRPCProbeMode",
        feature_gate = "GRPCContainerProbeTLS",
        enum_values("Plaintext", "TLS")
    )]
    mode: Option<String>,
}

#[api]
pub struct ExecAction {
    /// Program and arguments, run without a shell in the container's root directory.
    command: List<String>,
}

#[api]
pub struct Lifecycle {
    /// Hook that runs right after the container was created. If it fails, the container is stopped and restarted.
    post_start: Option<LifecycleHandler>,
    /// Hook that runs before the container is stopped. The grace period counts from its beginning.
    pre_stop: Option<LifecycleHandler>,
    /// Signal that is sent to stop the container, instead of that of the image.
    #[api(go_type = "v1.Signal", feature_gate = "ContainerStopSignals", enum_values = &SIGNALS)]
    stop_signal: Option<String>,
}

#[api]
pub struct LifecycleHandler {
    /// Command to run in the container.
    exec: Option<ExecAction>,
    /// HTTP request to send.
    http_get: Option<HTTPGetAction>,
    /// Deprecated, and not supported.
    tcp_socket: Option<TCPSocketAction>,
    /// Time to sleep.
    sleep: Option<SleepAction>,
}

#[api]
pub struct SleepAction {
    /// Seconds to sleep.
    seconds: Must<i64>,
}

/// The signals of Linux, in the order of their names.
#[rustfmt::skip]
pub(crate) const SIGNALS: [&str; 65] = [
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL",
    "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT",
    "SIGRTMAX", "SIGRTMAX-1", "SIGRTMAX-10", "SIGRTMAX-11", "SIGRTMAX-12", "SIGRTMAX-13",
    "SIGRTMAX-14", "SIGRTMAX-2", "SIGRTMAX-3", "SIGRTMAX-4", "SIGRTMAX-5", "SIGRTMAX-6",
    "SIGRTMAX-7", "SIGRTMAX-8", "SIGRTMAX-9", "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+10",
    "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+2",
    "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8",
    "SIGRTMIN+9", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP",
    "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU",
    "SIGXFSZ",
];
