//! What can be chosen about a server.

use std::{num::NonZeroU64, time::Duration};

use crate::{AllowedLabels, HttpPolicy, IdentityHeaders};

/// The release of Kubernetes that this is.
pub const VERSION: &str = "v1.37.1";

/// Bounds on what a client can make the server do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    pub headers: usize,
    pub request: Duration,
    /// Requests in flight: reading ones, and writing ones.
    pub max_requests_in_flight: usize,
    pub max_mutating_in_flight: usize,
    /// Seats that only leases, node status and administrators can take.
    pub reserved: usize,
    pub watch_min: Duration,
    /// Objects of a collection that are deleted at once.
    pub deletions: usize,
    /// Bytes a second of a stream to a kubelet, pod or service, in each direction.
    pub stream_bytes_per_second: Option<NonZeroU64>,
    /// Requests at once on a connection of HTTP/2; `None`: only HTTP/1.1 is spoken.
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
            watch_min: Duration::from_mins(30),
            deletions: 1,
            stream_bytes_per_second: None,
            max_http2_streams: Some(1000),
        }
    }
}

/// How a server ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shutdown {
    /// How long it goes on as before, but says that it is not ready, so that nobody is sent
    /// here any more.
    pub delay: Duration,
    /// Whether who still comes is told to come again, while others are being answered.
    pub retry_after: bool,
    /// Within what time watches end: not all at once.
    pub watch_termination: Duration,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the server")]
#[derive(Clone, Debug)]
pub struct Config {
    pub limits: Limits,
    /// What `/version` says.
    pub version: String,
    pub commit: &'static str,
    /// The minor numbers of the release that it behaves like, and of the oldest that may run
    /// beside it.
    pub emulation: (u32, u32),
    /// Whether those who say nothing about themselves get in as nobody.
    pub anonymous: bool,
    /// Whether a connection of HTTP/2 ends after a request of somebody who is nobody: HTTP/2
    /// lets them ask for more than they are worth.
    pub close_anonymous: bool,
    /// What this server's own address is, for `/api`.
    pub advertise: String,
    pub http_policy: HttpPolicy,
    /// In which headers proxies in front say who calls.
    pub identity_headers: IdentityHeaders,
    pub shutdown: Shutdown,
    /// Metrics that are not told.
    pub disabled_metrics: Vec<String>,
    pub allowed_labels: AllowedLabels,
    /// Whether metrics tell how many objects there are.
    pub export_object_counts: bool,
    /// Whether `/metrics` has a protobuf form, with native histograms.
    pub native_histograms: bool,
    /// Whether CBOR is spoken, and custom objects are stored in it.
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
