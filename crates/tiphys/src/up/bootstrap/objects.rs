//! The objects through which hosts join, under kubeadm's names, so that `kubeadm join` finds them too.

use anyhow::{Result, ensure};
use api::core::ConfigMap;
use client::{Api, Client, Patch};
use object::{NamespacedName, ObjectMeta, Value, yaml};

use crate::up::{ClusterConfig, Profile, demo};

const ROLES: &str = include_str!("objects.yaml");
const NODE_RIGHTS: &str = include_str!("node_rights.yaml");
pub(super) const KUBEADM_CONFIG: &str = "kubeadm-config";
pub(super) const KUBELET_CONFIG: &str = "kubelet-config";

/// Lets kubelets renew their certificates.
pub(crate) async fn grant_node_rights(client: &Client) -> Result<()> {
    demo::apply(client, NODE_RIGHTS).await
}

/// Publishes what a joining host must know, and lets it request a certificate. `ca` is the cluster's CA in PEM.
pub(crate) async fn apply(client: &Client, settings: &ClusterConfig, ca: &str) -> Result<()> {
    ensure!(
        settings.profile != Profile::Cis,
        "the profile cis has no anonymous requests, by which joining hosts read the cluster's CA: \
         use `tiphys kubeconfig --node NAME`"
    );
    let server = std::net::SocketAddr::new(settings.node_ip, settings.port).to_string();
    grant_node_rights(client).await?;
    demo::apply(client, ROLES).await?;
    let maps = [
        ("kube-public", "cluster-info", "kubeconfig", cluster_info(&server, ca)),
        (
            "kube-system",
            KUBEADM_CONFIG,
            "ClusterConfiguration",
            cluster_configuration(settings, &server),
        ),
        ("kube-system", KUBELET_CONFIG, "kubelet", kubelet_configuration(settings)),
    ];
    for (namespace, name, key, content) in maps {
        let key_of = NamespacedName::new(namespace, name);
        let map = ConfigMap::new()
            .with_metadata(ObjectMeta::new().with_name(name).with_namespace(namespace))
            .with_data([(key, &*yaml::to_yaml(&content))]);
        let mut object = Value::from(map);
        object["apiVersion"] = "v1".into();
        object["kind"] = "ConfigMap".into();
        let patch = Patch::Apply { object, manager: "tiphys".into(), force: true };
        Api::<ConfigMap>::new(client).namespaced(namespace).patch(&key_of, &patch).await?;
    }
    Ok(())
}

/// A kubeconfig without users.
fn cluster_info(server: &str, ca: &str) -> Value {
    let mut cluster = Value::object();
    cluster["name"] = "".into();
    cluster["cluster"]["server"] = format!("https://{server}").into();
    let ca = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, ca);
    cluster["cluster"]["certificate-authority-data"] = ca.into();
    let mut file = Value::object();
    file["apiVersion"] = "v1".into();
    file["kind"] = "Config".into();
    file["clusters"] = std::iter::once(cluster).collect();
    file
}

fn cluster_configuration(settings: &ClusterConfig, server: &str) -> Value {
    let mut file = Value::object();
    file["apiVersion"] = "kubeadm.k8s.io/v1beta4".into();
    file["kind"] = "ClusterConfiguration".into();
    file["clusterName"] = "kubernetes".into();
    file["controlPlaneEndpoint"] = server.into();
    file["kubernetesVersion"] = server::VERSION.into();
    file["networking"]["dnsDomain"] = "cluster.local".into();
    file["networking"]["podSubnet"] = settings.cluster_cidr.as_str().into();
    file["networking"]["serviceSubnet"] = settings.service_cidr.as_str().into();
    file
}

fn kubelet_configuration(settings: &ClusterConfig) -> Value {
    let mut file = Value::object();
    file["apiVersion"] = "kubelet.config.k8s.io/v1beta1".into();
    file["kind"] = "KubeletConfiguration".into();
    file["authentication"]["anonymous"]["enabled"] = false.into();
    file["authentication"]["webhook"]["enabled"] = true.into();
    file["authentication"]["x509"]["clientCAFile"] = "/etc/kubernetes/pki/ca.crt".into();
    file["authorization"]["mode"] = "Webhook".into();
    file["clusterDNS"] = std::iter::once(Value::from(settings.dns.to_string())).collect();
    file["clusterDomain"] = "cluster.local".into();
    file["rotateCertificates"] = true.into();
    file
}
