//! `config.yaml`: what the first start chose. Not changed after.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use object::{Value, yaml};

use super::{Profile, layout::write_private, machine};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) node_name: String,
    pub(crate) node_ip: IpAddr,
    pub(crate) port: u16,
    pub(crate) cluster_cidr: String,
    pub(crate) service_cidr: String,
    /// The address of the cluster's name server: the tenth of the services.
    pub(crate) dns: IpAddr,
    /// The user that `control` runs as.
    pub(crate) user: u32,
    pub(crate) disable: Vec<String>,
    /// Where images are pulled from, as `--registry` tells it.
    pub(crate) registries: Vec<String>,
    /// Where etcd is, if that keeps the data.
    pub(crate) etcd: Vec<String>,
    /// Parts that we lack and somebody else brings: see `api::parts`.
    pub(crate) external: Vec<String>,
    pub(crate) profile: Profile,
}

/// What a user asked for; the rest is chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) node_name: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) cluster_cidr: Option<String>,
    pub(crate) service_cidr: Option<String>,
    pub(crate) disable: Vec<String>,
    pub(crate) registries: Vec<String>,
    pub(crate) etcd: Vec<String>,
    pub(crate) external: Vec<String>,
    pub(crate) profile: Option<Profile>,
}

impl Settings {
    /// What was chosen before; else chooses and keeps it. What others bring and the profile may
    /// change.
    pub(crate) fn load_or_choose(path: &Path, wishes: &Wishes) -> Result<Self> {
        if path.exists() {
            let mut settings = Self::load(path)?;
            settings.agrees(wishes)?;
            let before = settings.clone();
            if !wishes.external.is_empty() {
                settings.external.clone_from(&wishes.external);
            }
            settings.profile = wishes.profile.unwrap_or(settings.profile);
            if settings != before {
                settings.keep(path)?;
            }
            return Ok(settings);
        }
        let settings = Self::choose(wishes)?;
        settings.keep(path)?;
        Ok(settings)
    }

    pub(crate) fn keep(&self, path: &Path) -> Result<()> {
        write_private(path, yaml::to_yaml(&self.to_tree()).as_bytes())
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// The settings in a file's text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::from_tree(&yaml::from_yaml(text)?).context("the settings are not complete")
    }

    fn choose(wishes: &Wishes) -> Result<Self> {
        let (pods, services) =
            machine::ranges(wishes.cluster_cidr.as_deref(), wishes.service_cidr.as_deref())?;
        let node_name = match &wishes.node_name {
            Some(name) => name.clone(),
            None => machine::host_name()?,
        };
        Ok(Self {
            node_name,
            node_ip: machine::address().unwrap_or(pods.nth(1)),
            port: wishes.port.unwrap_or(6443),
            dns: services.nth(10),
            cluster_cidr: pods.to_string(),
            service_cidr: services.to_string(),
            user: machine::user(),
            disable: wishes.disable.clone(),
            registries: wishes.registries.clone(),
            etcd: wishes.etcd.clone(),
            external: wishes.external.clone(),
            profile: wishes.profile.unwrap_or_default(),
        })
    }

    /// A wish that another start has decided otherwise is an error, not ignored.
    fn agrees(&self, wishes: &Wishes) -> Result<()> {
        let differs = |what: &str, is: &str, wish: Option<&str>| match wish {
            Some(wish) if wish != is => {
                anyhow::bail!(
                    "--{what} {wish}: this cluster was made with {is}; use another --data-dir"
                )
            }
            _ => Ok(()),
        };
        let port = wishes.port.map(|port| port.to_string());
        differs("node-name", &self.node_name, wishes.node_name.as_deref())?;
        differs("port", &self.port.to_string(), port.as_deref())?;
        differs("cluster-cidr", &self.cluster_cidr, wishes.cluster_cidr.as_deref())?;
        differs("service-cluster-ip-range", &self.service_cidr, wishes.service_cidr.as_deref())?;
        let joined = |all: &[String]| (!all.is_empty()).then(|| all.join(","));
        let (disable, registries) = (joined(&wishes.disable), joined(&wishes.registries));
        differs("disable", &self.disable.join(","), disable.as_deref())?;
        differs("registry", &self.registries.join(","), registries.as_deref())?;
        let own = joined(&self.etcd).unwrap_or_else(|| "the embedded store".to_owned());
        differs("etcd-servers", &own, joined(&wishes.etcd).as_deref())
    }

    pub(crate) fn disables(&self, part: &str) -> bool {
        self.disable.iter().any(|own| own == part)
    }

    /// Parts that neither we nor anybody else brings.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = &'static schema::Part> {
        let external = |part: &&schema::Part| self.external.iter().any(|own| own == part.name);
        api::parts::ALL.iter().copied().filter(move |part| !external(part))
    }

    fn to_tree(&self) -> Value {
        let mut tree = Value::object();
        tree["nodeName"] = self.node_name.as_str().into();
        tree["nodeIP"] = self.node_ip.to_string().into();
        tree["port"] = i32::from(self.port).into();
        tree["clusterCIDR"] = self.cluster_cidr.as_str().into();
        tree["serviceCIDR"] = self.service_cidr.as_str().into();
        tree["clusterDNS"] = self.dns.to_string().into();
        tree["controlUser"] = i64::from(self.user).into();
        tree["disable"] = self.disable.iter().map(String::as_str).collect();
        tree["registries"] = self.registries.iter().map(String::as_str).collect();
        if !self.etcd.is_empty() {
            tree["etcdServers"] = self.etcd.iter().map(String::as_str).collect();
        }
        if !self.external.is_empty() {
            tree["external"] = self.external.iter().map(String::as_str).collect();
        }
        if self.profile != Profile::default() {
            tree["profile"] = self.profile.name().into();
        }
        tree
    }

    fn from_tree(tree: &Value) -> Option<Self> {
        let text = |name: &str| tree.get(name).as_str().map(str::to_owned);
        let number = |name: &str| tree.get(name).as_i64();
        let texts = |name: &str| {
            let items = tree.get(name).items().iter();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Some(Self {
            node_name: text("nodeName")?,
            node_ip: text("nodeIP")?.parse().ok()?,
            port: number("port")?.try_into().ok()?,
            cluster_cidr: text("clusterCIDR")?,
            service_cidr: text("serviceCIDR")?,
            dns: text("clusterDNS")?.parse().ok()?,
            user: number("controlUser")?.try_into().ok()?,
            disable: texts("disable"),
            registries: texts("registries"),
            etcd: texts("etcdServers"),
            external: texts("external"),
            profile: match tree.get("profile").as_str() {
                Some(name) => Profile::parse(name)?,
                None => Profile::default(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_is_kept() {
        let settings = Settings {
            node_name: "n".to_owned(),
            node_ip: "192.0.2.1".parse().unwrap(),
            port: 6443,
            cluster_cidr: "10.244.0.0/16".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            dns: "10.96.0.10".parse().unwrap(),
            user: 61_184,
            disable: vec!["dns".to_owned()],
            registries: vec!["*=http://192.0.2.1:5000".to_owned()],
            etcd: vec!["http://192.0.2.1:2379".to_owned()],
            external: vec!["ingress".to_owned()],
            profile: Profile::Cis,
        };
        assert!(settings.lacking().all(|part| part.name != "ingress"));
        assert!(settings.lacking().any(|part| part.name == "network-policy"));
        assert_eq!(Settings::from_tree(&settings.to_tree()), Some(settings.clone()));
        let wish = Wishes { port: Some(7443), ..Wishes::default() };
        assert!(settings.agrees(&wish).is_err());
        let wish = Wishes { disable: vec!["proxy".to_owned()], ..Wishes::default() };
        assert!(settings.agrees(&wish).is_err());
        let wish = Wishes { etcd: vec!["http://192.0.2.2:2379".to_owned()], ..Wishes::default() };
        assert!(settings.agrees(&wish).is_err());
        assert!(settings.agrees(&Wishes::default()).is_ok());
    }
}
