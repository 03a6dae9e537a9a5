//! certificates/v1: ClusterTrustBundle.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, Scope, Storage};

#[api]
pub struct ClusterTrustBundle {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: ClusterTrustBundleSpec,
}

#[api]
pub struct ClusterTrustBundleSpec {
    #[api(tag = 1)]
    signer_name: String,
    #[api(tag = 2, required, always)]
    trust_bundle: String,
}

impl Kind for ClusterTrustBundle {
    const NAMES: Names = Names {
        group: "certificates.k8s.io",
        version: "v1",
        kind: "ClusterTrustBundle",
        plural: "clustertrustbundles",
        singular: "clustertrustbundle",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("clustertrustbundles", "v1beta1");
    const BLIND_UPDATES: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
