//! Serving certificates and trusted CAs: loaded from the data directory and from the files that
//! flags name, reloaded when they change, and renewed before they expire, without a restart.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Pem, TlsOptions as ClientTls};
use object::{Clock, Value, yaml::to_yaml};
use pki::{
    CertKeyPair, CertificateAuthority, CertificateSpec, ClientCaVerifier, ClusterPki, Dir,
    Reloadable, ServerNames,
};
use server::{Registry, ReloadableTls};
use tracing::{error, info, warn};

use crate::{
    Config, Flags, admin_kubeconfig,
    admin_kubeconfig::CLUSTER,
    authn::CertExpirationMetrics,
    bootstrap::{CaBundles, publish_ca_bundles},
    reload::{self, PERIOD, WatchedFiles},
};

/// Interval at which the CA bundles are published, in seconds.
const AGAIN: i64 = 60;

/// The CAs that sign client certificates, and those that sign front proxies' certificates.
#[derive(Clone, Debug)]
pub(crate) struct TrustedCas {
    pub(crate) clients: Arc<Reloadable<ClientCaVerifier>>,
    pub(crate) proxies: Arc<Reloadable<ClientCaVerifier>>,
    /// Metric of the remaining lifetime of client certificates.
    pub(crate) left: Arc<CertExpirationMetrics>,
}

/// The certificates of this server, kept up to date.
#[derive(Debug)]
pub(crate) struct ServingCertificates {
    flags: Flags,
    names: ServerNames,
    /// The port in the administrator's kubeconfig; `None` if none is written.
    admin: Option<u16>,
    clock: Arc<dyn Clock>,
    pub(crate) cluster: Arc<ClusterPki>,
    pub(crate) believed: TrustedCas,
    pub(crate) tls: ReloadableTls,
    /// When the serving certificate expires.
    pub(crate) ends: Arc<AtomicI64>,
    /// When the next of our own certificates must be renewed.
    due: i64,
}

impl ServingCertificates {
    /// Loads or creates the certificates; writes the administrator's kubeconfig if `admin` is a
    /// port.
    pub(crate) fn open(
        config: &Config,
        names: ServerNames,
        admin: Option<u16>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let mut flags = config.flags.clone();
        if let (Some(folder), None) = (&flags.cert_dir, &flags.tls_cert_file) {
            let (certificate, key) = self_signed(folder, &names, clock.now())?;
            (flags.tls_cert_file, flags.tls_private_key_file) = (Some(certificate), Some(key));
        }
        let dir = Dir::open(&flags.data_dir.join("pki"))?;
        let cluster = Arc::new(ClusterPki::load_or_create(&dir, names.clone(), clock.now())?);
        let (clients, proxies) = (client_trust(&flags, &cluster)?, proxy_trust(&flags, &cluster)?);
        let (shown, ends) = serving_tls_config(&flags, &cluster)?;
        let serving = Self {
            believed: TrustedCas {
                clients: Arc::new(Reloadable::new(clients)),
                proxies: Arc::new(Reloadable::new(proxies)),
                left: Arc::default(),
            },
            tls: ReloadableTls::new(Arc::new(shown)),
            ends: Arc::new(AtomicI64::new(ends)),
            due: cluster.renew_at()?,
            flags,
            names,
            admin,
            clock: clock.clone(),
            cluster,
        };
        serving.write_admin()?;
        Ok(serving)
    }

    /// Reloads changed files and renews expiring certificates, for ever.
    pub(crate) async fn run(mut self, registry: Weak<Registry>) {
        let own =
            ["ca", "apiserver"].map(|name| self.flags.data_dir.join(format!("pki/{name}.crt")));
        let mut files = WatchedFiles::new(named(&self.flags).into_iter().chain(own));
        let mut told = self.clock.now();
        loop {
            tokio::time::sleep(PERIOD).await;
            let (changed, now) = (files.changed(), self.clock.now());
            if now - told >= AGAIN {
                told = now; // someone may have deleted it
                self.publish_cas(&registry).await;
            }
            if !changed && now <= self.due {
                continue;
            }
            match self.refresh(now) {
                Ok(()) => {
                    info!("reloaded changed certificates");
                    self.publish_cas(&registry).await;
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    error!(
                        error,
                        "certificates have changed, and cannot be used: the last ones stay"
                    );
                    self.due = self.due.max(now + 60);
                }
            }
            files.changed();
        }
    }

    /// Publishes the CA bundles that this server trusts now.
    async fn publish_cas(&self, registry: &Weak<Registry>) {
        let Some(registry) = registry.upgrade() else { return };
        let told = match authorities(&self.flags, &self.cluster) {
            Ok(believed) => publish_ca_bundles(&registry, &self.flags, &believed)
                .await
                .map_err(|status| status.message().to_owned()),
            Err(error) => Err(format!("{error:#}")),
        };
        if let Err(why) = told {
            error!(why, "cannot write extension-apiserver-authentication");
        }
    }

    /// Loads everything again; our own certificates are renewed if they expire soon.
    fn refresh(&mut self, now: i64) -> Result<()> {
        let dir = Dir::open(&self.flags.data_dir.join("pki"))?;
        let cluster = ClusterPki::load_or_create(&dir, self.names.clone(), now)?;
        let clients = client_trust(&self.flags, &cluster)?;
        let proxies = proxy_trust(&self.flags, &cluster)?;
        let (shown, ends) = serving_tls_config(&self.flags, &cluster)?;
        self.believed.clients.replace(clients);
        self.believed.proxies.replace(proxies);
        self.tls.replace(Arc::new(shown));
        self.ends.store(ends, Ordering::Release);
        let renewed = now > self.due;
        (self.due, self.cluster) = (cluster.renew_at()?, Arc::new(cluster));
        if renewed { self.write_admin() } else { Ok(()) }
    }

    /// Writes the administrator's kubeconfig for this host, with a new certificate.
    fn write_admin(&self) -> Result<()> {
        let Some(port) = self.admin else { return Ok(()) };
        let server = format!("https://127.0.0.1:{port}");
        let (groups, now) = (["system:masters"], self.clock.now());
        let new = kubeconfig(&self.cluster, "kubernetes-admin", &groups, (&server, now))?;
        let dir = Dir::open(&self.flags.data_dir.join("kubeconfig"))?;
        // A file that cannot be read is replaced: the administrator needs the new certificate.
        let existing = dir.read("admin").unwrap_or_else(|error| {
            warn!(%error, "cannot read the administrator's kubeconfig; replacing it");
            None
        });
        let file = admin_kubeconfig::merge(&existing.unwrap_or_default(), &new);
        Ok(dir.replace("admin", to_yaml(&file).as_bytes(), 0o600)?)
    }
}

/// A kubeconfig for a server, with a new certificate of this user.
pub(crate) fn kubeconfig(
    cluster: &ClusterPki,
    user: &str,
    groups: &[&str],
    (server, now): (&str, i64),
) -> Result<Value> {
    let pair = cluster.ca.issue(&CertificateSpec::client(user, groups), now)?;
    let data = |text: String| STANDARD.encode(text);
    let (ca, certificate, key) =
        (data(cluster.ca.certificate_pem()), data(pair.certificate_pem()), data(pair.key_pem()));
    let named = |name: &str, of: &str, what: Value| {
        let mut entry = Value::object();
        entry["name"] = name.into();
        entry[of] = what;
        [entry].into_iter().collect::<Value>()
    };
    let fields = |fields: &[(&'static str, &str)]| {
        let mut object = Value::object();
        fields.iter().for_each(|(name, value)| object[*name] = (*value).into());
        object
    };
    let context = format!("{user}@{CLUSTER}");
    let mut file = fields(&[("apiVersion", "v1"), ("kind", "Config")]);
    let server = fields(&[("server", server), ("certificate-authority-data", &ca)]);
    file["clusters"] = named(CLUSTER, "cluster", server);
    let shown = fields(&[("client-certificate-data", &certificate), ("client-key-data", &key)]);
    file["users"] = named(user, "user", shown);
    let both = fields(&[("cluster", CLUSTER), ("user", user)]);
    file["contexts"] = named(&context, "context", both);
    file["current-context"] = context.into();
    Ok(file)
}

/// The TLS options for kubelets. The files are read for each connection, so that renewed
/// certificates are used.
pub(crate) fn to_kubelets(flags: &Flags) -> Arc<ClientTls> {
    let authorities = flags.kubelet_certificate_authority.clone().map(Pem::File);
    Arc::new(ClientTls {
        pair: Some(pair_files(
            flags,
            (&flags.kubelet_client_certificate, &flags.kubelet_client_key),
            "apiserver-kubelet-client",
        )),
        // Without a CA, kubelets' certificates are not verified, as upstream does.
        insecure: authorities.is_none(),
        ca: authorities,
        ..ClientTls::default()
    })
}

/// The client certificate and key for aggregated servers.
pub(crate) fn to_aggregated(flags: &Flags) -> (Pem, Pem) {
    let given = (&flags.proxy_client_cert_file, &flags.proxy_client_key_file);
    pair_files(flags, given, "front-proxy-client")
}

fn pair_files(flags: &Flags, given: (&Option<PathBuf>, &Option<PathBuf>), own: &str) -> (Pem, Pem) {
    let file = |given: &Option<PathBuf>, end: &str| {
        let own = || flags.data_dir.join(format!("pki/{own}.{end}"));
        Pem::File(given.clone().unwrap_or_else(own))
    };
    (file(given.0, "crt"), file(given.1, "key"))
}

/// The names and addresses in the server's own certificate.
pub(crate) fn server_names(
    advertise: IpAddr,
    services: impl IntoIterator<Item = IpAddr>,
) -> ServerNames {
    let dns = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    let mut ips = vec![advertise];
    ips.extend(services);
    ips.push(IpAddr::from([127, 0, 0, 1]));
    ServerNames { dns: dns.map(str::to_owned).to_vec(), ips }
}

/// The CA bundles that this server trusts, in PEM.
pub(crate) fn authorities(flags: &Flags, cluster: &ClusterPki) -> Result<CaBundles> {
    let mut clients = cluster.ca.certificate_pem();
    if let Some(path) = &flags.client_ca_file {
        clients.push_str(&reload::text(path)?);
    }
    let proxies = match &flags.requestheader_client_ca_file {
        Some(path) => reload::text(path)?,
        None => cluster.front_proxy_ca.certificate_pem(),
    };
    Ok(CaBundles { clients, proxies })
}

/// The certificate files that flags name.
fn named(flags: &Flags) -> Vec<PathBuf> {
    let single = [
        &flags.client_ca_file,
        &flags.requestheader_client_ca_file,
        &flags.tls_cert_file,
        &flags.tls_private_key_file,
    ];
    let mut files: Vec<PathBuf> = single.into_iter().flatten().cloned().collect();
    for entry in &flags.tls_sni_cert_key {
        if let Ok(own) = sni(entry) {
            files.extend([own.certificate, own.key]);
        }
    }
    files
}

/// The client CAs: the cluster's own, and those of `--client-ca-file`.
fn client_trust(flags: &Flags, cluster: &ClusterPki) -> Result<ClientCaVerifier> {
    let mut all = vec![cluster.ca.certificate().clone()];
    if let Some(path) = &flags.client_ca_file {
        all.extend(pki::certificates(&reload::read(path)?)?);
    }
    Ok(ClientCaVerifier::new(&all)?)
}

/// The CAs of front proxies.
fn proxy_trust(flags: &Flags, cluster: &ClusterPki) -> Result<ClientCaVerifier> {
    Ok(match &flags.requestheader_client_ca_file {
        Some(path) => ClientCaVerifier::new(&pki::certificates(&reload::read(path)?)?)?,
        None => ClientCaVerifier::new(&[cluster.front_proxy_ca.certificate().clone()])?,
    })
}

/// The TLS configuration with the serving certificate and the CAs of clients and proxies, and when
/// the certificate expires.
fn serving_tls_config(flags: &Flags, cluster: &ClusterPki) -> Result<(rustls::ServerConfig, i64)> {
    let mut authorities =
        vec![cluster.ca.certificate().clone(), cluster.front_proxy_ca.certificate().clone()];
    for path in [&flags.client_ca_file, &flags.requestheader_client_ca_file].into_iter().flatten() {
        authorities.extend(pki::certificates(&reload::read(path)?)?);
    }
    let own = match (&flags.tls_cert_file, &flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(pair(certificate, key)?),
        _ => None,
    };
    let mut by_name = Vec::new();
    for entry in &flags.tls_sni_cert_key {
        let Sni { certificate, key, mut names } =
            sni(entry).with_context(|| format!("--tls-sni-cert-key {entry}"))?;
        let pair = pair(&certificate, &key)?;
        // Names that are given come before those in certificates.
        let at = if names.is_empty() { by_name.len() } else { 0 };
        if names.is_empty() {
            let identity = pair.identity()?;
            names = if identity.dns.is_empty() { vec![identity.common_name] } else { identity.dns };
        }
        by_name.insert(at, (names, pair));
    }
    let pair = own.as_ref().unwrap_or(&cluster.apiserver);
    let (trust, handshakes) =
        (ClientCaVerifier::new(&authorities)?, flags.connections.handshakes()?);
    let config = pki::server_config_named(pair, &by_name, (&trust, &handshakes))?;
    Ok((config, pair.identity()?.not_after))
}

/// The certificate and key in a directory; created and self-signed if they are missing.
fn self_signed(folder: &Path, names: &ServerNames, now: i64) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    let authority = CertificateAuthority::create(&format!("localhost-ca@{now}"), now)?;
    let leaf = CertificateSpec::server("localhost", names.dns.clone(), names.ips.clone());
    let pair = authority.issue(&leaf, now)?;
    fs::create_dir_all(folder).with_context(|| format!("--cert-dir {}", folder.display()))?;
    let dir = Dir::open(folder).with_context(|| format!("--cert-dir {}", folder.display()))?;
    let chain = format!("{}{}", pair.certificate_pem(), authority.certificate_pem());
    dir.replace("apiserver.key", pair.key_pem().as_bytes(), 0o600)?;
    dir.replace("apiserver.crt", chain.as_bytes(), 0o644)?;
    info!(folder = %folder.display(), "created a self-signed serving certificate");
    Ok((certificate, key))
}

fn pair(certificate: &Path, key: &Path) -> Result<CertKeyPair> {
    let read = CertKeyPair::from_pem(&reload::read(certificate)?, &reload::read(key)?);
    read.with_context(|| format!("{} and {}", certificate.display(), key.display()))
}

/// One value of `--tls-sni-cert-key`.
#[derive(Debug, PartialEq, Eq)]
struct Sni {
    certificate: PathBuf,
    key: PathBuf,
    names: Vec<String>,
}

fn sni(text: &str) -> Result<Sni> {
    let (files, names) = text.split_once(':').unwrap_or((text, ""));
    let (certificate, key) =
        files.split_once(',').context("expected comma separated certificate and key file paths")?;
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(Sni {
        certificate: certificate.trim().into(),
        key: key.trim().into(),
        names: names.map(str::to_owned).collect(),
    })
}
