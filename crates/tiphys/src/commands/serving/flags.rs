//! Flags of the HTTPS server of a component: address, certificate, authentication and authorization.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use apiserver::ProxyHeaders;
use bytes::Bytes;
use clap::{ArgAction, Args};
use client::{Client, Kubeconfig};
use http::Method;
use object::{Clock as _, SystemClock, Value, from_json};
use pki::{CertificateAuthority, CertificateSpec, ClientCaVerifier, TlsSettings};
use rustls::pki_types::CertificateDer;

use super::{
    super::duration,
    ServedComponent, ServingCertificates,
    delegated::{DelegatedAuth, RequestHeaderAuth, TtlCache},
};

/// The ConfigMap in which API servers publish how they authenticate.
const AUTHENTICATION_CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

#[derive(Args)]
pub(crate) struct ServingFlags {
    /// IP address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    pub(super) bind_address: IpAddr,
    /// Port to serve HTTPS on; 0 serves nothing.
    #[arg(long)]
    pub(super) secure_port: Option<u16>,
    /// File with the serving certificate; without it, a self-signed one is generated at every start.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// File with the private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Minimum TLS version.
    #[arg(long, default_value = "VersionTLS12", value_parser = ["VersionTLS12", "VersionTLS13"])]
    tls_min_version: String,
    /// Cipher suites of TLS 1.2; those of TLS 1.3 cannot be configured.
    #[arg(long, value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// Serve HTTP/1.1 only.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    disable_http2_serving: bool,
    /// Kubeconfig for TokenReviews; without it, bearer tokens are not accepted.
    #[arg(long, value_name = "FILE")]
    authentication_kubeconfig: Option<PathBuf>,
    /// Do not look up missing authentication settings in the cluster.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    authentication_skip_lookup: bool,
    /// Start even if the lookup of missing authentication settings fails.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    authentication_tolerate_lookup_failure: Option<bool>,
    /// How long the results of TokenReviews are cached.
    #[arg(long, default_value = "10s", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// File with the certificate authorities that client certificates are verified against.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// File with the certificate authorities of front proxies, which pass user names on in headers.
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of front proxies' client certificates; empty allows any.
    #[arg(long, value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Request headers with the user name.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-user")]
    requestheader_username_headers: Vec<String>,
    /// Request headers with the user's UID.
    #[arg(long, value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Request headers with the user's groups.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-group")]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of request headers with extra attributes of the user.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
    /// Kubeconfig for SubjectAccessReviews; without it, only the paths that are always allowed are served.
    #[arg(long, value_name = "FILE")]
    authorization_kubeconfig: Option<PathBuf>,
    /// Paths that are served without authorization.
    #[arg(long, value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,
    /// How long allowed requests are cached.
    #[arg(long, default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long denied requests are cached.
    #[arg(long, default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl ServingFlags {
    /// Address to listen on; port 0 means that nothing is served.
    pub(in crate::commands) fn address(&self, component: &ServedComponent) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port.unwrap_or(component.port))
    }

    /// Delegated authentication and authorization by the flags. Missing values are looked up in the cluster;
    /// `client` is used where no kubeconfig is given.
    pub(super) async fn delegated(
        &self,
        tolerates: bool,
        client: Option<&Client>,
    ) -> Result<DelegatedAuth> {
        let tokens =
            delegation_client(self.authentication_kubeconfig.as_deref())?.or(client.cloned());
        let rights =
            delegation_client(self.authorization_kubeconfig.as_deref())?.or(client.cloned());
        let complete = self.client_ca_file.is_some() && self.requestheader_client_ca_file.is_some();
        let looks = !self.authentication_skip_lookup && !complete;
        let tolerates = self.authentication_tolerate_lookup_failure.unwrap_or(tolerates);
        let published = match &tokens {
            Some(client) if looks => match read_authentication_config(client).await {
                Err(error) if tolerates => {
                    tracing::warn!("cannot look up extension-apiserver-authentication: {error:#}");
                    Value::Null
                }
                published => published?,
            },
            _ => Value::Null,
        };
        let clients = authorities(self.client_ca_file.as_deref(), &published["client-ca-file"])?;
        let file = self.requestheader_client_ca_file.as_deref();
        let proxies = authorities(file, &published["requestheader-client-ca-file"])?;
        Ok(DelegatedAuth {
            client_ca: trust(&clients)?,
            request_header: self.proxies(trust(&proxies)?, &published),
            authorities: [clients, proxies].concat(),
            token_reviewer: tokens,
            access_reviewer: rights,
            always_allow_paths: self.authorization_always_allow_paths.clone(),
            token_cache: TtlCache::new(self.authentication_token_webhook_cache_ttl),
            access_cache: TtlCache::new(self.authorization_webhook_cache_authorized_ttl),
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
        })
    }

    fn proxies(
        &self,
        trust: Option<ClientCaVerifier>,
        published: &Value,
    ) -> Option<RequestHeaderAuth> {
        let trust = trust?;
        let given = self.requestheader_client_ca_file.is_some();
        let said = |name: &str, own: &[String]| match published[name].as_str() {
            Some(list) if !given => {
                let list = from_json(list.as_bytes()).unwrap_or_default();
                list.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => own.to_vec(),
        };
        Some(RequestHeaderAuth {
            trust,
            allowed: said("requestheader-allowed-names", &self.requestheader_allowed_names),
            headers: ProxyHeaders {
                names: said("requestheader-username-headers", &self.requestheader_username_headers),
                uids: said("requestheader-uid-headers", &self.requestheader_uid_headers),
                groups: said("requestheader-group-headers", &self.requestheader_group_headers),
                extra_prefixes: said(
                    "requestheader-extra-headers-prefix",
                    &self.requestheader_extra_headers_prefix,
                ),
            },
        })
    }

    /// The serving certificate and the TLS settings.
    pub(super) fn certificates(
        &self,
        name: &str,
        known: &DelegatedAuth,
    ) -> Result<ServingCertificates> {
        let now = SystemClock.now();
        let authority = CertificateAuthority::create(&format!("{name}-ca"), now)?;
        let localhost = vec!["localhost".to_owned()];
        let own = authority
            .issue(&CertificateSpec::server(name, localhost, vec![self.bind_address]), now)?;
        let newest_only = self.tls_min_version == "VersionTLS13";
        let handshakes = TlsSettings::new(newest_only, &self.tls_cipher_suites, &[])?
            .with_http2(!self.disable_http2_serving);
        // Without CAs for clients, only this server's own CA is offered, which has issued no client certificate.
        let believed = match &*known.authorities {
            [] => ClientCaVerifier::new(std::slice::from_ref(authority.certificate()))?,
            some => ClientCaVerifier::new(some)?,
        };
        let files = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        Ok(ServingCertificates { files, self_signed: own, client_cas: believed, handshakes })
    }
}

fn delegation_client(kubeconfig: Option<&Path>) -> Result<Option<Client>> {
    let Some(path) = kubeconfig else { return Ok(None) };
    let config = Kubeconfig::read(path)?.config(None)?;
    Ok(Some(Client::new(config.user_agent("delegated"))))
}

/// The data of the ConfigMap extension-apiserver-authentication.
async fn read_authentication_config(client: &Client) -> Result<Value> {
    let map = client.call(Method::GET, AUTHENTICATION_CONFIG_MAP, "", Bytes::new()).await;
    Ok(map.context("extension-apiserver-authentication")?["data"].clone())
}

/// Certificate authorities of the file, otherwise the published ones.
fn authorities(file: Option<&Path>, published: &Value) -> Result<Vec<CertificateDer<'static>>> {
    let pem = match (file, published.as_str()) {
        (Some(path), _) => fs::read(path).with_context(|| path.display().to_string())?,
        (None, Some(text)) => text.as_bytes().to_vec(),
        (None, None) => return Ok(Vec::new()),
    };
    Ok(pki::certificates(&pem)?)
}

fn trust(authorities: &[CertificateDer<'static>]) -> Result<Option<ClientCaVerifier>> {
    Ok(if authorities.is_empty() { None } else { Some(ClientCaVerifier::new(authorities)?) })
}
