//! Discovery: which CA the cluster has, from the ConfigMap `cluster-info`, which anybody may read. It is trusted only
//! if the bootstrap token has signed it and the CA's public key has the expected hash.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use api::core::ConfigMap;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use client::{Api, Client, Config, TcpConnector, TlsOptions};
use object::{NamespacedName, yaml};
use tokio::time::{Instant, sleep};

use super::BootstrapToken;

/// How long to wait for the API server to answer and for the token's signature.
const PATIENCE: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_millis(500);
const SIGNATURE: &str = "jws-kubeconfig-";
/// Upper bound of `cluster-info`, whose server is not trusted yet.
const LARGEST: usize = 1 << 20;

/// A cluster that was found, with the CA that it is trusted by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DiscoveredCluster {
    /// `https://HOST:PORT`.
    pub(super) server: String,
    /// CA certificates in PEM.
    pub(super) ca: Vec<u8>,
}

/// Reads and verifies `cluster-info` from `address` (HOST:PORT). `hashes` are the accepted hashes of the CA's public
/// key.
pub(super) async fn discover(
    address: &str,
    token: &BootstrapToken,
    hashes: &[String],
) -> Result<DiscoveredCluster> {
    let (host, port) = split_address(address)?;
    let tls = TlsOptions { insecure: true, ..TlsOptions::default() };
    let connector = TcpConnector::new(&host, port, Some(Arc::new(tls)));
    let config =
        Config::new(Arc::new(connector)).user_agent("tiphys").timeout(Duration::from_secs(10));
    let maps = Api::<ConfigMap>::new(&Client::new(config));
    let key = NamespacedName::new("kube-public", "cluster-info");
    let began = Instant::now();
    loop {
        let failure = match maps.get(&key).await {
            Ok(map) => match verify(&map, token, hashes)? {
                Some(found) => return Ok(found),
                None => anyhow!(
                    "the cluster has not signed for the token {}: it has expired or was never made \
                     (`tiphys token create` makes one)",
                    token.id
                ),
            },
            Err(error)
                if error.is_forbidden() || error.is_unauthorized() || error.is_not_found() =>
            {
                bail!("{address} lets nobody join: run `tiphys token create` there ({error})")
            }
            Err(error) => anyhow!("{address} does not answer: {error}"),
        };
        if began.elapsed() > PATIENCE {
            return Err(failure);
        }
        sleep(RETRY).await;
    }
}

/// The cluster of a `cluster-info` whose signature and CA are as expected; `None`: the token has not signed it yet.
fn verify(
    map: &ConfigMap,
    token: &BootstrapToken,
    hashes: &[String],
) -> Result<Option<DiscoveredCluster>> {
    let text = map.data().get("kubeconfig").context("cluster-info has no kubeconfig")?;
    ensure!(text.len() <= LARGEST, "cluster-info is larger than {LARGEST} bytes");
    let Some(signature) = map.data().get(&format!("{SIGNATURE}{}", token.id)) else {
        return Ok(None);
    };
    token.verify(text, signature).context("cluster-info is not signed by this token")?;
    let file = yaml::from_yaml(text).context("cluster-info")?;
    let cluster = file["clusters"].items().first().context("cluster-info names no cluster")?;
    let cluster = &cluster["cluster"];
    let ca = cluster["certificate-authority-data"].as_str().context("cluster-info has no CA")?;
    let ca = BASE64_STANDARD.decode(ca).context("the CA of cluster-info")?;
    let certificates = pki::certificates(&ca).context("the CA of cluster-info")?;
    ensure!(!certificates.is_empty(), "cluster-info has no CA");
    for certificate in &certificates {
        let hash = pki::public_key_hash(certificate)?;
        ensure!(
            hashes.iter().any(|expected| expected.eq_ignore_ascii_case(&hash)),
            "the cluster's CA has the hash {hash}, which is not the one of --ca-hash: this may be \
             another cluster, or somebody in between"
        );
    }
    let server = cluster["server"].as_str().context("cluster-info names no server")?.to_owned();
    Ok(Some(DiscoveredCluster { server, ca }))
}

/// HOST and PORT of `HOST:PORT`, `[ADDRESS]:PORT` or the URL of one; the port is 6443 if there is none.
fn split_address(address: &str) -> Result<(String, u16)> {
    let bare = address.strip_prefix("https://").unwrap_or(address).trim_end_matches('/');
    let authority: http::uri::Authority =
        bare.parse().with_context(|| format!("{address:?} is not HOST:PORT"))?;
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    ensure!(!host.is_empty() && !bare.contains('@'), "{address:?} is not HOST:PORT");
    let port = match bare.strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':')) {
        Some(port) => port.parse().with_context(|| format!("the port of {address:?}"))?,
        None => 6443,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use pki::CertificateAuthority;
    use ring::hmac;

    use super::*;

    fn signed(text: &str, id: &str, secret: &str) -> String {
        let header = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
        let message = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(text));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, message.as_bytes());
        format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
    }

    fn map(text: &str, signature: &str) -> ConfigMap {
        ConfigMap::new().with_data([("kubeconfig", text), ("jws-kubeconfig-abcdef", signature)])
    }

    #[test]
    fn a_cluster_is_trusted_by_signature_and_hash() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        let authority = CertificateAuthority::create("kubernetes", 0).unwrap();
        let other = CertificateAuthority::create("kubernetes", 0).unwrap();
        let hash =
            |of: &CertificateAuthority| vec![pki::public_key_hash(of.certificate()).unwrap()];
        let ca = BASE64_STANDARD.encode(authority.certificate_pem());
        let text = format!(
            "clusters:\n- name: ''\n  cluster: {{server: 'https://192.0.2.2:6443', certificate-authority-data: {ca}}}\n"
        );
        let good = map(&text, &signed(&text, "abcdef", "0123456789abcdef"));
        let found = verify(&good, &token, &hash(&authority)).unwrap().unwrap();
        assert_eq!(found.server, "https://192.0.2.2:6443");
        assert_eq!(found.ca, authority.certificate_pem().into_bytes());

        let wrong_hash = verify(&good, &token, &hash(&other)).unwrap_err().to_string();
        assert!(wrong_hash.contains("is not the one of --ca-hash"), "{wrong_hash}");
        let forged = map(&text, &signed(&text, "abcdef", "fedcba9876543210"));
        assert!(verify(&forged, &token, &hash(&authority)).is_err());
        let changed = map(
            &text.replace("192.0.2.2", "192.0.2.9"),
            good.data().get("jws-kubeconfig-abcdef").unwrap(),
        );
        assert!(verify(&changed, &token, &hash(&authority)).is_err());
        let other_token: BootstrapToken = "uvwxyz.0123456789abcdef".parse().unwrap();
        assert_eq!(verify(&good, &other_token, &hash(&authority)).unwrap(), None);
    }

    #[test]
    fn addresses_are_hosts_with_ports() {
        let is = |text: &str, host: &str, port| {
            assert_eq!(split_address(text).unwrap(), (host.to_owned(), port), "{text}");
        };
        is("192.0.2.2:7443", "192.0.2.2", 7443);
        is("[2001:db8::1]:6443", "2001:db8::1", 6443);
        is("https://master.example/", "master.example", 6443);
        for wrong in ["", ":6443", "a b", "user@host:1", "host:99999999"] {
            assert!(split_address(wrong).is_err(), "{wrong}");
        }
    }
}
