//! The settings of a start: those of the file, overridden by flags, with defaults that are free on this host.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result, ensure};
use object::{Value, yaml};

use super::{ClusterConfig, ComponentArgs, immutable_settings::refuse_change};
use crate::up::{DataDir, Profile, clusters, machine};

/// The default port of the API server, if it is free.
const PORT: u16 = 6443;
/// Port ranges for NodePort Services, one for each of several clusters.
const NODE_PORTS: [&str; 6] =
    ["30000-32767", "27000-29767", "24000-26767", "21000-23767", "18000-20767", "15000-17767"];

/// Values given by flags. A setting whose override is `None` keeps its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigOverrides {
    pub(crate) node_name: Option<String>,
    pub(crate) node_ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) cluster_cidr: Option<String>,
    pub(crate) service_cidr: Option<String>,
    pub(crate) node_ports: Option<String>,
    pub(crate) disable: Option<Vec<String>>,
    pub(crate) registries: Option<Vec<String>>,
    pub(crate) etcd: Option<Vec<String>>,
    pub(crate) external: Option<Vec<String>>,
    pub(crate) profile: Option<Profile>,
    pub(crate) tls_sans: Option<Vec<String>>,
    pub(crate) api_server: Option<Vec<String>>,
    pub(crate) controller_manager: Option<Vec<String>>,
    pub(crate) scheduler: Option<Vec<String>>,
    pub(crate) kubelet: Option<Vec<String>>,
    pub(crate) proxy: Option<Vec<String>>,
}

impl ClusterConfig {
    /// The settings of the file with the overrides applied; at the first start, defaults with the
    /// overrides applied. Writes nothing. `applied` are the settings that the cluster last ran with.
    pub(crate) fn resolve(
        layout: &DataDir,
        applied: Option<&Self>,
        overrides: &ConfigOverrides,
    ) -> Result<Self> {
        let path = layout.path("config.yaml");
        let mut settings = match (path.exists(), applied) {
            (true, _) => Self::load(&path)?,
            (false, _) => Self::new_for_machine(layout, overrides)?,
        };
        settings.apply(overrides)?;
        settings.check()?;
        if let Some(applied) = applied {
            refuse_change(applied, &settings)?;
        }
        Ok(settings)
    }

    fn apply(&mut self, overrides: &ConfigOverrides) -> Result<()> {
        fn set<T: Clone>(own: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                own.clone_from(given);
            }
        }
        /// Replaces a list; `--flag=` without a value empties it.
        fn set_list(own: &mut Vec<String>, given: Option<&Vec<String>>) {
            if let Some(given) = given {
                *own = given.iter().filter(|text| !text.is_empty()).cloned().collect();
            }
        }
        set(&mut self.node_name, overrides.node_name.as_ref());
        set(&mut self.node_ip, overrides.node_ip.as_ref());
        set(&mut self.port, overrides.port.as_ref());
        set(&mut self.node_ports, overrides.node_ports.as_ref());
        set(&mut self.profile, overrides.profile.as_ref());
        if let Some(range) = &overrides.cluster_cidr {
            self.cluster_cidr =
                machine::Ipv4Cidr::parse(range).context("--cluster-cidr")?.to_string();
        }
        if let Some(range) = &overrides.service_cidr {
            let range = machine::Ipv4Cidr::parse(range).context("--service-cluster-ip-range")?;
            self.service_cidr = range.to_string();
            self.dns = range.nth(10);
        }
        set_list(&mut self.disable, overrides.disable.as_ref());
        set_list(&mut self.registries, overrides.registries.as_ref());
        set_list(&mut self.etcd, overrides.etcd.as_ref());
        set_list(&mut self.external, overrides.external.as_ref());
        set_list(&mut self.tls_sans, overrides.tls_sans.as_ref());
        set_list(&mut self.args.api_server, overrides.api_server.as_ref());
        set_list(&mut self.args.controller_manager, overrides.controller_manager.as_ref());
        set_list(&mut self.args.scheduler, overrides.scheduler.as_ref());
        set_list(&mut self.args.kubelet, overrides.kubelet.as_ref());
        set_list(&mut self.args.proxy, overrides.proxy.as_ref());
        Ok(())
    }

    /// Default settings: CIDRs, ports and names that neither the host nor another cluster on it uses.
    fn new_for_machine(layout: &DataDir, overrides: &ConfigOverrides) -> Result<Self> {
        let others = clusters::others(layout);
        let taken = others.iter().flat_map(|other| [&other.cluster_cidr, &other.service_cidr]);
        let taken: Vec<_> = taken.filter_map(|text| machine::Ipv4Cidr::parse(text).ok()).collect();
        let restored = restored(layout);
        let kept = |key: &str| restored.get(key).as_str().map(str::to_owned);
        let pods = overrides.cluster_cidr.clone().or_else(|| kept("clusterCIDR"));
        let services = overrides.service_cidr.clone().or_else(|| kept("serviceCIDR"));
        let (pods, services) = machine::choose_cidrs(pods.as_deref(), services.as_deref(), &taken)?;
        let node_name = match overrides.node_name.clone().or_else(|| kept("nodeName")) {
            Some(name) => name,
            None => machine::host_name()?,
        };
        let is_free = |port: &u16| {
            others.iter().all(|other| other.port != *port) && machine::port_is_free(*port)
        };
        let port = match overrides.port {
            Some(port) => port,
            None => (PORT..PORT + 100).find(is_free).context("no port from 6443 on is free")?,
        };
        let has_ports = |range: &&str| others.iter().any(|other| other.node_ports == *range);
        let node_ports = NODE_PORTS.iter().find(|range| !has_ports(range));
        Ok(Self {
            node_name,
            node_ip: machine::address().unwrap_or(pods.nth(1)),
            port,
            dns: services.nth(10),
            cluster_cidr: pods.to_string(),
            service_cidr: services.to_string(),
            node_ports: (*node_ports.context("no range of node ports is free")?).to_owned(),
            control_plane_uid: machine::control_plane_uid(),
            proxy_table: clusters::free_table(layout),
            disable: Vec::new(),
            registries: Vec::new(),
            etcd: Vec::new(),
            external: Vec::new(),
            profile: Profile::default(),
            tls_sans: Vec::new(),
            args: ComponentArgs::default(),
        })
    }

    /// The settings that the cluster last ran with; `None` if it has never run.
    pub(crate) fn applied(layout: &DataDir) -> Option<Self> {
        let applied = Self::load(&layout.path(APPLIED));
        let before = |path: &Path| {
            // earlier versions did not write this file
            let ran = layout.path("store").read_dir().is_ok_and(|mut store| store.next().is_some());
            ran.then(|| Self::load(path).ok()).flatten()
        };
        applied.ok().or_else(|| before(&layout.path("config.yaml")))
    }

    /// Records that the cluster runs with these settings.
    pub(crate) fn note_applied(&self, layout: &DataDir) -> Result<()> {
        self.save(&layout.path(APPLIED))
    }

    /// Validates the values.
    fn check(&self) -> Result<()> {
        let name = &self.node_name;
        ensure!(
            object::names::dns1123_subdomain(name).is_empty(),
            "--node-name {name:?}: a node's name has lower case letters, digits, '-' and '.', and \
             begins and ends with a letter or digit"
        );
        let pods = machine::Ipv4Cidr::parse(&self.cluster_cidr).context("--cluster-cidr")?;
        let services =
            machine::Ipv4Cidr::parse(&self.service_cidr).context("--service-cluster-ip-range")?;
        ensure!(
            !pods.overlaps(&services),
            "the ranges of pods ({pods}) and services ({services}) overlap"
        );
        Ok(())
    }
}

/// The settings of the cluster that the objects were restored from: its objects have addresses of its CIDRs, and its
/// pods are bound to its node.
fn restored(layout: &DataDir) -> Value {
    let text = fs::read_to_string(layout.path(RESTORED)).unwrap_or_default();
    yaml::from_yaml(&text).unwrap_or_default()
}

/// Records the settings of the cluster that the objects were restored from, for the first start.
pub(crate) fn note_restored(data: &Path, text: &[u8]) -> Result<()> {
    let path = data.join(RESTORED);
    sys::durable_record::write(&path, text, sys::durable_record::Durability::Whole)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// File below the data directory with the settings of the cluster that was restored here.
const RESTORED: &str = "restored.yaml";

/// File below the data directory with the settings that the cluster last ran with.
const APPLIED: &str = "run/applied.yaml";

#[cfg(test)]
mod tests {
    use super::{super::tests::settings, *};

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let mut settings = settings();
        let before = settings.clone();
        settings.apply(&ConfigOverrides::default()).unwrap();
        assert_eq!(settings, before);
        let overrides = ConfigOverrides {
            port: Some(7443),
            disable: Some(vec![String::new()]),
            kubelet: Some(vec!["max-pods=7".to_owned()]),
            service_cidr: Some("10.97.0.0/16".to_owned()),
            ..ConfigOverrides::default()
        };
        settings.apply(&overrides).unwrap();
        assert_eq!((settings.port, settings.disable.len()), (7443, 0));
        assert_eq!(
            (settings.args.kubelet.join(","), settings.dns.to_string()),
            ("max-pods=7".to_owned(), "10.97.0.10".to_owned())
        );
        assert_eq!(settings.registries, before.registries);
    }

    #[test]
    fn names_and_ranges_that_cannot_be_are_refused() {
        settings().check().unwrap();
        let named = |name: &str| ClusterConfig { node_name: name.to_owned(), ..settings() };
        for name in ["", "Node", "a_b", "-a", "a b"] {
            let error = named(name).check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("--node-name {name:?}")), "{error}");
        }
        let same = ClusterConfig { service_cidr: "10.244.0.0/20".to_owned(), ..settings() };
        assert!(same.check().unwrap_err().to_string().contains("overlap"));
    }
}
