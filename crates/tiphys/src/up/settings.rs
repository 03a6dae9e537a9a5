//! `config.yaml`: the settings of a cluster. The first start chooses what nobody says; every
//! later start may change them, by flags or in the file.

mod file;
mod immutable_settings;
mod resolve;

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use object::yaml;

pub(crate) use self::resolve::{ConfigOverrides, note_restored};
use super::Profile;

/// One field for each key of the file; `file` has the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterConfig {
    pub(crate) node_name: String,
    pub(crate) node_ip: IpAddr,
    pub(crate) port: u16,
    pub(crate) cluster_cidr: String,
    pub(crate) service_cidr: String,
    /// The range of node ports, as `--service-node-port-range` has it.
    pub(crate) node_ports: String,
    /// The address of the cluster's name server: the tenth of the services.
    pub(crate) dns: IpAddr,
    /// The user that `control` runs as.
    pub(crate) control_plane_uid: u32,
    /// The name of the nftables table of services.
    pub(crate) proxy_table: String,
    pub(crate) disable: Vec<String>,
    /// Where images are pulled from, as `--registry` has it.
    pub(crate) registries: Vec<String>,
    /// The URLs of etcd, if that keeps the data.
    pub(crate) etcd: Vec<String>,
    /// Parts that we lack and somebody else brings: see `api::parts`.
    pub(crate) external: Vec<String>,
    pub(crate) profile: Profile,
    /// Further names and addresses in the API server's certificate.
    pub(crate) tls_sans: Vec<String>,
    pub(crate) args: ComponentArgs,
}

/// Extra flags of components: NAME=VALUE each.
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
        // whole or not at all: a full disk must not cost the settings
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

    /// Whether this is a further node of another machine's cluster.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_disabled("control")
    }

    /// Parts that neither we nor anybody else brings.
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
