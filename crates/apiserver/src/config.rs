//! The flags of the API server, with upstream's names, and the validated configuration.

use std::{
    ffi::OsStr,
    fs,
    net::IpAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use client::{ConnectionUse, Connector as _, TcpConnector};
use pki::CertKeyPair;
use schema::{FeatureGates, ResourceDefinition};
use store::{DialFuture, Dialer, EtcdConfig};

use crate::{
    admission::{self, PluginConfigs},
    authn::OidcFlags,
    authz::MODES,
    egress::EgressSelector,
    emulation::Emulation,
    features,
    flags::{
        AuditFlags, ConnectionFlags, GeneralFlags, GivenFlags, LogFlags, Logging, MetricFlags,
        ServiceAccountFlags, StorageFlags, UnsupportedFlags,
    },
    reload,
    service_allocator::ServiceCidr,
    traces::TracingConfig,
};

/// The flags of `kube-apiserver`.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Flags {
    /// All of them, as they were said.
    #[command(flatten)]
    pub as_given: GivenFlags,
    /// Where the embedded store, the certificates and the kubeconfigs are.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tiphys/kube-apiserver")]
    pub data_dir: PathBuf,
    /// The port for HTTPS.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// The address that the members of the cluster reach this server at.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// The range of the addresses of services; a second one, of the other family, after a comma.
    #[arg(long, default_value = "10.96.0.0/16")]
    pub service_cluster_ip_range: String,
    /// The range of node ports.
    #[arg(long, default_value = "30000-32767")]
    pub service_node_port_range: String,
    /// A file of static tokens: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    /// A file of passwords: password,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub basic_auth_file: Option<PathBuf>,
    /// Whether secrets of the type bootstrap.kubernetes.io/token let callers in.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_bootstrap_token_auth: bool,
    /// A kubeconfig of a server that knows whose tokens are whose.
    #[arg(long, value_name = "FILE")]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long what it says about a token counts.
    #[arg(long, default_value = "2m0s")]
    pub authentication_token_webhook_cache_ttl: String,
    /// The version of its reviews.
    #[arg(long, default_value = "v1beta1", value_parser = ["v1", "v1beta1"])]
    pub authentication_token_webhook_version: String,
    /// Whose tokens are believed, and who their bearers are: an AuthenticationConfiguration.
    #[arg(long, value_name = "FILE")]
    pub authentication_config: Option<PathBuf>,
    #[command(flatten)]
    pub oidc: OidcFlags,
    /// Further authorities that sign client certificates.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// The authorities that sign the certificates of proxies in front.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of proxies in front; none: any.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// The headers in which they say who calls.
    #[arg(long, value_delimiter = ',', default_value = "X-Remote-User")]
    pub requestheader_username_headers: Vec<String>,
    /// The headers in which they say the caller's uid.
    #[arg(long, value_delimiter = ',', default_value = "X-Remote-Uid")]
    pub requestheader_uid_headers: Vec<String>,
    /// The headers in which they say the caller's groups.
    #[arg(long, value_delimiter = ',', default_value = "X-Remote-Group")]
    pub requestheader_group_headers: Vec<String>,
    /// The beginnings of headers in which they say more.
    #[arg(long, value_delimiter = ',', default_value = "X-Remote-Extra-")]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// The certificate to show instead of the cluster's own.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// A folder for a certificate that this server makes itself, apiserver.crt, and its key,
    /// to show instead of the cluster's own, if --tls-cert-file names none.
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// A certificate, its key, and for which names they are shown: cert,key:name,name. Without
    /// names: those in the certificate. May be said again.
    #[arg(long, value_name = "CERT,KEY[:NAMES]")]
    pub tls_sni_cert_key: Vec<String>,
    /// Who signs the certificates that kubelets show; without it any is believed.
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// What this server shows to kubelets instead of the cluster's own certificate.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// What this server shows to aggregated ones instead of the cluster's own certificate.
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    pub proxy_client_key_file: Option<PathBuf>,
    /// Policies for --authorization-mode=ABAC, one a line.
    #[arg(long, value_name = "FILE")]
    pub authorization_policy_file: Option<PathBuf>,
    /// A kubeconfig of a server that knows who may do what.
    #[arg(long, value_name = "FILE")]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// The version of its reviews.
    #[arg(long, default_value = "v1beta1", value_parser = ["v1", "v1beta1"])]
    pub authorization_webhook_version: String,
    /// How long its yes counts.
    #[arg(long, default_value = "5m0s")]
    pub authorization_webhook_cache_authorized_ttl: String,
    /// How long its no counts.
    #[arg(long, default_value = "30s")]
    pub authorization_webhook_cache_unauthorized_ttl: String,
    /// Who decides, with their terms: an AuthorizationConfiguration.
    #[arg(long, value_name = "FILE")]
    pub authorization_config: Option<PathBuf>,
    /// Who decides what callers may do, in this order.
    #[arg(long, default_value = "Node,RBAC", value_delimiter = ',')]
    pub authorization_mode: Vec<String>,
    /// Whether callers that say nothing about themselves are let in as system:anonymous.
    /// Unless told otherwise they are.
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub anonymous_auth: Option<bool>,
    /// Admission plugins to turn on besides the usual ones.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to leave out.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// All admission plugins that run, as it was said before there were the two above.
    #[arg(long, value_delimiter = ',')]
    pub admission_control: Vec<String>,
    /// The configuration of admission plugins: an AdmissionConfiguration.
    #[arg(long, value_name = "FILE")]
    pub admission_control_config_file: Option<PathBuf>,
    /// Who stands between this server and those whom it calls: an EgressSelectorConfiguration.
    #[arg(long, value_name = "FILE")]
    pub egress_selector_config_file: Option<PathBuf>,
    /// Where spans of requests are sent: a TracingConfiguration.
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<PathBuf>,
    /// How much is told of which requests: a Policy of audit.k8s.io.
    #[arg(long, value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,
    /// The file that audit events are written to; -: standard output.
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// How many megabytes it has before it is put aside; 0: no bound.
    #[arg(long, default_value_t = 0)]
    pub audit_log_maxsize: u64,
    /// How many files that were put aside are kept; 0: all.
    #[arg(long, default_value_t = 0)]
    pub audit_log_maxbackup: usize,
    /// How many days they are kept; 0: for ever.
    #[arg(long, default_value_t = 0)]
    pub audit_log_maxage: u64,
    /// A kubeconfig of a server that audit events are sent to.
    #[arg(long, value_name = "FILE")]
    pub audit_webhook_config_file: Option<PathBuf>,
    /// How many events are sent at once.
    #[arg(long, default_value_t = 400)]
    pub audit_webhook_batch_max_size: usize,
    /// How long events wait for others.
    #[arg(long, default_value = "30s")]
    pub audit_webhook_batch_max_wait: String,
    /// Who issues the tokens of service accounts. May be said again: the tokens of all are
    /// believed, the first issues.
    #[arg(long, default_value = "https://kubernetes.default.svc.cluster.local")]
    pub service_account_issuer: Vec<String>,
    /// Keys that signed tokens of service accounts.
    #[arg(long, value_name = "FILE")]
    pub service_account_key_file: Vec<PathBuf>,
    /// The key that signs tokens of service accounts.
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Whether containers may be privileged.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub allow_privileged: bool,
    /// Versions to serve or not: api/all=true, group/version=false.
    #[arg(long, value_delimiter = ',')]
    pub runtime_config: Vec<String>,
    /// Where etcd is, if it keeps the data; without it the embedded store does.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub etcd_servers: Vec<String>,
    /// Where etcd is that keeps a resource apart: group/resource#URL;URL.
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE#URLS", requires = "etcd_servers")]
    pub etcd_servers_overrides: Vec<String>,
    /// What all keys in etcd begin with.
    #[arg(long, default_value = "/registry")]
    pub etcd_prefix: String,
    /// Who signs the certificates of etcd.
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// The certificate that is shown to etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// How often old revisions are forgotten: 5m0s; 0: never.
    #[arg(long, default_value = "5m0s")]
    pub etcd_compaction_interval: String,
    /// What keeps the data: etcd3, the only one there is.
    #[arg(long, default_value = "etcd3", value_parser = ["etcd3"])]
    pub storage_backend: String,
    /// How the data is kept: protobuf, as upstream keeps it.
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf", value_parser = ["application/vnd.kubernetes.protobuf"])]
    pub storage_media_type: String,
    /// Who encrypts which kinds at rest: an EncryptionConfiguration. Without it secrets are
    /// encrypted with a key that is made in the data folder.
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Whether a change of that file is taken over while the server runs.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub encryption_provider_config_automatic_reload: bool,
    /// Features to turn on or off: Name=true, Name=false.
    #[arg(long, value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Whether FlowSchemas and PriorityLevelConfigurations say who is handled first.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_priority_and_fairness: bool,
    /// How many reading requests are handled at once.
    #[arg(long, default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// How many writing requests are handled at once.
    #[arg(long, default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    #[command(flatten)]
    pub connections: ConnectionFlags,
    #[command(flatten)]
    pub accounts: ServiceAccountFlags,
    #[command(flatten)]
    pub audit: AuditFlags,
    #[command(flatten)]
    pub storage: StorageFlags,
    #[command(flatten)]
    pub metrics: MetricFlags,
    #[command(flatten)]
    pub logs: LogFlags,
    #[command(flatten)]
    pub general: GeneralFlags,
    #[command(flatten)]
    pub unsupported: UnsupportedFlags,
}

impl Flags {
    /// The default flags, with this data directory.
    pub fn new(data_dir: &Path) -> Self {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            flags: Flags,
        }
        let args = [OsStr::new(""), OsStr::new("--data-dir"), data_dir.as_os_str()];
        <Defaults as clap::Parser>::parse_from(args).flags
    }
}

/// The validated flags, and what they refer to.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) flags: Flags,
    /// The service CIDRs: one, or one of each IP family. The first is the default family.
    pub(crate) services: Vec<ServiceCidr>,
    pub(crate) node_ports: RangeInclusive<i32>,
    /// `None` if revisions are not compacted by time.
    pub(crate) compaction: Option<Duration>,
    pub(crate) gates: FeatureGates,
    pub(crate) plugins: PluginConfigs,
    pub(crate) tracing: Option<TracingConfig>,
    pub(crate) egress: EgressSelector,
    pub(crate) emulation: Emulation,
    /// Whether a kubelet's serving certificate is verified for the node's name instead of the
    /// address.
    pub kubelets_by_name: bool,
    /// Components that the cluster lacks, by name: objects that need one are accepted with a
    /// warning. Empty for a server that runs alone.
    pub lacking: Vec<&'static str>,
    /// Names and addresses in this server's own certificate, in addition to those that it always has.
    pub further_names: Vec<String>,
    /// Ports of the scheduler and the controller manager on this host, for componentstatuses;
    /// `None` means upstream's.
    pub component_ports: Option<(u16, u16)>,
    event_ttl: Duration,
}

impl Config {
    pub fn new(mut flags: Flags) -> Result<Self> {
        let services = service_ranges(&flags.service_cluster_ip_range)?;
        let node_ports = ports(&flags.service_node_port_range)?;
        check(&flags)?;
        let event_ttl = flags.general.event_ttl()?;
        check_ca_overlap(&flags)?;
        ensure!(
            flags.audit_policy_file.is_some()
                || (flags.audit_log_path.is_none() && flags.audit_webhook_config_file.is_none()),
            "--audit-log-path and --audit-webhook-config-file need --audit-policy-file"
        );
        only_plugins(&mut flags)?;
        let plugins = flags.enable_admission_plugins.iter().chain(&flags.disable_admission_plugins);
        for name in plugins {
            ensure!(
                admission::names().any(|own| own == name),
                "admission plugin {name:?} is not supported; these are: {}",
                admission::names().collect::<Vec<_>>().join(", ")
            );
        }
        let gates = features::gates(
            &flags.feature_gates,
            &api::builtin_resources(),
            flags.general.emulation()?,
        )?;
        flags.logs.logging(&gates)?;
        let plugins = match &flags.admission_control_config_file {
            Some(path) => PluginConfigs::read(path, &gates)?,
            None => PluginConfigs::default(),
        };
        ensure!(
            flags.allow_privileged,
            "--allow-privileged=false is not supported: use Pod Security admission instead"
        );
        let egress = flags.egress_selector_config_file.as_deref().map(EgressSelector::read);
        let egress = egress.transpose()?.unwrap_or_default();
        let tracing = flags.tracing_config_file.as_deref().map(TracingConfig::read).transpose()?;
        let compaction = compaction(&flags.etcd_compaction_interval)?;
        ensure!(
            flags.general.kubernetes_service_node_port == 0
                || node_ports.contains(&flags.general.kubernetes_service_node_port.into()),
            "kubernetes service node port range {} doesn't contain {}",
            flags.service_node_port_range,
            flags.general.kubernetes_service_node_port
        );
        let emulation = flags.general.emulation()?;
        let config = Self {
            flags,
            services,
            node_ports,
            compaction,
            gates,
            plugins,
            tracing,
            egress,
            emulation,
            kubelets_by_name: false,
            lacking: Vec::new(),
            further_names: Vec::new(),
            component_ports: None,
            event_ttl,
        };
        config.check_emulated()?;
        Ok(config)
    }

    /// The logging configuration of the process.
    pub fn logging(&self) -> Result<Logging> {
        self.flags.logs.logging(&self.gates)
    }

    /// The client configuration of etcd.
    pub(crate) fn etcd(&self) -> Result<EtcdConfig> {
        let flags = &self.flags;
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let pair = match (&flags.etcd_certfile, &flags.etcd_keyfile) {
            (Some(certificate), Some(key)) => {
                Some(CertKeyPair::from_pem(&read(certificate)?, &read(key)?)?)
            }
            _ => None,
        };
        let tls = match &flags.etcd_cafile {
            Some(path) => {
                let authorities = pki::certificates(&read(path)?)?;
                Some(Arc::new(pki::client_config(&authorities, pair.as_ref())?))
            }
            None => None,
        };
        let (endpoints, prefix) = (flags.etcd_servers.clone(), flags.etcd_prefix.clone());
        let lease_reuse = flags.storage.lease_reuse_duration_seconds;
        let dial = self.egress.etcd.clone().map(|proxy| {
            Dialer(Arc::new(move |host: String, port| -> DialFuture {
                let to = TcpConnector::new(&host, port, None).with_proxy(Some(proxy.clone()));
                Box::pin(async move {
                    let connected = to.connect(ConnectionUse::Requests).await?;
                    Ok(Box::new(connected.io) as Box<_>)
                })
            }))
        });
        let (patience, sizes) =
            (flags.storage.health_timeouts()?, flags.storage.size_poll_interval()?);
        let compaction = self.compaction;
        Ok(EtcdConfig {
            endpoints,
            tls,
            prefix,
            compaction,
            lease_reuse,
            health_timeouts: patience,
            size_poll_interval: sizes,
            dial,
        })
    }

    /// Every built-in resource, with whether it is served and with the feature gates.
    pub(crate) fn kinds(&self) -> Vec<ResourceDefinition> {
        let kinds = api::builtin_resources().into_iter().map(|mut kind| {
            let names = &kind.names;
            kind.served = self.serves(names.group, names.version, kind.enabled_by_default)
                && kind.feature_gate.is_none_or(|gate| self.gates.is_enabled(gate))
                && self.is_emulated(&kind);
            kind.feature_gates = self.gates.clone();
            if kind.ttl.is_some() {
                kind.ttl = Some(self.event_ttl); // only events have a TTL
            }
            kind
        });
        kinds.collect()
    }

    /// Whether `--runtime-config` enables a group version.
    pub(crate) fn serves(&self, group: &str, version: &str, default: bool) -> bool {
        let group = if group.is_empty() { "api".to_owned() } else { group.to_owned() };
        let exact = format!("{group}/{version}");
        let channel = if version.contains("alpha") {
            "api/alpha"
        } else if version.contains("beta") {
            "api/beta"
        } else {
            "api/ga"
        };
        let said = |name: &str| {
            self.flags.runtime_config.iter().rev().find_map(|entry| {
                let (key, value) = entry.split_once('=').unwrap_or((entry, "true"));
                (key == name).then_some(value == "true" || value.is_empty())
            })
        };
        said(&exact).or(said(channel)).or(said("api/all")).unwrap_or(default)
    }
}

/// Validates each group of flags, and the combinations.
fn check(flags: &Flags) -> Result<()> {
    for mode in &flags.authorization_mode {
        ensure!(
            MODES.contains(&mode.as_str()),
            "--authorization-mode: {mode:?} is not supported; these are: {}",
            MODES.join(", ")
        );
    }
    ensure!(
        flags.tls_cert_file.is_some() == flags.tls_private_key_file.is_some(),
        "--tls-cert-file and --tls-private-key-file go together"
    );
    ensure!(
        flags.authentication_config.is_none() || !flags.oidc.any(),
        "authentication-config file and oidc-* flags are mutually exclusive"
    );
    flags.oidc.configuration()?;
    flags.connections.check()?;
    flags.accounts.check()?;
    flags.general.check()?;
    flags.unsupported.check()?;
    flags.audit.check()?;
    flags.storage.check()?;
    flags.metrics.allowed()?;
    issuers(&flags.service_account_issuer)?;
    ensure!(
        flags.accounts.signing_endpoint().is_none()
            || (flags.service_account_signing_key_file.is_none()
                && flags.service_account_key_file.is_empty()),
        "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` \
         with `--service-account-signing-endpoint` (They are mutually exclusive)"
    );
    Ok(())
}

/// Applies `--admission-control`, which names all plugins that run.
fn only_plugins(flags: &mut Flags) -> Result<()> {
    if flags.admission_control.is_empty() {
        return Ok(());
    }
    ensure!(
        flags.enable_admission_plugins.is_empty() && flags.disable_admission_plugins.is_empty(),
        "admission-control and enable-admission-plugins/disable-admission-plugins flags are \
         mutually exclusive"
    );
    let given = &flags.admission_control;
    let unknown = given.iter().find(|name| !admission::names().any(|own| own == *name));
    if let Some(name) = unknown {
        bail!("admission-control plugin {name:?} is unknown");
    }
    flags.enable_admission_plugins = given.clone();
    let others = admission::names().filter(|own| !given.iter().any(|name| name == own));
    flags.disable_admission_plugins = others.map(str::to_owned).collect();
    Ok(())
}

fn issuers(issuers: &[String]) -> Result<()> {
    for (at, issuer) in issuers.iter().enumerate() {
        ensure!(!issuer.is_empty(), "service-account-issuer should not be an empty string");
        ensure!(
            !issuers[..at].contains(issuer),
            "service-account-issuer {issuer:?} is already specified"
        );
    }
    Ok(())
}

/// Rejects a CA that is both a client CA and the front proxies' CA without allowed names: every
/// client could then act as a proxy for any user.
fn check_ca_overlap(flags: &Flags) -> Result<()> {
    let (Some(clients), Some(proxies)) =
        (&flags.client_ca_file, &flags.requestheader_client_ca_file)
    else {
        return Ok(());
    };
    let read = |path: &Path| anyhow::Ok(pki::certificates(&reload::read(path)?)?);
    let (clients, proxies) = (read(clients)?, read(proxies)?);
    ensure!(
        !flags.requestheader_allowed_names.is_empty()
            || !clients.iter().any(|own| proxies.contains(own)),
        "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
    );
    Ok(())
}

/// Parses a duration in Go's format, such as `2m0s`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let nanos =
        object::Duration::parse_nanos(text).map_err(|why| anyhow::anyhow!("{text:?}: {why}"))?;
    Ok(Duration::from_nanos(u64::try_from(nanos).context("a duration cannot be negative")?))
}

/// Parses `--etcd-compaction-interval`; 0 means `None`.
fn compaction(text: &str) -> Result<Option<Duration>> {
    let wrong = |why| anyhow::anyhow!("--etcd-compaction-interval: {why}");
    let nanos = if text == "0" { 0 } else { object::Duration::parse_nanos(text).map_err(wrong)? };
    Ok(u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos))
}

fn service_ranges(text: &str) -> Result<Vec<ServiceCidr>> {
    let ranges = text.split(',').map(|one| one.trim().parse::<ServiceCidr>());
    let ranges = ranges.collect::<Result<Vec<_>>>().context("--service-cluster-ip-range")?;
    ensure!(ranges.len() <= 2, "--service-cluster-ip-range must not contain more than two entries");
    ensure!(
        ranges.len() < 2 || ranges[0].family() != ranges[1].family(),
        "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"
    );
    Ok(ranges)
}

fn ports(text: &str) -> Result<RangeInclusive<i32>> {
    let Some((first, last)) = text.split_once('-') else {
        bail!("--service-node-port-range: {text:?} is no range: say FIRST-LAST");
    };
    let (first, last) = (first.parse::<u16>()?, last.parse::<u16>()?);
    ensure!(first > 0 && first <= last, "--service-node-port-range: {text:?} is empty");
    Ok(i32::from(first)..=i32::from(last))
}
