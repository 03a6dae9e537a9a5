//! Manifest of the DNS deployment. It uses the usual names (`coredns`, `kube-dns`), so that CoreDNS can replace this
//! server and vice versa.

use std::net::IpAddr;

const TEMPLATE: &str = include_str!("manifest.yaml");

/// The objects as YAML documents, for the cluster domain `domain` and the Service IP `address`.
pub fn manifest(image: &str, address: IpAddr, domain: &str) -> String {
    TEMPLATE
        .replace("@IMAGE@", image)
        .replace("@ADDRESS@", &address.to_string())
        .replace("@DOMAIN@", domain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{
        Value,
        yaml::{from_yaml, split_documents},
    };

    #[test]
    fn all_objects_are_there_and_filled_in() {
        let text = manifest("example/tiphys:1", [10, 96, 0, 10].into(), "cluster.test");
        let documents = split_documents(&text).expect("YAML");
        let all: Vec<Value> =
            documents.iter().map(|text| from_yaml(text).expect("an object")).collect();
        let kinds: Vec<_> = all.iter().filter_map(|it| it["kind"].as_str()).collect();
        let expected =
            ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "Service"];
        assert_eq!(kinds, expected);
        let container = &all[3]["spec"]["template"]["spec"]["containers"].items()[0];
        assert_eq!(container["image"].as_str(), Some("example/tiphys:1"));
        assert_eq!(container["args"].items()[0].as_str(), Some("--domain=cluster.test"));
        assert_eq!(all[4]["spec"]["clusterIP"].as_str(), Some("10.96.0.10"));
        assert!(!text.contains('@'));
    }
}
