//! The DaemonSet manifest that runs the proxy on every node.

const TEMPLATE: &str = include_str!("kube-proxy.yaml");

/// The manifest for this image and API server. If the cluster CIDR is empty, each proxy uses the
/// podCIDR of its node.
pub fn manifest(image: &str, server: &str, cluster_cidr: &str) -> String {
    let cluster = match cluster_cidr {
        "" => String::new(),
        range => format!("\n        - --cluster-cidr={range}"),
    };
    TEMPLATE.replace("@IMAGE@", image).replace("@SERVER@", server).replace("@CLUSTER@", &cluster)
}

#[cfg(test)]
mod tests {
    use object::{
        Value,
        yaml::{from_yaml, split_documents},
    };

    use super::*;

    #[test]
    fn all_objects_are_there_and_filled_in() {
        let text = manifest("example/tiphys:1", "https://192.0.2.1:6443", "10.244.0.0/16");
        let documents = split_documents(&text).expect("YAML");
        let all: Vec<Value> =
            documents.iter().map(|text| from_yaml(text).expect("an object")).collect();
        let kinds: Vec<_> = all.iter().filter_map(|it| it["kind"].as_str()).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRoleBinding", "ConfigMap", "DaemonSet"]);
        let container = &all[3]["spec"]["template"]["spec"]["containers"].items()[0];
        assert_eq!(container["image"].as_str(), Some("example/tiphys:1"));
        let args: Vec<_> = container["args"].items().iter().filter_map(Value::as_str).collect();
        let expected = [
            "--kubeconfig=/var/lib/kube-proxy/kubeconfig.conf",
            "--hostname-override=$(NODE_NAME)",
            "--cluster-cidr=10.244.0.0/16",
        ];
        assert_eq!(args, expected);
        let kubeconfig = all[2]["data"]["kubeconfig.conf"].as_str().expect("a file");
        let kubeconfig = from_yaml(kubeconfig).expect("YAML");
        let cluster = &kubeconfig["clusters"].items()[0]["cluster"];
        assert_eq!(cluster["server"].as_str(), Some("https://192.0.2.1:6443"));
        assert!(!text.contains('@'));
        assert!(!manifest("i", "s", "").contains("cluster-cidr"));
    }
}
