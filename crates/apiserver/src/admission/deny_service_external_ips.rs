//! The DenyServiceExternalIPs admission plugin: rejects new `externalIPs`, with which a Service
//! could intercept traffic to any address.

use api::core::Service;
use object::View;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

#[derive(Debug)]
pub(super) struct DenyServiceExternalIps;

impl AdmissionPlugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            let writes = matches!(admission.operation, Operation::Create | Operation::Update);
            if !writes || !admission.is_resource("", "services") {
                return Ok(());
            }
            let had = |ip: &str| {
                let old = admission.old.map(|old| Service::view(old).spec().external_ips());
                old.is_some_and(|old| old.iter().any(|own| own == ip))
            };
            let new = Service::view(&admission.object).spec().external_ips();
            if new.iter().all(had) {
                return Ok(());
            }
            Err(admission.forbidden("Use of external IPs is denied by admission control"))
        })
    }
}
