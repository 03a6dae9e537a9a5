//! Flags about connections and requests: CORS, TLS, HTTP/2, timeouts and shutdown.

use std::{num::NonZeroU64, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::{ArgAction, Args};
use pki::TlsSettings;
use regex::Regex;
use server::{HttpPolicy, Limits, Shutdown};

use crate::config::duration;

#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ConnectionFlags {
    /// From where pages in browsers may call: regular expressions that match a whole host.
    #[arg(long, value_delimiter = ',', value_name = "REGEX")]
    pub cors_allowed_origins: Vec<String>,
    /// What browsers are told about TLS: max-age=SECONDS, includeSubDomains, preload.
    #[arg(long, value_delimiter = ',')]
    pub strict_transport_security_directives: Vec<String>,
    /// How likely a request is the last of its HTTP/2 connection, so that clients spread over
    /// servers: at most 0.02.
    #[arg(long, default_value_t = 0.0)]
    pub goaway_chance: f64,
    /// How long a request may take that is not meant to last.
    #[arg(long, default_value = "1m0s")]
    pub request_timeout: String,
    /// How many seconds a watch lasts at least, if nobody says how long.
    #[arg(long, default_value_t = 1800)]
    pub min_request_timeout: u32,
    /// How many bytes a second a stream to a kubelet, pod or service may have; 0: any number.
    #[arg(long, default_value_t = 0)]
    pub max_connection_bytes_per_sec: u64,
    /// How many requests may be under way on one HTTP/2 connection.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub http2_max_streams_per_connection: u32,
    /// Whether only HTTP/1.1 is spoken.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub disable_http2_serving: bool,
    /// The oldest TLS that is spoken: VersionTLS12 or VersionTLS13.
    #[arg(long, default_value = "VersionTLS12")]
    pub tls_min_version: String,
    /// The cipher suites of TLS 1.2 that are spoken; those of 1.3 always are.
    #[arg(long, value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,
    /// The curves of key exchanges, the best first: 23 (P-256), 24 (P-384), 29 (X25519).
    #[arg(long, value_delimiter = ',')]
    pub tls_curve_preferences: Vec<u16>,
    /// Whether another process may listen on the same port.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub permit_port_sharing: bool,
    /// Whether another address of the port may be in use, or have been a moment ago.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub permit_address_sharing: bool,
    /// How long the server goes on as before when it is to end, but says that it is not ready.
    #[arg(long, default_value = "0s")]
    pub shutdown_delay_duration: String,
    /// Whether who comes after that is told to come again while others are still answered.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub shutdown_send_retry_after: bool,
    /// Within what time watches end then: not all at once.
    #[arg(long, default_value = "0s")]
    pub shutdown_watch_termination_grace_period: String,
    /// The name of this server in addresses that others are told.
    #[arg(long, value_name = "HOST")]
    pub external_hostname: Option<String>,
}

impl ConnectionFlags {
    pub(crate) fn check(&self) -> Result<()> {
        self.edge()?;
        self.limits()?;
        self.shutdown()?;
        self.handshakes().map(drop)
    }

    /// CORS, HSTS and GOAWAY settings.
    pub(crate) fn edge(&self) -> Result<HttpPolicy> {
        ensure!(
            (0.0..=0.02).contains(&self.goaway_chance),
            "--goaway-chance can not be less than 0 or greater than 0.02"
        );
        for directive in &self.strict_transport_security_directives {
            let age = directive.strip_prefix("max-age=").is_some_and(|age| !age.contains('='));
            ensure!(
                age || matches!(directive.as_str(), "includeSubDomains" | "preload"),
                "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, \
                 includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for \
                 more information"
            );
        }
        let origins = self.cors_allowed_origins.iter().map(|text| origin(text));
        Ok(HttpPolicy {
            origins: origins.collect::<Result<_>>()?,
            hsts_directives: self.strict_transport_security_directives.clone(),
            goaway_chance: self.goaway_chance,
        })
    }

    /// All limits except the number of concurrent requests.
    pub(crate) fn limits(&self) -> Result<Limits> {
        let http2 = (!self.disable_http2_serving).then_some(self.http2_max_streams_per_connection);
        Ok(Limits {
            request: duration(&self.request_timeout).context("--request-timeout")?,
            watch_min: Duration::from_secs(self.min_request_timeout.into()),
            max_http2_streams: http2,
            stream_bytes_per_second: NonZeroU64::new(self.max_connection_bytes_per_sec),
            ..Limits::default()
        })
    }

    /// Delays of a graceful shutdown.
    pub(crate) fn shutdown(&self) -> Result<Shutdown> {
        let watches = &self.shutdown_watch_termination_grace_period;
        Ok(Shutdown {
            delay: duration(&self.shutdown_delay_duration).context("--shutdown-delay-duration")?,
            retry_after: self.shutdown_send_retry_after,
            watch_termination: duration(watches)
                .context("--shutdown-watch-termination-grace-period")?,
        })
    }

    /// TLS versions, cipher suites and curves.
    pub(crate) fn handshakes(&self) -> Result<TlsSettings> {
        let versions = [("VersionTLS12", false), ("VersionTLS13", true)];
        let newest_only = versions.iter().find(|(name, _)| *name == self.tls_min_version);
        let Some((_, newest_only)) = newest_only else {
            anyhow::bail!(
                "--tls-min-version: {:?} is not supported; these are: VersionTLS12, VersionTLS13",
                self.tls_min_version
            );
        };
        let (suites, curves) = (&self.tls_cipher_suites, &self.tls_curve_preferences);
        Ok(TlsSettings::new(*newest_only, suites, curves)?.with_http2(!self.disable_http2_serving))
    }
}

/// Parses an allowed origin. The expression must be anchored to the whole host: otherwise it would
/// also match hosts that merely contain the name.
fn origin(text: &str) -> Result<Regex> {
    ensure!(!text.is_empty(), "empty value in --cors-allowed-origins");
    let wrong = "--cors-allowed-origins has an invalid regular expression";
    let (begins, ends) = (text.contains('^') || text.contains("//"), text.contains(['$', ':']));
    ensure!(
        begins && ends,
        "{wrong}: regular expression does not pin to start/end of host in the origin header"
    );
    Regex::new(text).context(wrong)
}
