//! The membership file of a further node: a kubeconfig with a context for the kubelet and one for kube-proxy, and an
//! extension with the settings of the cluster.

use std::{net::IpAddr, path::Path};

use anyhow::{Context as _, Result, ensure};
use client::{Client, Kubeconfig};
use object::{Value, from_json, to_json};

use super::{ClusterConfig, Profile};

/// The contexts of the kubelet and of kube-proxy.
pub(crate) const KUBELET: &str = "kubelet";
pub(crate) const PROXY: &str = "kube-proxy";
const EXTENSION: &str = "tiphys";
const NODE: &str = "system:node:";

/// Builds the membership file from the kubeconfigs of the kubelet and of kube-proxy.
///
/// `serving` is the serving certificate of the kubelet.
pub(crate) fn write(
    settings: &ClusterConfig,
    (kubelet, proxy): (&str, &str),
    serving: &pki::CertKeyPair,
) -> Result<String> {
    let ranges = Ranges {
        cluster_cidr: settings.cluster_cidr.clone(),
        service_cidr: settings.service_cidr.clone(),
        cluster_dns: settings.dns,
        profile: settings.profile,
    };
    let (kubelet, proxy) = (from_json(kubelet.as_bytes())?, from_json(proxy.as_bytes())?);
    merge(kubelet, &proxy, &ranges, serving)
}

/// Builds the membership file of a node whose kube-proxy has the kubelet's certificate.
pub(super) fn write_joined(
    kubelet: &Value,
    ranges: &Ranges,
    serving: &pki::CertKeyPair,
) -> Result<String> {
    merge(kubelet.clone(), kubelet, ranges, serving)
}

/// Merges two kubeconfigs into one with a context for each, and adds the settings of the cluster.
fn merge(
    mut file: Value,
    proxy: &Value,
    about: &Ranges,
    serving: &pki::CertKeyPair,
) -> Result<String> {
    let mut ranges = Value::object();
    ranges["clusterCIDR"] = about.cluster_cidr.as_str().into();
    ranges["serviceCIDR"] = about.service_cidr.as_str().into();
    ranges["clusterDNS"] = about.cluster_dns.to_string().into();
    ranges["profile"] = about.profile.name().into();
    ranges["servingCertificate"] = serving.certificate_pem().into();
    ranges["servingKey"] = serving.key_pem().into();
    let mut extension = Value::object();
    extension["name"] = EXTENSION.into();
    extension["extension"] = ranges;
    let mut cluster = file["clusters"].items()[0].clone();
    cluster["cluster"]["extensions"] = std::iter::once(extension).collect();
    file["clusters"] = std::iter::once(cluster).collect();
    for list in ["users", "contexts"] {
        let mut entries = [file[list].items()[0].clone(), proxy[list].items()[0].clone()];
        if list == "contexts" {
            entries[0]["name"] = KUBELET.into();
            entries[1]["name"] = PROXY.into();
        }
        file[list] = entries.into_iter().collect();
    }
    file["current-context"] = KUBELET.into();
    Ok(format!("{}\n", String::from_utf8(to_json(&file))?))
}

/// What a node must know of its cluster beside who it is.
#[derive(Debug)]
pub(super) struct Ranges {
    pub(super) cluster_cidr: String,
    pub(super) service_cidr: String,
    pub(super) cluster_dns: IpAddr,
    pub(super) profile: Profile,
}

/// The content of a membership file.
#[derive(Debug)]
pub(crate) struct JoinConfig {
    pub(crate) node_name: String,
    pub(crate) cluster_cidr: String,
    pub(crate) service_cidr: String,
    pub(crate) cluster_dns: IpAddr,
    /// CA certificates that verify the API server, and the API server's requests to this node's kubelet.
    pub(crate) ca_bundle: Vec<u8>,
    /// The serving certificate of the kubelet, and its key.
    pub(crate) serving: [String; 2],
    pub(crate) profile: Profile,
}

impl JoinConfig {
    pub(super) fn parse(text: &str) -> Result<Self> {
        Self::of(&object::yaml::from_yaml(text)?)
    }

    fn of(tree: &Value) -> Result<Self> {
        let user = tree["users"].items().first().and_then(|user| user["name"].as_str());
        let node_name = user.and_then(|user| user.strip_prefix(NODE)).context("no node's name")?;
        let cluster = tree["clusters"].items().first().context("no cluster")?.get("cluster");
        let extensions = cluster["extensions"].items().iter();
        let ranges = extensions.map(|own| own.get("extension")).next().context("no ranges")?;
        let text = |name: &str| {
            let text = ranges[name].as_str().with_context(|| format!("no {name}"))?;
            anyhow::Ok(text.to_owned())
        };
        let authorities = cluster["certificate-authority-data"].as_str().unwrap_or_default();
        let authorities = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, authorities)?;
        ensure!(!authorities.is_empty(), "no authority");
        Ok(Self {
            node_name: node_name.to_owned(),
            cluster_cidr: text("clusterCIDR")?,
            service_cidr: text("serviceCIDR")?,
            cluster_dns: text("clusterDNS")?.parse()?,
            ca_bundle: authorities,
            serving: [text("servingCertificate")?, text("servingKey")?],
            profile: Profile::parse(&text("profile")?).context("an unknown profile")?,
        })
    }
}

/// A client of the API server, as the kubelet or as kube-proxy.
pub(crate) fn client(path: &Path, context: &str) -> Result<Client> {
    let config = Kubeconfig::read(path)?.config(Some(context))?;
    Ok(Client::new(config.manager(context).user_agent(context)))
}
