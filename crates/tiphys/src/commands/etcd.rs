//! `etcd`: the embedded store behind etcd's gRPC interface, as a cluster of one member.

use std::{ffi::OsString, fs, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use object::SteadyClock;
use pki::CertKeyPair;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use store::{
    Directory, DiskLog,
    etcd_server::{Compaction, EtcdServer, EtcdServerConfig, Identity, Limits, bind},
};
use tracing::info;

use super::{parse, run_async, wait_for_shutdown_signal};

/// Maximum size of the store in bytes if `--quota-backend-bytes` is not given; etcd's default.
const DEFAULT_QUOTA_BYTES: u64 = 2 << 30;

#[derive(Parser)]
pub(super) struct Arguments {
    /// The name of this member.
    #[arg(long, default_value = "default")]
    name: String,
    /// Where the data is; by default NAME.etcd.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where clients are listened for.
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2379")]
    listen_client_urls: Vec<String>,
    /// Where clients are told to go.
    #[arg(long, value_delimiter = ',')]
    advertise_client_urls: Vec<String>,
    /// Shown among the members; nothing listens there.
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2380")]
    listen_peer_urls: Vec<String>,
    /// Shown among the members; nothing listens there.
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2380")]
    initial_advertise_peer_urls: Vec<String>,
    /// The members: this one.
    #[arg(long, value_delimiter = ',')]
    initial_cluster: Vec<String>,
    /// Whether the cluster is new: both words mean the same for one member.
    #[arg(long, default_value = "new", value_parser = ["new", "existing"])]
    initial_cluster_state: String,
    /// Sets clusters of the same members apart.
    #[arg(long, default_value = "etcd-cluster")]
    initial_cluster_token: String,
    /// How many bytes of keys and values are taken; 0: as etcd, two gibibytes.
    #[arg(long, default_value_t = 0)]
    quota_backend_bytes: i64,
    /// Taken, and without effect: states are written by size.
    #[arg(long, default_value_t = 10_000)]
    snapshot_count: u64,
    /// What --auto-compaction-retention counts.
    #[arg(long, default_value = "periodic", value_parser = ["periodic", "revision"])]
    auto_compaction_mode: String,
    /// How much is kept: hours, a duration, or revisions; 0: everything.
    #[arg(long, default_value = "0")]
    auto_compaction_retention: String,
    /// How large a request may be.
    #[arg(long, default_value_t = 1_572_864)]
    max_request_bytes: usize,
    /// How many operations a transaction may have.
    #[arg(long, default_value_t = 128)]
    max_txn_ops: usize,
    /// How often a quiet watch that wants to know is told how far it is.
    #[arg(long, default_value = "10m", alias = "experimental-watch-progress-notify-interval")]
    watch_progress_notify_interval: String,
    /// How much is logged.
    #[arg(long, default_value = "info", value_parser = ["debug", "info", "warn", "error", "panic", "fatal"])]
    log_level: String,
    /// The certificate that clients see.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Who signs clients' certificates: they must show one.
    #[arg(long, value_name = "FILE")]
    trusted_ca_file: Option<PathBuf>,
    /// Whether clients must show a certificate, of --trusted-ca-file.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set, default_value_t = false)]
    client_cert_auth: bool,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("etcd", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    let level = match flags.log_level.as_str() {
        "panic" | "fatal" => "error".to_owned(),
        level => level.to_owned(),
    };
    crate::logging::start_at(&level);
    run_async("etcd", serve(flags))
}

async fn serve(flags: Arguments) -> Result<()> {
    check_single_member(&flags)?;
    let data = flags.data_dir.clone().unwrap_or_else(|| format!("{}.etcd", flags.name).into());
    ensure!(
        !data.join("member/snap/db").exists(),
        "{} is a folder of etcd itself: take a snapshot of it and restore that with tiphys snapshot restore",
        data.display()
    );
    let folder = data.join("store");
    create_private_dir(&data)?;
    let disk =
        Directory::open(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
    // Leases last as long as they were granted for, whatever the time of day is set to.
    let clock = Arc::new(SteadyClock::new());
    let log = DiskLog::open(Arc::new(disk), clock.clone(), apiserver::disk_log_options())?;
    let tls = tls(&flags)?;
    let mut ports = Vec::new();
    for url in &flags.listen_client_urls {
        let (scheme, address) = split_url(url)?;
        ensure!(
            scheme == "http" || tls.is_some(),
            "--listen-client-urls {url}: https needs --cert-file and --key-file"
        );
        let tls = tls.clone().filter(|_| scheme == "https");
        ports.push(bind(&address, tls).await.with_context(|| format!("cannot listen on {url}"))?);
    }
    let etcd = EtcdServer::open(log, clock, setup(&flags, &data)?)?;
    info!(urls = flags.listen_client_urls.join(","), "serving");
    let stop = async {
        if let Err(error) = wait_for_shutdown_signal().await {
            tracing::error!(%error, "cannot install signal handlers");
        }
    };
    etcd.serve(ports, stop).await;
    Ok(())
}

/// Fails if `--initial-cluster` names another member.
fn check_single_member(flags: &Arguments) -> Result<()> {
    let others: Vec<_> = flags
        .initial_cluster
        .iter()
        .filter(|member| member.split_once('=').is_none_or(|(name, _)| name != flags.name))
        .map(String::as_str)
        .collect();
    ensure!(
        others.is_empty(),
        "--initial-cluster: {}: this is a single member named {:?}; for a cluster of several, run etcd itself \
         and give the API server its --etcd-servers",
        others.join(","),
        flags.name
    );
    Ok(())
}

fn setup(flags: &Arguments, data: &std::path::Path) -> Result<EtcdServerConfig> {
    let client_urls = if flags.advertise_client_urls.is_empty() {
        flags.listen_client_urls.clone()
    } else {
        flags.advertise_client_urls.clone()
    };
    ensure!(flags.snapshot_count > 0, "--snapshot-count must be more than 0");
    let quota = match flags.quota_backend_bytes {
        0 => DEFAULT_QUOTA_BYTES,
        quota => u64::try_from(quota).unwrap_or_default(), // negative: no quota, as in etcd
    };
    Ok(EtcdServerConfig {
        identity: Identity {
            name: flags.name.clone(),
            peer_urls: flags.initial_advertise_peer_urls.clone(),
            client_urls,
            token: flags.initial_cluster_token.clone(),
        },
        limits: Limits {
            request_bytes: flags.max_request_bytes,
            operations: flags.max_txn_ops,
            progress: duration(
                &flags.watch_progress_notify_interval,
                "--watch-progress-notify-interval",
            )?,
        },
        quota,
        scratch: data.to_owned(),
        compaction: compaction(&flags.auto_compaction_mode, &flags.auto_compaction_retention)?,
    })
}

fn compaction(mode: &str, retention: &str) -> Result<Compaction> {
    let flag = "--auto-compaction-retention";
    match (mode, retention.parse::<u64>()) {
        (_, Ok(0)) => Ok(Compaction::Never),
        ("revision", Ok(count)) => Ok(Compaction::Revisions(count)),
        ("revision", Err(_)) => {
            bail!("{flag} {retention:?}: --auto-compaction-mode revision wants a number")
        }
        (_, Ok(hours)) => {
            Ok(Compaction::Periodic(Duration::from_secs(hours.saturating_mul(3_600))))
        }
        (_, Err(_)) => Ok(Compaction::Periodic(duration(retention, flag)?)),
    }
}

fn tls(flags: &Arguments) -> Result<Option<Arc<ServerConfig>>> {
    let (Some(certificate), Some(key)) = (&flags.cert_file, &flags.key_file) else {
        ensure!(
            !flags.client_cert_auth && flags.trusted_ca_file.is_none(),
            "--client-cert-auth and --trusted-ca-file need --cert-file and --key-file"
        );
        return Ok(None);
    };
    let read =
        |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let pair = CertKeyPair::from_pem(&read(certificate)?, &read(key)?)?;
    let mut config = match &flags.trusted_ca_file {
        // As in etcd, --trusted-ca-file alone already makes client certificates mandatory.
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in pki::certificates(&read(path)?)? {
                roots.add(certificate)?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), pki::provider());
            ServerConfig::builder_with_provider(pki::provider())
                .with_safe_default_protocol_versions()?
                .with_client_cert_verifier(verifier.build()?)
                .with_single_cert(pair.chain().to_vec(), pair.key().to_der())?
        }
        None if flags.client_cert_auth => bail!("--client-cert-auth needs --trusted-ca-file"),
        None => pki::server_config(&pair, None)?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    Ok(Some(Arc::new(config)))
}

/// The scheme of a URL, and the address behind it.
fn split_url(url: &str) -> Result<(&str, String)> {
    match url.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => {
            let address = rest.trim_end_matches('/').replace("localhost:", "127.0.0.1:");
            ensure!(address.contains(':'), "{url:?}: say the port");
            Ok((scheme, address))
        }
        _ => bail!("{url:?} is no URL of http or https"),
    }
}

/// Parses a duration in Go's format: 5m, 1h30m, 10s.
pub(super) fn duration(text: &str, flag: &str) -> Result<Duration> {
    let nanos =
        object::Duration::parse_nanos(text).map_err(|why| anyhow::anyhow!("{flag}: {why}"))?;
    Ok(Duration::from_nanos(
        u64::try_from(nanos).with_context(|| format!("{flag}: {text} is below 0"))?,
    ))
}

/// Creates a directory that only its owner can access.
fn create_private_dir(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_go_writes_them() {
        let read = |text| duration(text, "--x").ok();
        assert_eq!(read("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(read("1.5s"), Some(Duration::from_millis(1_500)));
        assert_eq!(["", "5", "m", "-5s"].map(read), [None; 4]);
        assert_eq!(
            compaction("periodic", "1").unwrap(),
            Compaction::Periodic(Duration::from_hours(1))
        );
        assert_eq!(compaction("revision", "9").unwrap(), Compaction::Revisions(9));
        assert!(compaction("revision", "1h").is_err());
    }
}
