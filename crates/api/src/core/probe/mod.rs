//! core/v1: probe.

mod rules;

use macros::api;
use object::{IntOrString, List};

pub(crate) use self::rules::{End, Role};

#[api]
pub struct Probe {
    /// What is done to find out.
    #[api(inline)]
    probe_handler: ProbeHandler,
    /// How long to wait before the first try.
    initial_delay_seconds: i32,
    /// How long a try may take.
    #[api(default = 1, implied)]
    timeout_seconds: i32,
    /// How often it is tried.
    #[api(default = 10, implied)]
    period_seconds: i32,
    /// How many successes in a row mean success.
    #[api(default = 1, implied)]
    success_threshold: i32,
    /// How many failures in a row mean failure.
    #[api(default = 3, implied)]
    failure_threshold: i32,
    /// How long the container may take to stop when the probe fails.
    termination_grace_period_seconds: Option<i64>,
}

#[api]
pub struct ProbeHandler {
    /// Runs a command in the container.
    exec: Option<ExecAction>,
    /// Asks by HTTP.
    http_get: Option<HTTPGetAction>,
    /// Opens a connection.
    tcp_socket: Option<TCPSocketAction>,
    /// Asks by the gRPC health protocol.
    grpc: Option<GRPCAction>,
}

#[api]
pub struct HTTPGetAction {
    /// The path to ask for.
    #[api(default = "/", implied)]
    path: String,
    /// The port, by number or name.
    port: Must<IntOrString>,
    /// The host; the pod itself when absent.
    host: String,
    /// HTTP or HTTPS.
    #[api(default = "HTTP", implied, go = "v1.URIScheme", values("HTTP", "HTTPS"))]
    scheme: String,
    /// Headers to send.
    http_headers: List<HTTPHeader>,
    /// HTTP1 or HTTP2.
    #[api(go = "v1.HTTPProtocol", gate = "H2CContainerProbe", values("HTTP1", "HTTP2"))]
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
    /// The port, by number or name.
    port: Must<IntOrString>,
    /// The host; the pod itself when absent.
    host: String,
}

#[api]
pub struct GRPCAction {
    /// The port.
    port: Must<i32>,
    /// The service whose health is asked for.
    #[api(default = "")]
    service: Option<String>,
    /// Plaintext or TLS.
    #[api(go = "v1.GRPCProbeMode", gate = "GRPCContainerProbeTLS", values("Plaintext", "TLS"))]
    mode: Option<String>,
}

#[api]
pub struct ExecAction {
    /// The program and its arguments; no shell is between.
    command: List<String>,
}

#[api]
pub struct Lifecycle {
    /// What is done right after the start.
    post_start: Option<LifecycleHandler>,
    /// What is done before the end.
    pre_stop: Option<LifecycleHandler>,
    /// The signal that ends the container.
    #[api(go = "v1.Signal", gate = "ContainerStopSignals", values = &SIGNALS)]
    stop_signal: Option<String>,
}

#[api]
pub struct LifecycleHandler {
    /// Runs a program in the container.
    exec: Option<ExecAction>,
    /// Sends a request.
    http_get: Option<HTTPGetAction>,
    /// Not supported.
    tcp_socket: Option<TCPSocketAction>,
    /// Waits.
    sleep: Option<SleepAction>,
}

#[api]
pub struct SleepAction {
    /// How long.
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
