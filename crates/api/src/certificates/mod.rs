//! certificates/v1 and v1beta1.

mod certificate_signing_request;
mod cluster_trust_bundle;
mod pem;
mod pod_certificate_request;
pub mod v1beta1;

pub use self::{
    certificate_signing_request::{
        CertificateSigningRequest, CertificateSigningRequestCondition,
        CertificateSigningRequestSpec, CertificateSigningRequestStatus,
    },
    cluster_trust_bundle::{ClusterTrustBundle, ClusterTrustBundleSpec},
    pod_certificate_request::{
        PodCertificateRequest, PodCertificateRequestSpec, PodCertificateRequestStatus,
    },
};
