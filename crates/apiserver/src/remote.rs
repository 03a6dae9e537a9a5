//! Whom the server asks about tokens, rights and images: said by a kubeconfig.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Pem, Tcp, Tls};
use http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use object::{Value, yaml::from_yaml};
use server::Remote;

/// The server that the current context of a kubeconfig names, and who we are there.
pub(crate) fn from_kubeconfig(path: &Path) -> Result<Remote> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let file = from_yaml(&text).with_context(|| format!("{shown} is not readable"))?;
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let named = |list: &str, name: &str, part: &str| {
        let all = file.get(list).items();
        let found = all.iter().find(|entry| text(entry, "name") == name);
        found.map(|entry| entry.get(part).clone()).unwrap_or_default()
    };
    let context = named("contexts", &text(&file, "current-context"), "context");
    let cluster = named("clusters", &text(&context, "cluster"), "cluster");
    let user = named("users", &text(&context, "user"), "user");
    let address = text(&cluster, "server");
    ensure!(!address.is_empty(), "{shown}: the current context names no server");
    let pem = |tree: &Value, name: &str| -> Result<Option<Pem>> {
        let data = text(tree, &format!("{name}-data"));
        if !data.is_empty() {
            return Ok(Some(Pem::Data(STANDARD.decode(data)?)));
        }
        let file = text(tree, name);
        let folder = path.parent().unwrap_or(path);
        Ok((!file.is_empty()).then(|| Pem::File(folder.join(file))))
    };
    let pair = match (pem(&user, "client-certificate")?, pem(&user, "client-key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => bail!("{shown}: a client certificate needs its key, and a key its certificate"),
    };
    let name = text(&cluster, "tls-server-name");
    let tls = Tls {
        authorities: pem(&cluster, "certificate-authority")?,
        pair,
        server_name: (!name.is_empty()).then_some(name),
        insecure: cluster.get("insecure-skip-tls-verify").as_bool().unwrap_or_default(),
        ..Tls::default()
    };
    let mut remote = at(&address, tls).with_context(|| shown.to_string())?;
    let token = text(&user, "token");
    if !token.is_empty() {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
        value.set_sensitive(true);
        remote.headers.insert(AUTHORIZATION, value);
    }
    Ok(remote)
}

/// An address of the form `https://host:port/path`.
pub(crate) fn at(address: &str, tls: Tls) -> Result<Remote> {
    let uri: Uri = address.parse().with_context(|| format!("{address:?} is no address"))?;
    let host = uri.host().with_context(|| format!("{address:?} names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("{address:?} is neither https nor http"),
    };
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Ok(Remote {
        to: Tcp::new(host, port, secure.then(|| Arc::new(tls))),
        host: None,
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        headers: HeaderMap::new(),
    })
}
