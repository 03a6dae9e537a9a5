//! The serving certificate of the kubelet's port, and its renewal while the kubelet runs.

use std::{fs, path::Path, sync::Arc, time::Duration};

use pki::{CertKeyPair, CertificateAuthority, CertificateSpec, Reloadable};
use rustls::ServerConfig;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{Config, Error, KubeletContext, config::Serving};

/// How often the files and the expiry of the certificate are checked.
const LOOK: Duration = Duration::from_mins(1);

/// The TLS configuration of the port, and the certificate in use.
pub(super) struct Shown {
    pub(super) tls: Arc<Reloadable<ServerConfig>>,
    pair: CertKeyPair,
}

impl Shown {
    pub(super) fn open(host: &KubeletContext) -> Result<Self, Error> {
        let pair = pair(&host.config, host.now())?;
        Ok(Self { tls: Arc::new(Reloadable::new(tls(&host.config, &pair)?)), pair })
    }

    /// Replaces the certificate when the files change or less than 30 % of its lifetime is left.
    pub(super) async fn follow(mut self, host: Arc<KubeletContext>) {
        while timeout(LOOK, host.cx.stopping()).await.is_err() {
            match self.renew(&host) {
                Ok(true) => info!("renewed the serving certificate"),
                Ok(false) => {}
                Err(error) => {
                    warn!(%error, "cannot renew the serving certificate; keeping the current one");
                }
            }
        }
    }

    fn renew(&mut self, host: &KubeletContext) -> Result<bool, Error> {
        let files = matches!(host.config.serving_cert, Some(Serving::Files { .. }));
        if !files && !self.pair.identity()?.needs_renewal(host.now()) {
            return Ok(false);
        }
        let pair = pair(&host.config, host.now())?;
        if pair.chain() == self.pair.chain() {
            return Ok(false);
        }
        self.tls.replace(tls(&host.config, &pair)?);
        self.pair = pair;
        Ok(true)
    }
}

fn tls(config: &Config, pair: &CertKeyPair) -> Result<ServerConfig, Error> {
    let mut tls = pki::server_config(pair, config.client_ca.as_ref())?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()]; // streams need upgrades
    Ok(tls)
}

/// Loads the certificate from files, or issues one.
fn pair(config: &Config, now: i64) -> Result<CertKeyPair, Error> {
    let name = &config.node_name;
    let authority = match &config.serving_cert {
        Some(Serving::Files { certificate, key }) => {
            return Ok(CertKeyPair::from_pem(&read(certificate)?, &read(key)?)?);
        }
        Some(Serving::Authority { certificate, key }) => {
            CertificateAuthority::from_pem(&read(certificate)?, &read(key)?)?
        }
        None => CertificateAuthority::create(&format!("{name}-ca"), now)?,
    };
    Ok(authority.issue(&leaf(name, &config.node_ips), now)?)
}

/// The subject of kubelet serving certificates: upstream's user name `system:node:NAME`, and the node's name and
/// addresses as SANs.
pub fn leaf(node: &str, addresses: &[std::net::IpAddr]) -> CertificateSpec {
    let mut ips = addresses.to_vec();
    ips.extend(node.parse::<std::net::IpAddr>().ok());
    CertificateSpec {
        organizations: vec!["system:nodes".to_owned()],
        ..CertificateSpec::server(&format!("system:node:{node}"), vec![node.to_owned()], ips)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| Error::Io { what: path.display().to_string(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn an_authority_signs_for_the_node_alone() {
        let folder = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::create("ca", NOW).unwrap();
        let (certificate, key) = (folder.path().join("ca.crt"), folder.path().join("ca.key"));
        fs::write(&certificate, authority.certificate_pem()).unwrap();
        fs::write(&key, authority.key_pem()).unwrap();
        let mut config = Config::new("n1", "/nonexistent");
        config.node_ips = vec![[192, 0, 2, 1].into()];
        config.serving_cert = Some(Serving::Authority { certificate, key });
        let identity = pair(&config, NOW).unwrap().identity().unwrap();
        assert_eq!(identity.common_name, "system:node:n1");
        assert_eq!(
            (&*identity.dns, &*identity.ips),
            (&["n1".to_owned()][..], &config.node_ips[..])
        );

        config.serving_cert = Some(Serving::Files {
            certificate: folder.path().join("missing"),
            key: folder.path().join("missing"),
        });
        assert!(pair(&config, NOW).is_err());
    }
}
