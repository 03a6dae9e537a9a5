//! networking/v1: NetworkPolicy.

use std::iter;

use crate::{advice::CommonWarnings, columns, rules::ValidateField};
use macros::api;
use object::{IntOrString, LabelSelector, List, ObjectMeta, Value, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn, WarningList};

/// Rules for which traffic may reach and leave pods.
#[api]
pub struct NetworkPolicy {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Pods that the policy applies to, and the allowed traffic.
    spec: NetworkPolicySpec,
}

#[api]
pub struct NetworkPolicySpec {
    /// Label selector of the pods that the policy applies to. If empty, all pods of the namespace.
    #[api(no_omitempty)]
    pod_selector: LabelSelector,
    /// Allowed incoming traffic. For selected pods, everything that no rule of any policy allows is dropped.
    ingress: List<NetworkPolicyIngressRule>,
    /// Allowed outgoing traffic. For selected pods, everything that no rule of any policy allows is dropped.
    egress: List<NetworkPolicyEgressRule>,
    /// Directions that the policy restricts: Ingress, Egress or both.
    #[api(go_type = "[]v1.PolicyType", enum_values("Egress", "Ingress"))]
    policy_types: List<String>,
}

#[api]
pub struct NetworkPolicyIngressRule {
    /// Ports that may be reached. If empty, all.
    ports: List<NetworkPolicyPort>,
    /// Sources that are allowed. If empty, all.
    from: List<NetworkPolicyPeer>,
}

#[api]
pub struct NetworkPolicyPort {
    /// Protocol: TCP, UDP or SCTP.
    #[api(
        default = "TCP",
        unpublished_default,
        go_type = "v1.Protocol",
        enum_values("SCTP", "TCP", "UDP")
    )]
    protocol: Option<String>,
    /// Port number or name. If not set, all.
    port: Option<IntOrString>,
    /// Last port of a range that begins with port.
    end_port: Option<i32>,
}

#[api]
pub struct NetworkPolicyPeer {
    /// Label selector of pods; in this namespace unless namespaceSelector is set.
    pod_selector: Option<LabelSelector>,
    /// Label selector of namespaces.
    namespace_selector: Option<LabelSelector>,
    /// Range of IP addresses.
    ip_block: Option<IPBlock>,
}

#[api]
pub struct IPBlock {
    /// IP range, such as 192.0.2.0/24.
    cidr: Must<String>,
    /// Ranges within cidr that are excluded.
    except: List<String>,
}

#[api]
pub struct NetworkPolicyEgressRule {
    /// Ports that may be reached. If empty, all.
    ports: List<NetworkPolicyPort>,
    /// Destinations that are allowed. If empty, all.
    to: List<NetworkPolicyPeer>,
}

impl Kind for NetworkPolicy {
    const NAMES: ResourceNames =
        ResourceNames::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
            .singular("networkpolicy")
            .short(&["netpol"]);
    const EMPTY_IS_A_CHANGE: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["extensions/v1beta1"];
    const GENERATION: bool = true;
    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::NETWORK_POLICY);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Pod-Selector", |it, _| {
            columns::selector(Some(it.spec().pod_selector()))
        }),
        TableColumn::AGE,
    ];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        let ingress = spec.ingress().iter().map(|rule| ("ingress", "from", rule.from()));
        let egress = spec.egress().iter().map(|rule| ("egress", "to", rule.to()));
        for (i, (rules, peers, all)) in ingress.enumerate().chain(egress.enumerate()) {
            let at = at.field(rules);
            let at = at.index(i);
            for (j, peer) in all.iter().enumerate() {
                let at = at.field(peers);
                let at = at.index(j);
                let at = at.field("ipBlock");
                let Some(block) = peer.ip_block() else { continue };
                warnings.cidr(&at.field("cidr"), block.cidr());
                at.field("except")
                    .for_each_item(block.except().iter(), |it, at| warnings.cidr(at, it));
            }
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(&[], errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        let ingress = old.spec().ingress().iter().map(NetworkPolicyIngressRule::from);
        let egress = old.spec().egress().iter().map(NetworkPolicyEgressRule::to);
        let blocks =
            ingress.chain(egress).flat_map(List::iter).filter_map(NetworkPolicyPeer::ip_block);
        let had: Vec<&str> = blocks
            .flat_map(|block| iter::once(block.cidr()).chain(block.except().iter()))
            .collect();
        self.check(&had, errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        if spec.policy_types().is_empty() {
            if spec.egress().is_empty() {
                spec.set_policy_types(["Ingress"]);
            } else {
                spec.set_policy_types(["Ingress", "Egress"]);
            }
        }
    }
}

impl NetworkPolicy {
    /// Ranges that it `had` may stay as they are.
    fn check(&self, had: &[&str], errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        errs.selector(&at.field("podSelector"), Some(spec.pod_selector()));
        at.field("ingress").for_each_item(spec.ingress().iter(), |rule, at| {
            check_rule(rule.ports(), rule.from(), had, ("from", at), errs);
        });
        at.field("egress").for_each_item(spec.egress().iter(), |rule, at| {
            check_rule(rule.ports(), rule.to(), had, ("to", at), errs);
        });
        let types = at.field("policyTypes");
        if spec.policy_types().len() > 2 {
            let shown = Value::from(spec.policy_types().clone());
            return errs.invalid(&types, shown, "may not specify more than two policyTypes");
        }
        for (i, name) in spec.policy_types().iter().enumerate() {
            errs.one_of(&types.index(i), name, &["Ingress", "Egress"]);
        }
    }
}

fn check_rule(
    ports: &List<NetworkPolicyPort>,
    peers: &List<NetworkPolicyPeer>,
    had: &[&str],
    (field, at): (&str, &FieldPath),
    errs: &mut ErrorList,
) {
    at.field("ports").for_each_item(ports.iter(), |port, at| port.check(at, errs));
    at.field(field).for_each_item(peers.iter(), |peer, at| peer.check(had, at, errs));
}

impl NetworkPolicyPort {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("protocol"), self.protocol(), &["TCP", "UDP", "SCTP"]);
        let end = at.field("endPort");
        match (self.port(), self.end_port()) {
            (Some(IntOrString::Int(port)), last) => {
                errs.port(&at.field("port"), port);
                if let Some(last) = last {
                    if last < port {
                        errs.invalid(&end, last, "must be greater than or equal to `port`");
                    }
                    errs.port(&end, last);
                }
            }
            (Some(IntOrString::Text(name)), last) => {
                if let Some(last) = last {
                    let why = "may not be specified when `port` is non-numeric";
                    errs.invalid(&end, last, why);
                }
                errs.invalid_each(&at.field("port"), &name, names::port_name(&name));
            }
            (None, Some(last)) => {
                errs.invalid(&end, last, "may not be specified when `port` is not specified");
            }
            (None, None) => {}
        }
    }
}

impl NetworkPolicyPeer {
    fn check(&self, had: &[&str], at: &FieldPath, errs: &mut ErrorList) {
        errs.selector(&at.field("podSelector"), self.pod_selector());
        errs.selector(&at.field("namespaceSelector"), self.namespace_selector());
        let selects = self.pod_selector().is_some() || self.namespace_selector().is_some();
        match self.ip_block() {
            Some(block) => {
                block.check(had, &at.field("ipBlock"), errs);
                if selects {
                    errs.forbidden(at, "may not specify both ipBlock and another peer");
                }
            }
            None if !selects => errs.required(at, "must specify a peer"),
            None => {}
        }
    }
}

impl IPBlock {
    fn check(&self, had: &[&str], at: &FieldPath, errs: &mut ErrorList) {
        if self.cidr().is_empty() {
            return errs.required(&at.field("cidr"), "");
        }
        errs.invalid_each(&at.field("cidr"), self.cidr(), names::legacy_cidr(self.cidr(), had));
        let Some(whole) = names::sloppy_cidr(self.cidr()) else { return };
        at.field("except").for_each_item(self.except().iter(), |except, at| {
            errs.invalid_each(at, except, names::legacy_cidr(except, had));
            if names::sloppy_cidr(except).is_some_and(|part| !names::is_strict_subnet(part, whole))
            {
                errs.invalid(at, except, "must be a strict subset of `cidr`");
            }
        });
    }
}
