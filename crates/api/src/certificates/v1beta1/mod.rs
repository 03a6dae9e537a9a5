//! certificates/v1beta1, where it differs from v1.

mod pod_certificate_request;
mod rules;

pub use self::pod_certificate_request::{PodCertificateRequest, PodCertificateRequestSpec};
