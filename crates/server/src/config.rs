//! Configuration of a server.

use std::{num::NonZeroU64, time::Duration};

use crate::{AllowedLabels, HttpPolicy, IdentityHeaders};

/// The Kubernetes release that this server implements.
pub const VERSION: &str = "v1.37.1";

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    pub headers: usize,
    pub request: Duration,
    /// Maximum numbers of requests in flight: read-only ones, and mutating ones.
    pub max_requests_in_flight: usize,
    pub max_mutating_in_flight: usize,
    /// Additional seats that only `system:masters` and requests to `essential` can use.
    pub reserved: usize,
    /// Resources and subresources that the cluster depends on, such as leases; an empty subresource
    /// is the resource with all its subresources.
    pub essential: &'static [(&'static str, &'static str)],
    pub watch_min: Duration,
    /// How many objects of a collection are deleted concurrently.
    pub deletions: usize,
    /// Bandwidth limit of a stream to a kubelet, pod or service, in bytes per second and direction.
    pub stream_bytes_per_second: Option<NonZeroU64>,
    /// Maximum concurrent streams of an HTTP/2 connection; `None` disables HTTP/2.
    pub max_http2_streams: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 3 << 20,
            headers: 64 << 10,
            request: Duration::from_mins(1),
            max_requests_in_flight: 400,
            max_mutating_in_flight: 200,
            reserved: 100,
            essential: &[],
            watch_min: Duration::from_mins(30),
            deletions: 1,
            stream_bytes_per_second: None,
            max_http2_streams: Some(1000),
        }
    }
}

/// Options of a graceful shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shutdown {
    /// How long the server keeps serving while `/readyz` already fails, so that load balancers stop
    /// sending requests to it.
    pub delay: Duration,
    /// Whether new requests get 429 with `Retry-After` while requests in flight are finished.
    pub retry_after: bool,
    /// The time over which open watches are ended, so that clients do not reconnect all at once.
    pub watch_termination: Duration,
}

/// Configuration of a server.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the server")]
#[derive(Clone, Debug)]
pub struct Config {
    pub limits: Limits,
    /// The version that `/version` reports.
    pub version: String,
    pub commit: &'static str,
    /// The minor numbers of the emulated release and of the minimum compatible one.
    pub emulation: (u32, u32),
    /// Whether requests without credentials are accepted as `system:anonymous`.
    pub anonymous: bool,
    /// Whether an HTTP/2 connection is closed after a request of an unauthenticated client. Such
    /// clients could otherwise use HTTP/2 to make the server do much work for little of theirs.
    pub close_anonymous: bool,
    /// The server's own address, advertised by `/api`.
    pub advertise: String,
    pub http_policy: HttpPolicy,
    /// The headers in which authenticating proxies name the user.
    pub identity_headers: IdentityHeaders,
    pub shutdown: Shutdown,
    /// Metrics that `/metrics` omits.
    pub disabled_metrics: Vec<String>,
    pub allowed_labels: AllowedLabels,
    /// Whether metrics include the number of stored objects.
    pub export_object_counts: bool,
    /// Whether `/metrics` also offers protobuf, with native histograms.
    pub native_histograms: bool,
    /// Whether CBOR is accepted and sent, and custom resources are stored in it.
    pub cbor: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            version: VERSION.to_owned(),
            commit: "",
            emulation: (37, 36),
            anonymous: true,
            close_anonymous: true,
            advertise: String::new(),
            http_policy: HttpPolicy::default(),
            identity_headers: IdentityHeaders::default(),
            shutdown: Shutdown::default(),
            disabled_metrics: Vec::new(),
            allowed_labels: AllowedLabels::default(),
            export_object_counts: true,
            native_histograms: true,
            cbor: false,
        }
    }
}
