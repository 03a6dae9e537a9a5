//! From a configuration to a running server.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use client::Pipe;
use object::{Clock, Status, SystemClock};
use pki::{Cluster, PublicKey, Signer, Verifier};
use schema::custom::CompileRules;
use server::{Audit, Listening, Registry, Server, User};
use tokio::{
    net::{TcpListener, UnixListener},
    time::timeout,
};
use tracing::warn;

use crate::{
    Config, Entry, Flags, Ground, admission,
    aggregation::{self, Aggregation},
    allocate::{Repair, Services},
    at_rest::AtRest,
    audit,
    authn::ServiceAccounts,
    authz::{Makings, Rbac},
    bootstrap::{Facts, bootstrap, publish},
    config::duration,
    crds::{Crds, Webhooks},
    expressions,
    external_signer::ExternalSigner,
    features::CBOR,
    flow::{self, Fairness},
    handlers::{self, Debug, Issuer, Kubelets, TokenSigner, Tokens, Tools},
    health::{Part, Progress},
    identities,
    peers::{Identity, Peer},
    reload::Task,
    serving::{self, Serving},
};

/// How long others are told that a server goes away.
const GOODBYE: Duration = Duration::from_secs(3);

/// A server that runs, and what others in the process need of it.
#[derive(Debug)]
pub struct Running {
    pub server: Arc<Server>,
    pub cluster: Arc<Cluster>,
    pub advertise: IpAddr,
    pub port: u16,
    /// The address of the `kubernetes` service.
    pub service_ip: IpAddr,
    peer: Peer,
}

impl Running {
    /// A connection within the process, as this user.
    pub fn pipe(&self, user: User) -> Pipe {
        let (pipe, ends) = Pipe::new();
        self.server.listen(Listening::Pipe(ends, Some(Arc::new(user))));
        pipe
    }

    /// A connection within the process whose caller says who it is, or is nobody.
    pub fn open_pipe(&self) -> Pipe {
        let (pipe, ends) = Pipe::new();
        self.server.listen(Listening::Pipe(ends, None));
        pipe
    }

    /// A socket whose callers, if they have this uid, are this user.
    pub fn socket(&self, listener: UnixListener, user: User, uid: u32) {
        self.server.listen(Listening::Unix(listener, Arc::new(user), uid));
    }

    /// A kubeconfig that shows a new certificate of this user.
    pub fn kubeconfig(&self, user: &str, groups: &[&str], server: &str) -> Result<String> {
        serving::kubeconfig(&self.cluster, user, groups, (server, SystemClock.now()))
    }

    /// Tells the others that this server goes away, and ends it.
    pub async fn stop(&self) {
        let left = timeout(GOODBYE, self.peer.leave(&self.server.registry)).await;
        if !matches!(left, Ok(Ok(()))) {
            warn!("others could not be told that this server goes away: they will find out");
        }
        self.server.stop(Duration::from_secs(10)).await;
    }
}

/// Starts a server. It answers when this returns.
pub async fn start(config: Config) -> Result<Running> {
    start_with(config, Ground::default()).await
}

/// The same, on a port that somebody has opened already.
pub async fn start_on(config: Config, listener: Option<TcpListener>) -> Result<Running> {
    let entry = listener.map_or(Entry::Port, Entry::Listener);
    start_with(config, Ground { entry, ..Ground::default() }).await
}

/// The same, on other ground than the flags say.
pub async fn start_with(config: Config, ground: Ground) -> Result<Running> {
    let Ground { storage, entry, clock } = ground;
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
    let service_ip = config.services[0].first();
    let names = serving::server_names(advertise, [service_ip]);
    let serving = Serving::open(&config, names, listener.is_some().then_some(port), &clock)?;
    let cluster = serving.cluster.clone();

    install(&config);
    let compile: Arc<dyn CompileRules> = Arc::new(cel::Rules);
    let opened = storage.open(&config, &clock, &compile)?;
    let registry = opened.registry.clone();
    let services = Services::open(&registry, &config.services, config.node_ports.clone())?;
    let services = Arc::new(services);
    registry.claim_with(services.clone());
    let signer = signer(&config, &clock).await?;
    let (mut server, followers) =
        wired(&config, &registry, &serving, (SocketAddr::new(advertise, port), &clock), &signer)?;
    if let Some(signer) = signer.external {
        server.reports.push(signer.clone());
        server.background(signer.follow());
    }
    server.reports.extend(opened.reports.iter().cloned());
    let progress = Progress::default();
    let (ends, now) = (serving.ends.clone(), clock.clone());
    let expiry = move || match ends.load(Ordering::Acquire) > now.now() {
        true => Ok(()),
        false => Err("the certificate has expired".to_owned()),
    };
    let proxied = flags.proxy_client_cert_file.is_some();
    server.checks.splice(0..0, progress.checks(&registry, expiry, proxied));
    progress.done(&[Part::Storage, Part::Admission]);

    let mut repair = Repair::new(&services);
    repair.ports(&registry).await.map_err(failed("node ports"))?;
    let peer = settled(&config, &registry, &cluster, (SocketAddr::new(advertise, port), &progress))
        .await?;
    server.background(peer.clone().run(Arc::downgrade(&registry)));
    share(&mut server, flags);
    progress.done(&[Part::FlowControl]);
    let aggregation = Arc::new(Aggregation::new(&registry, serving::to_aggregated(flags)));
    server.aggregate = Some(aggregation.clone());
    server.background(aggregation::run(aggregation));
    repair.addresses(&registry).await.map_err(failed("addresses of services"))?;
    server.background(repair.run(Arc::downgrade(&registry)));
    progress.done(&[Part::AddressRepair, Part::LocalServices, Part::RemoteServices]);
    let Auditing { auditor, sender, drain } = auditor(&config)?;
    if let Some(auditor) = &auditor {
        server.reports.push(auditor.clone());
    }
    server.audit = auditor.map(|auditor| auditor as Arc<dyn Audit>);
    let custom = Crds::open(&registry, compile)
        .map_err(|status| anyhow::anyhow!("custom kinds: {}", status.message()))?;
    if let Some(interval) = config.compaction {
        server.background(opened.forget(interval));
    }
    if let Some(at_rest) = opened.at_rest {
        keep_secret(&mut server, at_rest);
    }
    let server = Arc::new(server);
    custom.run(&server);
    progress.done(&[Part::CustomKinds]);
    if let Some(sender) = sender {
        sender.start(&server);
    }
    if let Some(drain) = drain {
        server.spawn(drain.run(server.stopped()));
    }
    if let Some(listener) = listener {
        server.listen(Listening::Tls(listener, serving.tls.clone()));
    }
    for task in followers {
        server.background(task);
    }
    server.background(serving.run(Arc::downgrade(&registry)));
    progress.done(&[Part::ProxyCertificate]);
    Ok(Running { server, cluster, advertise, port, service_ip, peer })
}

/// Gives the kinds what their rules need of others.
fn install(config: &Config) {
    let lists = config.gates.is_on("DRAListTypeAttributes");
    let compile = if lists { expressions::compile_with_lists } else { expressions::compile };
    api::expression::install(compile);
    api::possession::install(pki::possesses);
}

/// A server with all who decide on its requests, and what follows their files.
fn wired(
    config: &Config,
    registry: &Arc<Registry>,
    serving: &Serving,
    (address, clock): (SocketAddr, &Arc<dyn Clock>),
    signer: &AccountSigner,
) -> Result<(Server, Vec<Task>)> {
    let (flags, cluster) = (&config.flags, &serving.cluster);
    registry.convert_with(Arc::new(Webhooks::new(registry)));
    if config.gates.is_on(CBOR) {
        registry.store_cbor();
    }
    let slot = Arc::new(OnceLock::from(registry.clone()));
    let rbac = Rbac::new(registry);
    let makings =
        Makings { config: config.clone(), rbac: rbac.clone(), registry: registry.clone() };
    let (authorizers, follow_authorizers) = makings.authorizers()?;
    let rights = admission::Rights(authorizers.clone());
    let hooks = Arc::new(admission::HookTally::default());
    let policies = Arc::new(admission::PolicyTally::default());
    let pod_security = Arc::new(admission::PodSecurityTally::default());
    let identity = own_identity(address.port());
    let manifests = Arc::new(admission::ManifestSources::new(
        config.plugins.clone(),
        registry.clone(),
        identity.name(),
    ));
    let tools = admission::Tools {
        hooks: hooks.clone(),
        policies: policies.clone(),
        pod_security: pod_security.clone(),
        rbac: rbac.clone(),
        rights: rights.clone(),
        configs: config.plugins.clone(),
        manifests: manifests.clone(),
        gates: config.gates.clone(),
        tolerations: [
            flags.whole.default_not_ready_toleration_seconds,
            flags.whole.default_unreachable_toleration_seconds,
        ],
        conditions: Arc::new(admission::HookConditions::new(rights)),
    };
    let (enabled, disabled) = (&flags.enable_admission_plugins, &flags.disable_admission_plugins);
    registry.admit_with(admission::plugins(&tools, enabled, disabled)?);

    let accounts = accounts(config, cluster, slot.clone(), (clock, signer))?;
    let mut server = Server::new(registry.clone(), server_config(config, address)?);
    let (authenticators, follow_authenticators) =
        identities::authenticators(config, &serving.believed, accounts.clone(), &slot, clock)?;
    server.reports.extend([
        hooks as Arc<dyn server::Report>,
        policies,
        pod_security,
        manifests.report(),
    ]);
    server.authenticators = authenticators;
    server.authorizers = authorizers;
    let issuer = Issuer {
        name: flags.service_account_issuer[0].clone(),
        accounts: accounts.clone(),
        keys_at: keys_at(flags, address),
    };
    let tools = Tools {
        accounts,
        tokens: Tokens {
            signer: Arc::new(match &signer.external {
                Some(external) => TokenSigner::External(external.clone()),
                None => TokenSigner::Own(Signer::new(
                    signing_key(config)?,
                    &flags.service_account_issuer[0],
                )),
            }),
            audiences: audiences(flags),
            longest: signer.longest,
            extends: flags.accounts.service_account_extend_token_expiration,
        },
        rbac,
        kubelets: Kubelets {
            tls: serving::to_kubelets(flags),
            addresses: flags.whole.kubelet_preferred_address_types.clone(),
            within: flags.whole.kubelet_within()?,
        },
    };
    server.handlers = handlers::handlers(&tools);
    server.paths = handlers::paths(issuer, clock.now(), flags.told.all::<Flags>());
    server.parts = handlers::parts();
    let followers = [follow_authenticators, follow_authorizers].into_iter().flatten();
    Ok((server, followers.chain(manifests.follow()).collect()))
}

/// Says whose turn it is when more is asked than can be done at once.
fn share(server: &mut Server, flags: &Flags) {
    let registry = server.registry.clone();
    let mut debug = Debug { profiling: flags.whole.profiling, fairness: None };
    if flags.enable_priority_and_fairness {
        let seats = flags.max_requests_inflight + flags.max_mutating_requests_inflight;
        let fairness = Arc::new(Fairness::new(&registry, seats));
        server.flow = Some(fairness.clone());
        server.reports.push(fairness.clone());
        debug.fairness = Some(Arc::new(flow::Dump(fairness.clone())));
        server.background(fairness.lend());
    }
    server.paths.insert("debug", Arc::new(debug));
    server.background(flow::tell_dangling(Arc::downgrade(&registry)));
}

/// Sees to the keys with which what is stored is encrypted.
fn keep_secret(server: &mut Server, at_rest: AtRest) {
    let encryption = at_rest.encryption.clone();
    if encryption.asks_kms() {
        let health = move || encryption.health();
        server.checks.push(server::Check::new("kms-providers", server::Says::Either, health));
    }
    server.background(at_rest.follow(server.registry.clone()));
}

/// What a step of the start could not do.
fn failed(what: &'static str) -> impl FnOnce(Status) -> anyhow::Error {
    move |status| anyhow::anyhow!("{what}: {}", status.message())
}

/// Makes what every cluster has, and tells the others that this server is there.
async fn settled(
    config: &Config,
    registry: &Arc<Registry>,
    cluster: &Cluster,
    (address, progress): (SocketAddr, &Progress),
) -> Result<Peer> {
    let namespaces = registry.kind("", "namespaces").map_err(failed("bootstrap"))?;
    let namespaces = namespaces.objects().map_err(failed("bootstrap"))?;
    let is_new = namespaces.is_empty();
    bootstrap(registry).await.map_err(failed("bootstrap"))?;
    progress.done(&[Part::Namespaces, Part::PriorityClasses, Part::FlowObjects, Part::Roles]);
    let facts = Facts {
        port: address.port(),
        service_ip: config.services[0].first(),
        service_ranges: config.services.iter().map(ToString::to_string).collect(),
        authorities: serving::authorities(&config.flags, cluster)?,
        flags: config.flags.clone(),
    };
    publish(registry, &facts).await.map_err(failed("the kubernetes service"))?;
    progress.done(&[Part::ServiceRanges, Part::Authentication, Part::TokenTracking]);
    let mut peer =
        Peer::new(registry, (address.ip(), address.port()), own_identity(address.port()))?;
    peer.is_endpoint = config.flags.whole.endpoint_reconciler_type != "none";
    peer.join(registry).await.map_err(failed("the endpoints of kubernetes"))?;
    if is_new {
        registry.begin_history(namespaces.complete_through());
    }
    progress.done(&[Part::Service, Part::Identity, Part::Collector]);
    Ok(peer)
}

/// Who keeps what is told, and what sends and writes what waits.
#[derive(Debug, Default)]
struct Auditing {
    auditor: Option<Arc<audit::Auditor>>,
    sender: Option<audit::Sender>,
    drain: Option<audit::Drain>,
}

/// Who is told what is done, and what sends it to others.
fn auditor(config: &Config) -> Result<Auditing> {
    let flags = &config.flags;
    let mut auditing = Auditing::default();
    let Some(policy) = &flags.audit_policy_file else { return Ok(auditing) };
    let mut sinks: Vec<Arc<dyn audit::Sink>> = Vec::new();
    if let Some(path) = &flags.audit_log_path {
        let rotation = audit::Rotation {
            megabytes: flags.audit_log_maxsize,
            backups: flags.audit_log_maxbackup,
            days: flags.audit_log_maxage,
            compress: flags.audit.audit_log_compress,
        };
        let legacy = flags.audit.audit_log_format == "legacy";
        let file = Arc::new(audit::LogFile::open(path, rotation, legacy)?);
        let sink: Arc<dyn audit::Sink> = match flags.audit.log_batching()? {
            Some(batching) => {
                let (queued, drain) = audit::Queued::new(file, batching);
                auditing.drain = Some(drain);
                queued
            }
            None => file,
        };
        sinks.push(cut(sink, flags.audit.log_largest()));
    }
    if let Some(path) = &flags.audit_webhook_config_file {
        let wait = duration(&flags.audit_webhook_batch_max_wait)?;
        let batching = flags.audit.webhook_batching(flags.audit_webhook_batch_max_size, wait)?;
        let remote = crate::remote::from_kubeconfig(path)?;
        let (webhook, sender) = audit::AuditWebhook::new(remote, batching, flags.audit.backoff()?);
        sinks.push(cut(webhook, flags.audit.webhook_largest()));
        auditing.sender = Some(sender);
    }
    auditing.auditor = Some(Arc::new(audit::Auditor::new(policy, sinks)?));
    Ok(auditing)
}

/// The same, of events that are no larger than they may be.
fn cut(to: Arc<dyn audit::Sink>, sizes: Option<(usize, usize)>) -> Arc<dyn audit::Sink> {
    match sizes {
        Some((_, largest)) => Arc::new(audit::Truncated { to, largest }),
        None => to,
    }
}

/// A folder that nobody else can look into.
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

/// The address that others reach this machine at: the source of its default route.
fn own_address() -> IpAddr {
    let probe = || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("192.0.2.1:9")?; // sends nothing: only asks for the route
        socket.local_addr()
    };
    probe().map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip())
}

fn server_config(config: &Config, advertise: SocketAddr) -> Result<server::Config> {
    let connections = &config.flags.connections;
    let limits = server::Limits {
        reads: config.flags.max_requests_inflight,
        writes: config.flags.max_mutating_requests_inflight,
        ..connections.limits()?
    };
    Ok(server::Config {
        limits,
        anonymous: false, // an authenticator of its own lets them in
        advertise: advertise.to_string(),
        edge: connections.edge()?,
        shutdown: connections.shutdown()?,
        cbor: config.gates.is_on(CBOR),
        disabled_metrics: config.flags.whole.disabled_metrics.clone(),
        ..server::Config::default()
    })
}

/// Who else signs tokens, if anybody, and how long tokens are good at most.
struct AccountSigner {
    external: Option<Arc<ExternalSigner>>,
    longest: Option<Duration>,
}

async fn signer(config: &Config, clock: &Arc<dyn Clock>) -> Result<AccountSigner> {
    let flags = &config.flags;
    let longest = flags.accounts.longest()?;
    let Some(path) = flags.accounts.signing_endpoint() else {
        return Ok(AccountSigner { external: None, longest });
    };
    let signer = ExternalSigner::open(path, &flags.service_account_issuer[0], clock).await?;
    let most = signer.longest;
    let longest = longest.unwrap_or(most);
    let go =
        |time: Duration| object::Duration::text(time.as_nanos().try_into().unwrap_or(i64::MAX));
    ensure!(
        longest <= most,
        "service-account-max-token-expiration cannot be set longer than the token expiration \
         supported by service-account-signing-endpoint: {} > {}",
        go(longest),
        go(most)
    );
    Ok(AccountSigner { external: Some(Arc::new(signer)), longest: Some(longest) })
}

fn accounts(
    config: &Config,
    cluster: &Cluster,
    registry: Arc<OnceLock<Arc<Registry>>>,
    (clock, signer): (&Arc<dyn Clock>, &AccountSigner),
) -> Result<Arc<ServiceAccounts>> {
    let mut keys = cluster.service_account_keys.clone();
    for path in &config.flags.service_account_key_file {
        let pem = fs::read(path)
            .with_context(|| format!("--service-account-key-file {}", path.display()))?;
        for key in PublicKey::all_from_pem(&pem)? {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let issuers = config.flags.service_account_issuer.clone();
    let verifier = Verifier { keys, issuers, audiences: audiences(&config.flags) };
    let lookup = config.flags.accounts.service_account_lookup;
    let external = signer.external.clone();
    Ok(Arc::new(ServiceAccounts { verifier, external, registry, clock: clock.clone(), lookup }))
}

/// What tokens must be meant for.
fn audiences(flags: &Flags) -> Vec<String> {
    match &flags.accounts.api_audiences[..] {
        [] => vec![flags.service_account_issuer[0].clone()],
        given => given.to_vec(),
    }
}

/// Where the keys are that sign tokens.
fn keys_at(flags: &Flags, address: SocketAddr) -> String {
    if let Some(given) = &flags.accounts.service_account_jwks_uri {
        return given.clone();
    }
    let host = match &flags.connections.external_hostname {
        Some(host) if host.contains(':') => host.clone(),
        Some(host) => format!("{host}:{}", address.port()),
        None => address.to_string(),
    };
    format!("https://{host}/openid/v1/jwks")
}

fn signing_key(config: &Config) -> Result<pki::Key> {
    let own = config.flags.data_dir.join("pki/sa.key");
    let path = config.flags.service_account_signing_key_file.as_ref().unwrap_or(&own);
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(pki::Key::from_pem(&pem)?)
}

/// Who this server is among all: by its host, and by its port where that is another than usual.
fn own_identity(port: u16) -> Identity {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let more = if port == 6443 { String::new() } else { format!(":{port}") };
    Identity::new(host.trim(), &more)
}
