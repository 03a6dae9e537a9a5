//! networking/v1.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

pub use self::{
    ingress::{
        HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressLoadBalancerIngress,
        IngressLoadBalancerStatus, IngressPortStatus, IngressRule, IngressRuleValue,
        IngressServiceBackend, IngressSpec, IngressStatus, IngressTLS, ServiceBackendPort,
    },
    ingress_class::{IngressClass, IngressClassParametersReference, IngressClassSpec},
    ip_address::{IPAddress, IPAddressSpec, ParentReference},
    network_policy::{
        IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule,
        NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    service_cidr::{ServiceCIDR, ServiceCIDRSpec, ServiceCIDRStatus},
};
