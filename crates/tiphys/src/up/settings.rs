//! `config.yaml`: the settings of a cluster. The first start chooses values that are not given; every later start may
//! change them, by flags or in the file.

mod file;
mod immutable_settings;
mod resolve;

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use object::yaml;

pub(crate) use self::resolve::{ConfigOverrides, note_restored};
use super::Profile;

/// The settings of a cluster, with one field for each key of the file; `file` defines the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterConfig {
    pub(crate) node_name: String,
    pub(crate) node_ip: IpAddr,
    pub(crate) port: u16,
    pub(crate) cluster_cidr: String,
    pub(crate) service_cidr: String,
    /// The port range of NodePort Services, in the format of `--service-node-port-range`.
    pub(crate) node_ports: String,
    /// The cluster IP of the cluster DNS: the tenth address of the service CIDR.
    pub(crate) dns: IpAddr,
    /// The uid that `control` runs as.
    pub(crate) control_plane_uid: u32,
    /// The name of kube-proxy's nftables table.
    pub(crate) proxy_table: String,
    pub(crate) disable: Vec<String>,
    /// Registry mirrors, in the format of `--registry`.
    pub(crate) registries: Vec<String>,
    /// The URLs of an external etcd; empty if the embedded store is used.
    pub(crate) etcd: Vec<String>,
    /// Optional features that we do not implement and another component of the cluster provides: see `api::parts`.
    pub(crate) external: Vec<String>,
    pub(crate) profile: Profile,
    /// Additional names and IP addresses in the API server's certificate.
    pub(crate) tls_sans: Vec<String>,
    pub(crate) args: ComponentArgs,
}

/// Extra flags of components, each NAME=VALUE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComponentArgs {
    pub(crate) api_server: Vec<String>,
    pub(crate) controller_manager: Vec<String>,
    pub(crate) scheduler: Vec<String>,
    pub(crate) kubelet: Vec<String>,
    pub(crate) proxy: Vec<String>,
}

impl ClusterConfig {
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = yaml::to_yaml(&self.to_tree());
        // atomically: a full disk must not destroy the settings
        sys::durable_record::write(path, text.as_bytes(), sys::durable_record::Durability::Whole)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    pub(crate) fn is_disabled(&self, part: &str) -> bool {
        self.disable.iter().any(|own| own == part)
    }

    /// Whether this is a further node of another host's cluster.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_disabled("control")
    }

    /// Optional features that neither we nor another component of the cluster provides.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = &'static schema::Part> {
        let external = |part: &&schema::Part| self.external.iter().any(|own| own == part.name);
        api::parts::ALL.iter().copied().filter(move |part| !external(part))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> ClusterConfig {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        ClusterConfig {
            node_name: "n".to_owned(),
            node_ip: "192.0.2.1".parse().unwrap(),
            port: 6443,
            cluster_cidr: "10.244.0.0/16".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            node_ports: "30000-32767".to_owned(),
            dns: "10.96.0.10".parse().unwrap(),
            control_plane_uid: 61_184,
            proxy_table: "kube-proxy".to_owned(),
            disable: texts(&["dns"]),
            registries: texts(&["*=http://192.0.2.1:5000"]),
            etcd: texts(&["http://192.0.2.1:2379"]),
            external: texts(&["ingress"]),
            profile: Profile::Cis,
            tls_sans: texts(&["api.example"]),
            args: ComponentArgs {
                api_server: texts(&["event-ttl=2h"]),
                kubelet: texts(&["max-pods=20"]),
                ..ComponentArgs::default()
            },
        }
    }

    #[test]
    fn parts_that_others_bring_are_not_lacking() {
        let settings = settings();
        assert!(settings.lacking().all(|part| part.name != "ingress"));
        assert!(settings.lacking().any(|part| part.name == "network-policy"));
    }
}
