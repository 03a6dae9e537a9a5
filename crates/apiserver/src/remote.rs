//! Clients of webhooks that a kubeconfig configures: for tokens, authorization, images and audit
//! events.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Pem, TcpConnector, TlsOptions};
use http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use object::{Value, yaml::from_yaml};
use server::{ConnectionPool, WebhookClient};

use crate::{egress::EgressSelector, reload, structured::text};

/// The client for the server of the current context of a kubeconfig, with its credentials and the
/// proxy.
pub(crate) fn from_kubeconfig(path: &Path, egress: &EgressSelector) -> Result<WebhookClient> {
    let file = Kubeconfig::read(path)?;
    let shown = path.display();
    let context = file.named("contexts", text(&file.tree, "current-context"), "context");
    let cluster = file.named("clusters", text(&context, "cluster"), "cluster");
    let ClientCredentials { pair, headers } = file.user(text(&context, "user"))?;
    let address = text(&cluster, "server");
    ensure!(!address.is_empty(), "{shown}: the current context names no server");
    let name = text(&cluster, "tls-server-name");
    let tls = TlsOptions {
        ca: file.pem(&cluster, "certificate-authority")?,
        pair,
        server_name: (!name.is_empty()).then(|| name.to_owned()),
        insecure: cluster.get("insecure-skip-tls-verify").as_bool().unwrap_or_default(),
        ..TlsOptions::default()
    };
    let remote = at(address, tls).with_context(|| shown.to_string())?;
    let to = remote.to.with_proxy(egress.control_plane.clone());
    Ok(WebhookClient { headers, to, pool: egress.pool.clone(), ..remote })
}

/// Client certificate and headers that this server presents.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientCredentials {
    pub(crate) pair: Option<(Pem, Pem)>,
    pub(crate) headers: HeaderMap,
}

/// Credentials by webhook host: the users of a kubeconfig that are named after hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct CredentialsByHost {
    by_name: BTreeMap<String, ClientCredentials>,
    /// The user of the current context.
    usual: String,
}

impl CredentialsByHost {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = Kubeconfig::read(path)?;
        let names = file.tree.get("users").items().iter().map(|entry| text(entry, "name"));
        let by_name = names.map(|name| Ok((name.to_owned(), file.user(name)?)));
        let by_name = by_name.collect::<Result<_>>()?;
        let context = file.named("contexts", text(&file.tree, "current-context"), "context");
        Ok(Self { by_name, usual: text(&context, "user").to_owned() })
    }

    /// The credentials for a host: the user with its name, then `*.` and a suffix of it, then `*`,
    /// then the user of the current context.
    pub(crate) fn for_host(&self, host: &str, port: u16) -> ClientCredentials {
        let known = |name: &str| self.by_name.get(name);
        let either = |target: &str| {
            let ends = target.match_indices('.').map(|(at, _)| format!("*{}", &target[at..]));
            known(target).or_else(|| ends.into_iter().find_map(|name| known(&name)))
        };
        let found = either(&format!("{host}:{port}"))
            .or_else(|| (port == 443).then(|| either(host)).flatten())
            .or_else(|| known("*"))
            .or_else(|| known(&self.usual));
        found.cloned().unwrap_or_default()
    }
}

/// A kubeconfig file.
struct Kubeconfig<'a> {
    path: &'a Path,
    tree: Value,
}

impl<'a> Kubeconfig<'a> {
    fn read(path: &'a Path) -> Result<Self> {
        let shown = path.display();
        let tree = from_yaml(&reload::text(path)?);
        Ok(Self { path, tree: tree.with_context(|| format!("{shown} is not readable"))? })
    }

    /// The field `part` of the entry with this name in a list.
    fn named(&self, list: &str, name: &str, part: &str) -> Value {
        let all = self.tree.get(list).items();
        let found = all.iter().find(|entry| text(entry, "name") == name);
        found.map(|entry| entry.get(part).clone()).unwrap_or_default()
    }

    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().unwrap_or(self.path).join(file)
    }

    fn pem(&self, tree: &Value, name: &str) -> Result<Option<Pem>> {
        let data = text(tree, &format!("{name}-data"));
        if !data.is_empty() {
            return Ok(Some(Pem::Data(STANDARD.decode(data)?)));
        }
        let file = text(tree, name);
        Ok((!file.is_empty()).then(|| Pem::File(self.beside(file))))
    }

    fn user(&self, name: &str) -> Result<ClientCredentials> {
        let user = self.named("users", name, "user");
        let pair = match (self.pem(&user, "client-certificate")?, self.pem(&user, "client-key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => bail!(
                "{}: a client certificate needs its key, and a key its certificate",
                self.path.display()
            ),
        };
        let mut headers = HeaderMap::new();
        let token = match (text(&user, "token"), text(&user, "tokenFile")) {
            ("", "") => String::new(),
            ("", file) => reload::text(&self.beside(file))?.trim().to_owned(),
            (token, _) => token.to_owned(),
        };
        let credentials = match (token.as_str(), text(&user, "username")) {
            ("", "") => return Ok(ClientCredentials { pair, headers }),
            ("", name) => {
                let both = format!("{name}:{}", text(&user, "password"));
                format!("Basic {}", STANDARD.encode(both))
            }
            (token, _) => format!("Bearer {token}"),
        };
        let mut value = HeaderValue::from_str(&credentials)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(ClientCredentials { pair, headers })
    }
}

/// The client for a URL of the form `https://host:port/path`.
pub(crate) fn at(address: &str, tls: TlsOptions) -> Result<WebhookClient> {
    let uri: Uri = address.parse().with_context(|| format!("{address:?} is no address"))?;
    let host = uri.host().with_context(|| format!("{address:?} names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("{address:?} is neither https nor http"),
    };
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Ok(WebhookClient {
        to: TcpConnector::new(host, port, secure.then(|| Arc::new(tls))),
        host: None,
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        headers: HeaderMap::new(),
        pool: ConnectionPool::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_host() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("kubeconfig");
        let user = |name: &str| format!("- {{name: '{name}', user: {{token: '{name}'}}}}\n");
        let all: String = ["a.b:8443", "*.svc", "plain.svc", "*"].map(user).concat();
        std::fs::write(&path, format!("users:\n{all}")).unwrap();
        let users = CredentialsByHost::read(&path).unwrap();
        let to = |host: &str, port| {
            let headers = users.for_host(host, port).headers;
            headers[AUTHORIZATION].to_str().unwrap().trim_start_matches("Bearer ").to_owned()
        };
        assert_eq!(to("a.b", 8443), "a.b:8443");
        assert_eq!(to("a.b", 1), "*");
        assert_eq!(to("x.default.svc", 443), "*.svc");
        assert_eq!(to("plain.svc", 443), "plain.svc");
        assert_eq!(to("plain.svc", 8443), "*");
        assert!(CredentialsByHost::default().for_host("a", 1).headers.is_empty());
    }
}
