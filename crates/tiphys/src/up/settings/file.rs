//! Reading and writing of `config.yaml`: its keys, and errors with line and column.

use anyhow::{Context as _, Result, bail, ensure};
use object::{Value, yaml};

use super::{ClusterConfig, ComponentArgs};
use crate::up::Profile;

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    List,
}

/// Every key of the file, and the type of its value.
const KEYS: &[(&str, Kind)] = &[
    ("nodeName", Kind::Text),
    ("nodeIP", Kind::Text),
    ("port", Kind::Number),
    ("clusterCIDR", Kind::Text),
    ("serviceCIDR", Kind::Text),
    ("nodePortRange", Kind::Text),
    ("clusterDNS", Kind::Text),
    ("controlUser", Kind::Number),
    ("proxyTable", Kind::Text),
    ("disable", Kind::List),
    ("registries", Kind::List),
    ("etcdServers", Kind::List),
    ("external", Kind::List),
    ("profile", Kind::Text),
    ("tlsSANs", Kind::List),
    ("kubeAPIServerArgs", Kind::List),
    ("kubeControllerManagerArgs", Kind::List),
    ("kubeSchedulerArgs", Kind::List),
    ("kubeletArgs", Kind::List),
    ("kubeProxyArgs", Kind::List),
];

/// Default of `nodePorts`, for clusters that were created before this key existed.
const NODE_PORTS: &str = "30000-32767";

impl ClusterConfig {
    /// Parses the text of a settings file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let tree = yaml::from_yaml(text)?;
        ensure!(tree.is_object(), "settings are KEY: VALUE lines");
        for (key, value) in tree.entries() {
            let at = position(text, key);
            let Some((_, kind)) = KEYS.iter().find(|(own, _)| *own == key) else {
                let nearest = crate::commands::nearest(key, KEYS.iter().map(|(own, _)| *own));
                let hint = nearest.map(|own| format!("; did you mean {own:?}?"));
                bail!("{at}: unknown key {key:?}{}", hint.unwrap_or_default());
            };
            let good = match kind {
                Kind::Text => value.as_str().is_some(),
                Kind::Number => value.as_i64().is_some(),
                Kind::List => {
                    let is_list = value.is_null() || matches!(value, Value::List(_));
                    is_list && value.items().iter().all(|item| item.as_str().is_some())
                }
            };
            let wanted = match kind {
                Kind::Text => "a text",
                Kind::Number => "a number",
                Kind::List => "a list of texts",
            };
            ensure!(good, "{at}: {key} must be {wanted}");
        }
        Self::from_tree(&tree, &|key| position(text, key))
    }

    pub(super) fn to_tree(&self) -> Value {
        let list = |all: &[String]| -> Value { all.iter().map(String::as_str).collect() };
        let mut tree = Value::object();
        tree["nodeName"] = self.node_name.as_str().into();
        tree["nodeIP"] = self.node_ip.to_string().into();
        tree["port"] = i32::from(self.port).into();
        tree["clusterCIDR"] = self.cluster_cidr.as_str().into();
        tree["serviceCIDR"] = self.service_cidr.as_str().into();
        tree["nodePortRange"] = self.node_ports.as_str().into();
        tree["clusterDNS"] = self.dns.to_string().into();
        tree["controlUser"] = i64::from(self.control_plane_uid).into();
        tree["proxyTable"] = self.proxy_table.as_str().into();
        tree["disable"] = list(&self.disable);
        tree["registries"] = list(&self.registries);
        let optional = [
            ("etcdServers", &self.etcd),
            ("external", &self.external),
            ("tlsSANs", &self.tls_sans),
            ("kubeAPIServerArgs", &self.args.api_server),
            ("kubeControllerManagerArgs", &self.args.controller_manager),
            ("kubeSchedulerArgs", &self.args.scheduler),
            ("kubeletArgs", &self.args.kubelet),
            ("kubeProxyArgs", &self.args.proxy),
        ];
        for (key, all) in optional.into_iter().filter(|(_, all)| !all.is_empty()) {
            tree[key] = list(all);
        }
        if self.profile != Profile::default() {
            tree["profile"] = self.profile.name().into();
        }
        tree
    }

    fn from_tree(tree: &Value, at: &dyn Fn(&str) -> String) -> Result<Self> {
        let text = |key: &str| -> Result<String> {
            let text = tree.get(key).as_str().with_context(|| format!("the key {key} is missing"));
            Ok(text?.to_owned())
        };
        let text_or = |key: &str, usual: &str| tree.get(key).as_str().unwrap_or(usual).to_owned();
        let texts = |key: &str| -> Vec<String> {
            let items = tree.get(key).items().iter();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let wrong = |key: &str| format!("{}: {key}", at(key));
        let address = |key: &str| -> Result<_> { text(key)?.parse().with_context(|| wrong(key)) };
        let number = |key: &str| -> Result<i64> {
            tree.get(key).as_i64().with_context(|| format!("the key {key} is missing"))
        };
        let profile = text_or("profile", Profile::default().name());
        Ok(Self {
            node_name: text("nodeName")?,
            node_ip: address("nodeIP")?,
            port: number("port")?.try_into().with_context(|| wrong("port"))?,
            cluster_cidr: text("clusterCIDR")?,
            service_cidr: text("serviceCIDR")?,
            node_ports: text_or("nodePortRange", NODE_PORTS),
            dns: address("clusterDNS")?,
            control_plane_uid: number("controlUser")?
                .try_into()
                .with_context(|| wrong("controlUser"))?,
            proxy_table: text_or("proxyTable", proxy::TABLE),
            disable: texts("disable"),
            registries: texts("registries"),
            etcd: texts("etcdServers"),
            external: texts("external"),
            profile: Profile::parse(&profile)
                .with_context(|| format!("{}: unknown profile {profile:?}", at("profile")))?,
            tls_sans: texts("tlsSANs"),
            args: ComponentArgs {
                api_server: texts("kubeAPIServerArgs"),
                controller_manager: texts("kubeControllerManagerArgs"),
                scheduler: texts("kubeSchedulerArgs"),
                kubelet: texts("kubeletArgs"),
                proxy: texts("kubeProxyArgs"),
            },
        })
    }
}

/// The position of a key in the text: line and column, from 1.
fn position(text: &str, key: &str) -> String {
    for (line, content) in (1..).zip(text.lines()) {
        let mut from = 0;
        while let Some(at) = content[from..].find(key).map(|at| at + from) {
            let before = content[..at].trim_start_matches([' ', '"', '\'']);
            let rest = content[at + key.len()..].trim_start_matches(['"', '\'', ' ']);
            let begins = before.is_empty() || before.ends_with(['{', ',', ' ', '"', '\'']);
            if begins && rest.starts_with(':') {
                return format!("line {line}, column {}", at + 1);
            }
            from = at + key.len();
        }
    }
    "line 1, column 1".to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::settings, *};

    fn refused(text: &str) -> String {
        format!("{:#}", ClusterConfig::parse(text).unwrap_err())
    }

    #[test]
    fn what_is_written_is_read() {
        let settings = settings();
        let text = yaml::to_yaml(&settings.to_tree());
        assert_eq!(ClusterConfig::parse(&text).unwrap(), settings);
        let keys: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        for (key, _) in settings.to_tree().entries() {
            assert!(keys.contains(&key), "{key}");
        }
    }

    #[test]
    fn an_unknown_key_is_an_error_that_says_where() {
        let text = yaml::to_yaml(&settings().to_tree());
        let lines = text.lines().count();
        let error = refused(&format!("{text}noodName: x\n"));
        let expected = format!(
            "line {}, column 1: unknown key \"noodName\"; did you mean \"nodeName\"?",
            lines + 1
        );
        assert_eq!(error, expected);
        let error = refused("{port: 1, \"what-is-this\": 2}");
        assert_eq!(error, "line 1, column 12: unknown key \"what-is-this\"");
    }

    #[test]
    fn a_wrong_value_is_an_error_that_says_where() {
        let text = yaml::to_yaml(&settings().to_tree());
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            refused(&text.replace(from, to))
        };
        assert!(with("port: 6443", "port: many").ends_with("port must be a number"));
        assert!(with("port: 6443", "port: 70000").contains(": port: "));
        assert!(with("profile: cis", "profile: strict").contains("unknown profile \"strict\""));
        assert!(with("nodeName: \"n\"", "#").contains("the key nodeName is missing"));
        assert!(with("nodeIP: 192.0.2.1", "nodeIP: here").contains(": nodeIP: "));
        assert!(
            refused("disable: 5").contains("line 1, column 1: disable must be a list of texts")
        );
    }

    #[test]
    fn clusters_of_earlier_versions_are_read() {
        let mut tree = settings().to_tree();
        for key in ["nodePortRange", "proxyTable"] {
            tree.remove(key);
        }
        let read = ClusterConfig::parse(&yaml::to_yaml(&tree)).unwrap();
        assert_eq!((&*read.node_ports, &*read.proxy_table), ("30000-32767", "kube-proxy"));
    }
}
