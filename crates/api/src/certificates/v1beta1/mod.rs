//! certificates/v1beta1.

mod cluster_trust_bundle;
mod pod_certificate_request;

pub use self::{
    cluster_trust_bundle::{ClusterTrustBundle, ClusterTrustBundleSpec},
    pod_certificate_request::{
        PodCertificateRequest, PodCertificateRequestSpec, PodCertificateRequestStatus,
    },
};
