//! The PKI files of a cluster, under kubeadm's names.

use std::net::IpAddr;

use crate::{
    CertKeyPair, CertificateAuthority, CertificateSpec, Dir, Error, PrivateKey, PublicKey,
};

/// All certificates and keys of a control plane.
#[derive(Debug)]
pub struct ClusterPki {
    pub ca: CertificateAuthority,
    pub front_proxy_ca: CertificateAuthority,
    /// Signs service account tokens.
    pub service_accounts: PrivateKey,
    /// Public keys that verify service account tokens. `sa.pub` may contain several, so that tokens signed before a key
    /// rotation stay valid.
    pub service_account_keys: Vec<PublicKey>,
    pub apiserver: CertKeyPair,
    pub apiserver_kubelet_client: CertKeyPair,
    pub front_proxy_client: CertKeyPair,
}

/// The DNS names and IPs of the API server.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
}

impl ClusterPki {
    /// Loads the existing files, creates missing ones, and renews certificates that expire soon.
    pub fn load_or_create(dir: &Dir, names: ServerNames, now: i64) -> Result<Self, Error> {
        let ca = CertificateAuthority::load_or_create(dir, "ca", now)?;
        let front_proxy_ca = CertificateAuthority::load_or_create(dir, "front-proxy-ca", now)?;
        let (service_accounts, service_account_keys) = token_keys(dir)?;
        let issue =
            |authority, name, leaf| CertKeyPair::load_or_issue(dir, name, authority, leaf, now);
        let server = CertificateSpec::server("kube-apiserver", names.dns, names.ips);
        let kubelet = CertificateSpec::client("kube-apiserver-kubelet-client", &["system:masters"]);
        let proxy = CertificateSpec::client("front-proxy-client", &[]);
        Ok(Self {
            apiserver: issue(&ca, "apiserver", &server)?,
            apiserver_kubelet_client: issue(&ca, "apiserver-kubelet-client", &kubelet)?,
            front_proxy_client: issue(&front_proxy_ca, "front-proxy-client", &proxy)?,
            ca,
            front_proxy_ca,
            service_accounts,
            service_account_keys,
        })
    }

    /// The time when the first leaf certificate must be renewed.
    pub fn renew_at(&self) -> Result<i64, Error> {
        let leaves = [&self.apiserver, &self.apiserver_kubelet_client, &self.front_proxy_client];
        let due = leaves.map(|leaf| leaf.identity().map(|identity| identity.renew_at()));
        due.into_iter().try_fold(i64::MAX, |first, due| Ok(first.min(due?)))
    }
}

fn token_keys(dir: &Dir) -> Result<(PrivateKey, Vec<PublicKey>), Error> {
    let key = if let Some(pem) = dir.read("sa.key")? {
        PrivateKey::from_pem(&pem)?
    } else {
        let key = PrivateKey::generate()?;
        dir.create("sa.key", key.to_pem().as_bytes(), 0o600)?;
        key
    };
    let public = if let Some(pem) = dir.read("sa.pub")? {
        PublicKey::all_from_pem(&pem)?
    } else {
        dir.create("sa.pub", key.public().to_pem().as_bytes(), 0o644)?;
        vec![key.public().clone()]
    };
    Ok((key, public))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::NOW;

    const YEAR: i64 = 365 * 24 * 3600;

    #[test]
    fn files_are_made_once_and_leaves_renewed_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path()).unwrap();
        let names = ServerNames { dns: vec!["kubernetes".into()], ips: vec![] };
        let load = |names: &ServerNames, now| {
            ClusterPki::load_or_create(&dir, names.clone(), now).unwrap()
        };
        let first = load(&names, NOW);
        let again = load(&names, NOW + YEAR / 2);
        assert_eq!(first.ca.certificate(), again.ca.certificate());
        assert_eq!(first.apiserver.chain(), again.apiserver.chain());
        assert_eq!(first.service_accounts.public(), &again.service_account_keys[0]);

        let more = ServerNames { ips: vec![[10, 96, 0, 1].into()], ..names.clone() };
        let renewed = load(&more, NOW + YEAR / 2);
        assert_ne!(renewed.apiserver.chain(), first.apiserver.chain(), "it lacked an address");
        let late = load(&names, NOW + YEAR * 3 / 4);
        assert_ne!(late.front_proxy_client.chain(), first.front_proxy_client.chain());
        assert_eq!(late.ca.certificate(), first.ca.certificate());
        assert!(first.renew_at().unwrap() < NOW + YEAR * 3 / 4);
        assert!(late.renew_at().unwrap() > NOW + YEAR);

        let mut files: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files.len(), 12, "{files:?}");
    }
}
