//! `--egress-selector-config-file`: the proxies through which this server reaches the cluster
//! (nodes, pods and services), the control plane, and etcd.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use client::{Pem, Proxy, TlsOptions};
use object::{Value, yaml::from_yaml};
use schema::{ErrorList, FieldPath as Field};
use server::ConnectionPool;

use crate::{
    reload,
    structured::{aggregate, known, strict, text},
};

const PROTOCOLS: [&str; 3] = ["Direct", "GRPC", "HTTPConnect"];
const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];

/// The proxy of each destination; `None` means a direct connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct EgressSelector {
    /// For nodes, pods and services.
    pub(crate) cluster: Option<Proxy>,
    /// For webhooks by URL, trace collectors and token issuers.
    pub(crate) control_plane: Option<Proxy>,
    pub(crate) etcd: Option<Proxy>,
    /// Reusable connections to webhooks.
    pub(crate) pool: ConnectionPool,
}

impl EgressSelector {
    /// Reads an `EgressSelectorConfiguration` of apiserver.k8s.io.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let file = reload::text(path).with_context(|| {
            format!("unable to read egress selector configuration from {shown:?}")
        })?;
        let mut file = from_yaml(&file)?;
        // Only this kind of configuration file has a group of its own.
        if let Some(version) = text(&file, "apiVersion").strip_prefix("apiserver.k8s.io/") {
            file["apiVersion"] = format!("apiserver.config.k8s.io/{version}").into();
        }
        known(&file, "EgressSelectorConfiguration", &["v1beta1", "v1alpha1"])?;
        let mut errors = ErrorList::default();
        strict(&file, &Field::Root, &["apiVersion", "kind", "egressSelections"], &mut errors);
        let (service, mut egress) = (Field::Root.field("service"), Self::default());
        let at = service.field("connection");
        let mut seen = Vec::new();
        for (nth, selection) in file.get("egressSelections").items().iter().enumerate() {
            let connection = selection.get("connection");
            check(connection, &at, &mut errors);
            let name = text(selection, "name").to_lowercase();
            if seen.contains(&name) {
                errors.duplicate(&at.index(nth), name.as_str());
            } else if !NAMES.contains(&&*name) {
                errors.not_supported(&at, name.as_str(), &NAMES);
            }
            if errors.is_empty() {
                let proxy = proxy(connection).with_context(|| {
                    format!("failed to create dialer for egressSelection {name:?}")
                })?;
                match &*name {
                    "cluster" => egress.cluster = proxy,
                    "etcd" => egress.etcd = proxy,
                    _ => egress.control_plane = proxy,
                }
            }
            seen.push(name);
        }
        ensure!(
            errors.is_empty(),
            "failed to validate egress selector configuration: {}",
            aggregate(&errors)
        );
        Ok(egress)
    }

    /// The proxy by the `egressSelectorType` of a JWT issuer.
    pub(crate) fn named(&self, name: &str) -> Option<Proxy> {
        match name {
            "cluster" => self.cluster.clone(),
            "controlplane" => self.control_plane.clone(),
            _ => None,
        }
    }
}

fn check(connection: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let transport = connection.get("transport");
    let (tcp, uds) = (transport.get("tcp"), transport.get("uds"));
    match text(connection, "proxyProtocol") {
        "Direct" if transport.is_object() => {
            let why = "config must be absent for direct connect";
            errors.invalid(&at.field("transport"), "direct", why);
        }
        "Direct" => {}
        "HTTPConnect" if !transport.is_object() => {
            errors.required(&at.field("transport"), "transport must be set for HTTPConnect");
        }
        "HTTPConnect" => match (tcp.is_object(), uds.is_object()) {
            (true, true) => {
                errors.invalid(&at.field("tcp"), tcp.clone(), "TCP and UDS cannot both be set");
            }
            (false, false) => errors.required(&at.field("tcp"), "One of TCP or UDS must be set"),
            (true, false) => check_tcp(tcp, at, errors),
            (false, true) => check_uds(uds, at, errors),
        },
        "GRPC" if !transport.is_object() => {
            errors.required(&at.field("transport"), "transport must be set for GRPC");
        }
        "GRPC" if uds.is_object() => check_uds(uds, at, errors),
        "GRPC" => errors.required(&at.field("uds"), "UDS must be set with GRPC"),
        other => errors.not_supported(&at.field("protocol"), other, &PROTOCOLS),
    }
}

fn check_uds(uds: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if text(uds, "udsName").is_empty() {
        errors.invalid(&at.field("udsName"), "nil", "must be present for UDS connections");
    }
}

fn check_tcp(tcp: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (url, tls) = (text(tcp, "url"), tcp.get("tlsConfig"));
    let within = at.field("tlsConfig");
    if url.starts_with("http://") {
        if tls.is_object() {
            errors.invalid(&within, "nil", "config must not be present when using HTTP");
        }
    } else if !url.starts_with("https://") {
        let why = "supported connection protocols are http:// and https://";
        errors.invalid(&at.field("url"), url, why);
    } else if !tls.is_object() {
        errors.required(&within, "TLSConfig must be present when using HTTPS");
    } else {
        for (name, absent, missing) in [
            ("caBundle", "", "TLS config ca bundle does not exist"),
            ("clientCert", "Using TLS requires clientCert", "TLS client cert does not exist"),
            ("clientKey", "Using TLS requires requires clientKey", "TLS client key does not exist"),
        ] {
            let file = text(tls, name);
            if file.is_empty() && !absent.is_empty() {
                errors.invalid(&within.field(name), "nil", absent);
            } else if !file.is_empty() && !Path::new(file).exists() {
                errors.invalid(&within.field(name), file, missing);
            }
        }
    }
}

/// The proxy of a validated connection.
fn proxy(connection: &Value) -> Result<Option<Proxy>> {
    let transport = connection.get("transport");
    match text(connection, "proxyProtocol") {
        "Direct" => return Ok(None),
        "GRPC" => bail!(
            "proxyProtocol GRPC is not supported; use HTTPConnect, which the same proxies support"
        ),
        _ => {}
    }
    let tcp = transport.get("tcp");
    if !tcp.is_object() {
        let socket = text(transport.get("uds"), "udsName");
        return Ok(Some(Proxy::at_socket(Path::new(socket))));
    }
    let config = tcp.get("tlsConfig");
    let file = |name: &str| Pem::File(text(config, name).into());
    let named = |name: &str| Some(text(config, name)).filter(|text| !text.is_empty());
    let tls = config.is_object().then(|| TlsOptions {
        ca: named("caBundle").map(|_| file("caBundle")),
        pair: Some((file("clientCert"), file("clientKey"))),
        server_name: named("tlsServerName").map(str::to_owned),
        ..TlsOptions::default()
    });
    Ok(Some(Proxy::parse(text(tcp, "url"))?.with_tls(tls.map(Arc::new))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("egress.yaml");
        let read = |selections: &str| {
            let text = format!(
                "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n\
                 egressSelections: {selections}\n"
            );
            std::fs::write(&path, text).unwrap();
            EgressSelector::read(&path).map_err(|error| format!("{error:#}"))
        };
        let egress = read(
            "[{name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: /s}}}}, \
             {name: etcd, connection: {proxyProtocol: Direct}}]",
        );
        let egress = egress.unwrap();
        assert!(
            egress.cluster.is_some() && egress.etcd.is_none() && egress.control_plane.is_none()
        );
        for (selections, why) in [
            (
                "[{name: moon, connection: {proxyProtocol: Direct}}]",
                "service.connection: Unsupported value: \"moon\": supported values: \"cluster\", \"controlplane\", \"etcd\"",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: Pigeon}}]",
                "service.connection.protocol: Unsupported value: \"Pigeon\"",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: HTTPConnect}}]",
                "service.connection.transport: Required value: transport must be set for HTTPConnect",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: \"https://a:1\"}}}}]",
                "service.connection.tlsConfig: Required value: TLSConfig must be present when using HTTPS",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: GRPC, transport: {uds: {udsName: /s}}}}]",
                "GRPC is not supported",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: Direct}}, {name: etcd, connection: {proxyProtocol: Direct}}]",
                "service.connection[1]: Duplicate value: \"etcd\"",
            ),
        ] {
            let said = read(selections).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
