//! A host becomes a member by a bootstrap token: finds the cluster, reads its settings, gets a client certificate.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use api::core::{ConfigMap, Node};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use client::{Api, Client, Kubeconfig};
use object::{Clock as _, NamespacedName, SystemClock, Value, to_json, yaml};
use pki::CertificateAuthority;

use super::{
    BootstrapToken,
    discovery::{DiscoveredCluster, discover},
    objects::{KUBEADM_CONFIG, KUBELET_CONFIG},
    request::kubelet_certificate,
    rotation::CERTIFICATE,
};
use crate::up::{
    DataDir, Profile,
    membership::{self, Ranges},
};

/// How long an administrator may take to approve the request where that is not automatic.
const APPROVAL: Duration = Duration::from_mins(5);

/// A node's membership file, and the kubelet's client certificate and key that it refers to.
#[derive(Debug)]
pub(in crate::up) struct Membership {
    pub(in crate::up) file: String,
    pub(in crate::up) certificate: String,
}

/// Joins `node` to the cluster at `address`.
pub(in crate::up) async fn membership(
    layout: &DataDir,
    node: &str,
    address: &str,
    token: &BootstrapToken,
    hashes: &[String],
) -> Result<Membership> {
    let cluster = discover(address, token, hashes).await?;
    let client = client(&cluster, token)?;
    refuse_ready_namesake(&client, node).await?;
    let ranges = ranges(&client).await?;
    let certificate = kubelet_certificate(&client, node, APPROVAL).await?;
    let throwaway = CertificateAuthority::create(node, SystemClock.now())?;
    let serving = throwaway.issue(&kubelet::serving_leaf(node, &[]), SystemClock.now())?;
    let kubeconfig = kubeconfig(&cluster, node, &layout.path(CERTIFICATE));
    let file = membership::write_joined(&kubeconfig, &ranges, &serving)?;
    Ok(Membership { file, certificate })
}

/// A client that authenticates with the token and trusts the discovered CA alone.
fn client(cluster: &DiscoveredCluster, token: &BootstrapToken) -> Result<Client> {
    let mut user = Value::object();
    user["token"] = token.to_string().into();
    let text = String::from_utf8(to_json(&one_user(cluster, "bootstrap", user)))?;
    let mut file = Kubeconfig::default();
    file.add(Path::new("cluster-info"), &text)?;
    Ok(Client::new(file.config(None)?.manager("tiphys").user_agent("tiphys")))
}

/// The kubeconfig of a kubelet whose certificate and key are in `file`.
fn kubeconfig(cluster: &DiscoveredCluster, node: &str, file: &Path) -> Value {
    let mut user = Value::object();
    user["client-certificate"] = file.display().to_string().into();
    user["client-key"] = file.display().to_string().into();
    one_user(cluster, &format!("system:node:{node}"), user)
}

fn one_user(cluster: &DiscoveredCluster, name: &str, user: Value) -> Value {
    let named = |name: &str, field: &str, content: Value| {
        let mut entry = Value::object();
        entry["name"] = name.into();
        entry[field] = content;
        std::iter::once(entry).collect::<Value>()
    };
    let mut server = Value::object();
    server["server"] = cluster.server.as_str().into();
    server["certificate-authority-data"] = BASE64_STANDARD.encode(&cluster.ca).into();
    let mut context = Value::object();
    context["cluster"] = "tiphys".into();
    context["user"] = name.into();
    let mut file = Value::object();
    file["apiVersion"] = "v1".into();
    file["kind"] = "Config".into();
    file["clusters"] = named("tiphys", "cluster", server);
    file["users"] = named(name, "user", user);
    file["contexts"] = named("tiphys", "context", context);
    file["current-context"] = "tiphys".into();
    file
}

/// Refuses the name of a node that is ready: two kubelets would write one Node.
async fn refuse_ready_namesake(client: &Client, node: &str) -> Result<()> {
    let found = match Api::<Node>::new(client).get(&NamespacedName::new("", node)).await {
        Err(error) if error.is_not_found() => return Ok(()),
        found => found.context("cannot ask for nodes of this name")?,
    };
    let is_ready =
        |own: &api::core::NodeCondition| own.type_() == "Ready" && own.status() == "True";
    if found.status().conditions().find(is_ready).is_some() {
        bail!("the cluster has a ready node called {node}: choose another name with --node-name");
    }
    Ok(())
}

/// The cluster's address ranges, from the ConfigMaps that kubeadm's clusters have too.
async fn ranges(client: &Client) -> Result<Ranges> {
    let maps = Api::<ConfigMap>::new(client).namespaced("kube-system");
    let read = async |name: &str, key: &str| {
        let map = maps.get(&NamespacedName::new("kube-system", name)).await;
        let map = map.with_context(|| format!("cannot read the ConfigMap {name}"))?;
        let text = map.data().get(key).with_context(|| format!("{name} has no {key}"))?;
        yaml::from_yaml(text).with_context(|| format!("{key} of {name}"))
    };
    let cluster = read(KUBEADM_CONFIG, "ClusterConfiguration").await?;
    let kubelet = read(KUBELET_CONFIG, "kubelet").await?;
    let range = |name: &str| {
        let text = cluster["networking"][name].as_str().unwrap_or_default();
        ensure!(!text.is_empty(), "{KUBEADM_CONFIG} has no networking.{name}");
        Ok(text.to_owned())
    };
    let dns = kubelet["clusterDNS"].items().first().and_then(Value::as_str);
    let dns = dns.with_context(|| format!("{KUBELET_CONFIG} has no clusterDNS"))?;
    Ok(Ranges {
        cluster_cidr: range("podSubnet")?,
        service_cidr: range("serviceSubnet")?,
        cluster_dns: dns.parse().with_context(|| format!("clusterDNS {dns:?}"))?,
        profile: Profile::Default,
    })
}
