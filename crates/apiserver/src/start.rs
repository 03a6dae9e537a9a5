//! Starts a server from its configuration.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use api::{Lease, Node};
use client::PipeConnector;
use object::{Clock, Status, SystemClock};
use pki::ClusterPki;
use schema::{Kind as _, custom::CelRuleCompiler};
use server::{AuditBackend, Listener, Registry, RouteTable, Server, UserInfo};
use tokio::{
    net::{TcpListener, UnixListener},
    time::timeout,
};
use tracing::warn;

use crate::{
    Config, Flags, ListenerSource, ServerEnvironment,
    accounts::{self, TokenSigning},
    admission,
    aggregation::{self, ApiAggregator},
    at_rest::EncryptionAtRest,
    audit,
    authz::{AuthorizerBuilder, Rbac},
    bootstrap::{PublishedInfo, bootstrap, publish, publish_with_retry},
    config::duration,
    crds::{ConversionWebhooks, CrdController},
    expressions,
    features::{CBOR, CLOSE_ANONYMOUS, FeatureMetrics, NATIVE_HISTOGRAMS, STREAMS_NEED_CREATE},
    flow::{self, PriorityAndFairness},
    handlers::{self, Debug, HandlerDependencies, KubeletClient, Logs},
    health::{StartupProgress, StartupStep},
    identities,
    peers::{PeerRegistration, ServerIdentity},
    reload::Task,
    service_allocator::{AllocationRepair, AllocatorMetricsSource, ServiceAllocator},
    serving::{self, ServingCertificates},
    traces,
};

/// Timeout for removing this server from the endpoints when it stops.
const GOODBYE: Duration = Duration::from_secs(3);

/// A running server, and what other components in the process need of it.
#[derive(Debug)]
pub struct RunningServer {
    pub server: Arc<Server>,
    pub cluster: Arc<ClusterPki>,
    pub advertise: IpAddr,
    pub port: u16,
    /// The cluster IP of the `kubernetes` Service.
    pub service_ip: IpAddr,
    peer: PeerRegistration,
}

impl RunningServer {
    /// A connection within the process, authenticated as this user.
    pub fn pipe(&self, user: UserInfo) -> PipeConnector {
        let (pipe, ends) = PipeConnector::new();
        self.server.listen(Listener::Pipe(ends, Some(Arc::new(user))));
        pipe
    }

    /// A connection within the process that is not authenticated; requests need credentials or are
    /// anonymous.
    pub fn open_pipe(&self) -> PipeConnector {
        let (pipe, ends) = PipeConnector::new();
        self.server.listen(Listener::Pipe(ends, None));
        pipe
    }

    /// Serves a unix socket; connections of this uid are authenticated as this user.
    pub fn socket(&self, listener: UnixListener, user: UserInfo, uid: u32) {
        self.server.listen(Listener::Unix(listener, Arc::new(user), uid));
    }

    /// A kubeconfig with a new client certificate of this user.
    pub fn kubeconfig(&self, user: &str, groups: &[&str], server: &str) -> Result<String> {
        let file = serving::kubeconfig(&self.cluster, user, groups, (server, SystemClock.now()))?;
        Ok(object::yaml::to_yaml(&file))
    }

    /// Removes this server from the endpoints, and stops it.
    pub async fn stop(&self) {
        let left = timeout(GOODBYE, self.peer.leave(&self.server.registry)).await;
        if !matches!(left, Ok(Ok(()))) {
            warn!("cannot delete the lease of this API server; it will expire");
        }
        self.server.stop(Duration::from_secs(10)).await;
    }
}

/// Starts a server. It serves requests when this returns.
pub async fn start(config: Config) -> Result<RunningServer> {
    start_with(config, ServerEnvironment::default()).await
}

/// Like `start`, on a listener that is already open.
pub async fn start_on(config: Config, listener: Option<TcpListener>) -> Result<RunningServer> {
    let entry = listener.map_or(ListenerSource::Port, ListenerSource::Listener);
    start_with(config, ServerEnvironment { entry, ..ServerEnvironment::default() }).await
}

/// Like `start`, with another environment than the flags say.
#[expect(clippy::too_many_lines, reason = "all parts, one after the other")]
pub async fn start_with(config: Config, ground: ServerEnvironment) -> Result<RunningServer> {
    let ServerEnvironment { storage, entry, clock } = ground;
    let flags = &config.flags;
    for part in ["pki", "store", "kubeconfig"] {
        private(&flags.data_dir.join(part))?;
    }
    let listener = entry.listen(&config)?;
    let port = match &listener {
        Some(listener) => listener.local_addr()?.port(),
        None => flags.secure_port,
    };
    let advertise = flags.advertise_address.unwrap_or_else(own_address);
    let address = SocketAddr::new(advertise, port);
    let service_ip = config.services[0].first();
    let mut names = serving::server_names(advertise, [service_ip]);
    for name in &config.further_names {
        match name.parse() {
            Ok(ip) => names.ips.push(ip),
            Err(_) => names.dns.push(name.clone()),
        }
    }
    let serving =
        ServingCertificates::open(&config, names, listener.is_some().then_some(port), &clock)?;
    let cluster = serving.cluster.clone();

    install_cel_compiler(&config);
    let compile: Arc<dyn CelRuleCompiler> = Arc::new(cel::CrdRuleCompiler);
    let opened = storage.open(&config, &clock, &compile)?;
    let registry = opened.registry.clone();
    registry.lack(config.lacking.iter().copied());
    let services = ServiceAllocator::open(&registry, &config.services, config.node_ports.clone())?;
    let services = Arc::new(services);
    registry.set_allocator(services.clone());
    let signer = TokenSigning::open(&config, &clock).await?;
    let (mut server, followers) =
        build_server(&config, &registry, &serving, (address, &clock), &signer)?;
    if let Some(signer) = signer.external {
        server.metrics_sources.push(signer.clone());
        server.background(signer.run_key_refresh());
    }
    server.metrics_sources.extend(opened.reports.iter().cloned());
    server.metrics_sources.push(Arc::new(AllocatorMetricsSource {
        registry: registry.clone(),
        services: services.clone(),
    }));
    let progress = add_health_checks(&mut server, flags, &serving, &clock);

    let mut repair = AllocationRepair::new(&services);
    repair.ports(&registry).await.map_err(failed("node ports"))?;
    let (peer, later) =
        bootstrap_cluster(&config, &registry, &cluster, (address, &progress)).await?;
    later.into_iter().for_each(|later| server.background(later));
    server.background(peer.clone().run(Arc::downgrade(&registry)));
    enable_priority_and_fairness(&mut server, flags);
    progress.done(&[StartupStep::FlowControl]);
    aggregate(&mut server, &config);
    repair.addresses(&registry).await.map_err(failed("addresses of services"))?;
    server.background(repair.run(Arc::downgrade(&registry)));
    progress.done(&[
        StartupStep::AddressRepair,
        StartupStep::LocalServices,
        StartupStep::RemoteServices,
    ]);
    let Auditing { auditor, sender, drain } = auditor(&config)?;
    if let Some(auditor) = &auditor {
        server.metrics_sources.push(auditor.clone());
    }
    server.audit = auditor.map(|auditor| auditor as Arc<dyn AuditBackend>);
    let custom = CrdController::open(&registry, compile)
        .map_err(|status| anyhow::anyhow!("custom kinds: {}", status.message()))?;
    if let Some(interval) = config.compaction {
        server.background(opened.run_compaction(interval));
    }
    if let Some(at_rest) = opened.at_rest {
        start_encryption_reload(&mut server, at_rest);
    }
    server.keep_small();
    let spans = traced(&mut server, &config, (&clock, port))?;
    let server = Arc::new(server);
    if let Some(spans) = spans {
        server.spawn(spans.run(server.stopped()));
    }
    custom.run(&server);
    progress.done(&[StartupStep::CustomKinds]);
    if let Some(sender) = sender {
        sender.start(&server);
    }
    if let Some(drain) = drain {
        server.spawn(drain.run(server.stopped()));
    }
    if let Some(listener) = listener {
        server.listen(Listener::Tls(listener, serving.tls.clone()));
    }
    for task in followers {
        server.background(task);
    }
    server.background(serving.run(Arc::downgrade(&registry)));
    progress.done(&[StartupStep::ProxyCertificate]);
    Ok(RunningServer { server, cluster, advertise, port, service_ip, peer })
}

/// Installs the CEL compiler and the verifier that validation in the `api` crate needs.
fn install_cel_compiler(config: &Config) {
    let lists = config.gates.is_enabled("DRAListTypeAttributes");
    let start = if lists { expressions::start_with_lists } else { expressions::start };
    api::expression::install_compiler(start);
    api::possession::install_verifier(pki::verify_proof_of_possession);
}

/// Builds the server with authentication, authorization and admission, and the tasks that reload
/// their files.
fn build_server(
    config: &Config,
    registry: &Arc<Registry>,
    serving: &ServingCertificates,
    (address, clock): (SocketAddr, &Arc<dyn Clock>),
    signer: &TokenSigning,
) -> Result<(Server, Vec<Task>)> {
    let (flags, cluster) = (&config.flags, &serving.cluster);
    registry.set_converter(Arc::new(ConversionWebhooks::new(registry, config.egress.clone())));
    if config.gates.is_enabled(CBOR) {
        registry.store_cbor();
    }
    let slot = Arc::new(OnceLock::from(registry.clone()));
    let rbac = Rbac::new(registry);
    let makings = AuthorizerBuilder {
        config: config.clone(),
        rbac: rbac.clone(),
        registry: registry.clone(),
    };
    let (authorizers, follow_authorizers) = makings.build()?;
    let rights = admission::AuthorizerChain(authorizers.clone());
    let hooks = Arc::new(admission::HookTally::default());
    let policies = Arc::new(admission::PolicyTally::default());
    let pod_security = Arc::new(admission::PodSecurityTally::default());
    let (plugins, identity) = (config.plugins.clone(), own_identity(address.port()));
    let sources = admission::ManifestSources::new(plugins, registry.clone(), identity.name());
    let manifests = Arc::new(sources);
    let conditions = Arc::new(admission::WebhookMatchConditions::new(rights.clone()));
    let tools = admission::PluginDependencies {
        hooks: hooks.clone(),
        policies: policies.clone(),
        pod_security: pod_security.clone(),
        rbac: rbac.clone(),
        authorizer: rights.clone(),
        configs: config.plugins.clone(),
        manifests: manifests.clone(),
        egress: config.egress.clone(),
        gates: config.gates.clone(),
        tolerations: [
            flags.general.default_not_ready_toleration_seconds,
            flags.general.default_unreachable_toleration_seconds,
        ],
        conditions: conditions.clone(),
    };
    let (enabled, disabled) = (&flags.enable_admission_plugins, &flags.disable_admission_plugins);
    registry.set_admission_plugins(admission::plugins(&tools, enabled, disabled)?);

    let accounts = signer.authenticator(config, cluster, slot.clone(), clock)?;
    let issuer = accounts::issuer(flags, accounts.clone(), address);
    let mut server = Server::new(registry.clone(), server_config(config, address)?);
    let (authenticators, follow_authenticators) =
        identities::authenticators(config, &serving.believed, accounts.clone(), &slot, clock)?;
    let enabled = FeatureMetrics { gates: config.gates.clone(), emulation: config.emulation };
    let left = serving.believed.left.clone();
    server.metrics_sources = vec![
        hooks,
        policies,
        pod_security,
        manifests.report(),
        Arc::new(enabled),
        left,
        accounts.clone(),
        Arc::new(config.egress.pool.clone()),
        conditions,
    ];
    let logs = Arc::<handlers::PodLogMetrics>::default();
    server.metrics_sources.push(logs.clone());
    server.authenticators = authenticators;
    server.authorizers = authorizers;
    let tools = HandlerDependencies {
        tokens: signer.token_request_handler(config)?,
        accounts,
        rbac,
        kubelets: kubelets(config, logs)?,
        component_ports: config.component_ports,
    };
    server.routes = RouteTable::derive(server.registry.kinds(), handlers::handlers(&tools))?;
    server.path_handlers = handlers::paths(issuer, clock.now(), flags.as_given.all::<Flags>());
    if flags.general.enable_logs_handler {
        server.path_handlers.insert("logs", Arc::new(Logs { folder: "/var/log".into() }));
    }
    server.subresource_kinds = handlers::subresource_kinds();
    let followers = [follow_authenticators, follow_authorizers].into_iter().flatten();
    Ok((server, followers.chain(manifests.watch_tasks()).collect()))
}

/// The client for kubelets.
fn kubelets(config: &Config, logs: Arc<handlers::PodLogMetrics>) -> Result<KubeletClient> {
    let flags = &config.flags;
    Ok(KubeletClient {
        tls: serving::to_kubelets(flags),
        by_name: config.kubelets_by_name,
        addresses: flags.general.kubelet_preferred_address_types.clone(),
        timeout: flags.general.kubelet_timeout()?,
        egress_proxy: config.egress.cluster.clone(),
        logs,
        streams_need_create: config.gates.is_enabled(STREAMS_NEED_CREATE),
    })
}

/// Adds the health checks; returns the progress of the start, which they report.
fn add_health_checks(
    server: &mut Server,
    flags: &Flags,
    serving: &ServingCertificates,
    clock: &Arc<dyn Clock>,
) -> StartupProgress {
    let progress = StartupProgress::default();
    let (ends, now) = (serving.ends.clone(), clock.clone());
    let expiry = move || match ends.load(Ordering::Acquire) > now.now() {
        true => Ok(()),
        false => Err("the certificate has expired".to_owned()),
    };
    let proxied = flags.proxy_client_cert_file.is_some();
    server.health_checks.splice(0..0, progress.checks(&server.registry, expiry, proxied));
    progress.done(&[StartupStep::Storage, StartupStep::Admission]);
    progress
}

/// Enables the aggregation layer.
fn aggregate(server: &mut Server, config: &Config) {
    let rejects = config.flags.general.aggregator_reject_forwarding_redirect;
    let aggregation = Arc::new(ApiAggregator::new(
        &server.registry,
        serving::to_aggregated(&config.flags),
        (rejects, config.egress.clone()),
    ));
    server.aggregate = Some(aggregation.clone());
    server.metrics_sources.push(aggregation.clone());
    server.background(aggregation::run(aggregation));
}

/// Enables tracing, if it is configured; returns the exporter of the spans.
fn traced(
    server: &mut Server,
    config: &Config,
    (clock, port): (&Arc<dyn Clock>, u16),
) -> Result<Option<traces::SpanExporter>> {
    let Some(tracing) = &config.tracing else { return Ok(None) };
    let through = config.egress.control_plane.clone();
    let (tracer, spans) = tracing.open(own_identity(port).name(), clock, through)?;
    server.tracer = Some(tracer);
    Ok(Some(spans))
}

/// Enables API Priority and Fairness.
fn enable_priority_and_fairness(server: &mut Server, flags: &Flags) {
    let registry = server.registry.clone();
    let mut debug = Debug { profiling: flags.general.profiling, fairness: None };
    if flags.enable_priority_and_fairness {
        let seats = flags.max_requests_inflight + flags.max_mutating_requests_inflight;
        let fairness = Arc::new(PriorityAndFairness::new(&registry, seats));
        server.flow = Some(fairness.clone());
        server.metrics_sources.push(fairness.clone());
        debug.fairness = Some(Arc::new(flow::Dump(fairness.clone())));
        server.background(fairness.run_borrowing());
    }
    server.path_handlers.insert("debug", Arc::new(debug));
    server.background(flow::tell_dangling(Arc::downgrade(&registry)));
}

/// Starts reloading of the encryption configuration, and adds the health check of the KMS.
fn start_encryption_reload(server: &mut Server, at_rest: EncryptionAtRest) {
    let encryption = at_rest.encryption.clone();
    if encryption.uses_kms() {
        let health = move || encryption.health();
        server.health_checks.push(server::HealthCheck::new(
            "kms-providers",
            server::ProbeScope::All,
            health,
        ));
    }
    server.background(at_rest.run_reload(server.registry.clone()));
}

/// Converts the failure of a startup step to an error.
fn failed(what: &'static str) -> impl FnOnce(Status) -> anyhow::Error {
    move |status| anyhow::anyhow!("{what}: {}", status.message())
}

/// Creates the bootstrap objects, and registers this server among its peers.
async fn bootstrap_cluster(
    config: &Config,
    registry: &Arc<Registry>,
    cluster: &ClusterPki,
    (address, progress): (SocketAddr, &StartupProgress),
) -> Result<(PeerRegistration, Option<Task>)> {
    let namespaces = registry.kind("", "namespaces").map_err(failed("bootstrap"))?;
    let namespaces = namespaces.objects().map_err(failed("bootstrap"))?;
    let is_new = namespaces.is_empty();
    bootstrap(registry).await.map_err(failed("bootstrap"))?;
    progress.done(&[
        StartupStep::Namespaces,
        StartupStep::PriorityClasses,
        StartupStep::FlowObjects,
        StartupStep::Roles,
    ]);
    let facts = PublishedInfo {
        port: address.port(),
        service_ip: config.services[0].first(),
        service_ranges: config.services.iter().map(ToString::to_string).collect(),
        authorities: serving::authorities(&config.flags, cluster)?,
        flags: config.flags.clone(),
    };
    let settle = progress.clone();
    let published = move || {
        settle.done(&[
            StartupStep::ServiceRanges,
            StartupStep::Authentication,
            StartupStep::TokenTracking,
        ]);
    };
    let later: Option<Task> = match publish(registry, &facts).await {
        Ok(()) => {
            published();
            None
        }
        // A webhook may reject it, perhaps because it is not running yet; so this is retried in the
        // background.
        Err(status) => {
            warn!(error = status.message(), "cannot create all bootstrap objects yet; will retry");
            Some(Box::pin(publish_with_retry(Arc::downgrade(registry), facts, published)))
        }
    };
    let mut peer = PeerRegistration::new(
        registry,
        (address.ip(), address.port()),
        own_identity(address.port()),
    )?;
    peer.is_endpoint = config.flags.general.endpoint_reconciler_type != "none";
    peer.join(registry).await.map_err(failed("the endpoints of kubernetes"))?;
    if is_new {
        registry.set_oldest_revision(namespaces.progress_revision());
    }
    progress.done(&[StartupStep::Service, StartupStep::Identity, StartupStep::Collector]);
    Ok((peer, later))
}

/// The audit backend, and the tasks that send and write its queued events.
#[derive(Debug, Default)]
struct Auditing {
    auditor: Option<Arc<audit::Auditor>>,
    sender: Option<audit::Sender>,
    drain: Option<audit::BufferedWriter>,
}

/// Builds the audit backend that the flags configure.
fn auditor(config: &Config) -> Result<Auditing> {
    let flags = &config.flags;
    let mut auditing = Auditing::default();
    let Some(policy) = &flags.audit_policy_file else { return Ok(auditing) };
    let mut sinks: Vec<(Arc<dyn audit::AuditSink>, bool)> = Vec::new();
    if let Some(path) = &flags.audit_log_path {
        let rotation = audit::Rotation {
            megabytes: flags.audit_log_maxsize,
            backups: flags.audit_log_maxbackup,
            days: flags.audit_log_maxage,
            compress: flags.audit.audit_log_compress,
        };
        let legacy = flags.audit.audit_log_format == "legacy";
        let file = Arc::new(audit::LogFile::open(path, rotation, legacy)?);
        let sink: Arc<dyn audit::AuditSink> = match flags.audit.log_batching()? {
            Some(batching) => {
                let (queued, drain) = audit::BufferedSink::new(file, batching);
                auditing.drain = Some(drain);
                queued
            }
            None => file,
        };
        let strict = flags.audit.audit_log_mode == "blocking-strict";
        sinks.push((cut(sink, flags.audit.log_largest()), strict));
    }
    if let Some(path) = &flags.audit_webhook_config_file {
        let wait = duration(&flags.audit_webhook_batch_max_wait)?;
        let batching = flags.audit.webhook_batching(flags.audit_webhook_batch_max_size, wait)?;
        let remote = crate::remote::from_kubeconfig(path, &config.egress)?;
        let (webhook, sender) = audit::AuditWebhook::new(remote, batching, flags.audit.backoff()?);
        sinks.push((cut(webhook, flags.audit.webhook_largest()), false));
        auditing.sender = Some(sender);
    }
    auditing.auditor = Some(Arc::new(audit::Auditor::new(policy, sinks)?));
    Ok(auditing)
}

/// Truncates the events for a sink, if sizes are given.
fn cut(to: Arc<dyn audit::AuditSink>, sizes: Option<(usize, usize)>) -> Arc<dyn audit::AuditSink> {
    match sizes {
        Some((_, largest)) => Arc::new(audit::TruncatingSink { to, largest }),
        None => to,
    }
}

/// Creates a directory that only this user can access.
fn private(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(())
}

/// The address of this host on the network: the source address of its default route.
fn own_address() -> IpAddr {
    let probe = || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("192.0.2.1:9")?; // sends nothing, only looks up the route
        socket.local_addr()
    };
    probe().map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip())
}

/// The requests that keep a crowded cluster alive: without them its nodes would be lost.
const ESSENTIAL: &[(&str, &str)] = &[(Lease::NAMES.plural, ""), (Node::NAMES.plural, "status")];

fn server_config(config: &Config, advertise: SocketAddr) -> Result<server::Config> {
    let (flags, connections) = (&config.flags, &config.flags.connections);
    let identity_headers = server::IdentityHeaders::default().and(
        &[
            &flags.requestheader_username_headers,
            &flags.requestheader_uid_headers,
            &flags.requestheader_group_headers,
        ],
        &flags.requestheader_extra_headers_prefix,
    );
    let limits = server::Limits {
        max_requests_in_flight: config.flags.max_requests_inflight,
        max_mutating_in_flight: config.flags.max_mutating_requests_inflight,
        deletions: config.flags.storage.delete_collection_workers,
        essential: ESSENTIAL,
        ..connections.limits()?
    };
    Ok(server::Config {
        limits,
        anonymous: false, // the anonymous authenticator handles them
        advertise: advertise.to_string(),
        http_policy: connections.edge()?,
        identity_headers,
        close_anonymous: config.gates.is_enabled(CLOSE_ANONYMOUS),
        shutdown: connections.shutdown()?,
        cbor: config.gates.is_enabled(CBOR),
        native_histograms: config.gates.is_enabled(NATIVE_HISTOGRAMS),
        version: config.flags.general.reported_version()?.to_owned(),
        emulation: (config.emulation.version, config.emulation.min_compatibility),
        allowed_labels: config.flags.metrics.allowed()?,
        export_object_counts: config.flags.storage.export_object_counts()?,
        disabled_metrics: config.flags.general.disabled_metrics.clone(),
        ..server::Config::default()
    })
}

/// The identity of this server: its host name, and its port if that is not 6443.
fn own_identity(port: u16) -> ServerIdentity {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let more = if port == 6443 { String::new() } else { format!(":{port}") };
    ServerIdentity::new(host.trim(), &more)
}
