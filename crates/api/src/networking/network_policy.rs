//! networking/v1: NetworkPolicy.

use std::iter;

use crate::{advice::Advice, columns, rules::Rules};
use macros::api;
use object::{IntOrString, LabelSelector, List, ObjectMeta, Value, names};
use schema::{Column, Errors, Kind, Names, Path, Warnings};

/// Which traffic may reach and leave pods.
#[api]
pub struct NetworkPolicy {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// Whom the policy is about, and what they may do.
    spec: NetworkPolicySpec,
}

#[api]
pub struct NetworkPolicySpec {
    /// The pods that it is about.
    #[api(always)]
    pod_selector: LabelSelector,
    /// Who may reach them; all is refused that no rule allows.
    ingress: List<NetworkPolicyIngressRule>,
    /// Whom they may reach; all is refused that no rule allows.
    egress: List<NetworkPolicyEgressRule>,
    /// Ingress, Egress or both.
    #[api(go = "[]v1.PolicyType", values("Egress", "Ingress"))]
    policy_types: List<String>,
}

#[api]
pub struct NetworkPolicyIngressRule {
    /// To which ports; all when empty.
    ports: List<NetworkPolicyPort>,
    /// From where; from everywhere when empty.
    from: List<NetworkPolicyPeer>,
}

#[api]
pub struct NetworkPolicyPort {
    /// TCP, UDP or SCTP.
    #[api(default = "TCP", implied, go = "v1.Protocol", values("SCTP", "TCP", "UDP"))]
    protocol: Option<String>,
    /// The port, by number or name; all when absent.
    port: Option<IntOrString>,
    /// The last port of a range.
    end_port: Option<i32>,
}

#[api]
pub struct NetworkPolicyPeer {
    /// Which pods.
    pod_selector: Option<LabelSelector>,
    /// The pods of which namespaces.
    namespace_selector: Option<LabelSelector>,
    /// Which addresses.
    ip_block: Option<IPBlock>,
}

#[api]
pub struct IPBlock {
    /// The range of addresses.
    cidr: Must<String>,
    /// The ranges within it that are left out.
    except: List<String>,
}

#[api]
pub struct NetworkPolicyEgressRule {
    /// To which ports; all when empty.
    ports: List<NetworkPolicyPort>,
    /// To where; to everywhere when empty.
    to: List<NetworkPolicyPeer>,
}

impl Kind for NetworkPolicy {
    const NAMES: Names = Names::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
        .singular("networkpolicy")
        .short(&["netpol"]);
    const GENERATION: bool = true;
    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::NETWORK_POLICY);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Pod-Selector", |it, _| columns::selector(Some(it.spec().pod_selector()))),
        Column::AGE,
    ];

    fn warn(&self, _old: Option<&Self>, warnings: &mut Warnings) {
        let (spec, at) = (self.spec(), Path::SPEC);
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
                at.field("except").each(block.except().iter(), |it, at| warnings.cidr(at, it));
            }
        }
    }

    fn validate(&self, errs: &mut Errors) {
        self.check(&[], errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
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
    fn check(&self, had: &[&str], errs: &mut Errors) {
        let (spec, at) = (self.spec(), Path::SPEC);
        errs.selector(&at.field("podSelector"), Some(spec.pod_selector()));
        at.field("ingress").each(spec.ingress().iter(), |rule, at| {
            check_rule(rule.ports(), rule.from(), had, ("from", at), errs);
        });
        at.field("egress").each(spec.egress().iter(), |rule, at| {
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
    (field, at): (&str, &Path),
    errs: &mut Errors,
) {
    at.field("ports").each(ports.iter(), |port, at| port.check(at, errs));
    at.field(field).each(peers.iter(), |peer, at| peer.check(had, at, errs));
}

impl NetworkPolicyPort {
    fn check(&self, at: &Path, errs: &mut Errors) {
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
                errs.complaints(&at.field("port"), &name, names::port_name(&name));
            }
            (None, Some(last)) => {
                errs.invalid(&end, last, "may not be specified when `port` is not specified");
            }
            (None, None) => {}
        }
    }
}

impl NetworkPolicyPeer {
    fn check(&self, had: &[&str], at: &Path, errs: &mut Errors) {
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
    fn check(&self, had: &[&str], at: &Path, errs: &mut Errors) {
        if self.cidr().is_empty() {
            return errs.required(&at.field("cidr"), "");
        }
        errs.complaints(&at.field("cidr"), self.cidr(), names::legacy_cidr(self.cidr(), had));
        let Some(whole) = names::sloppy_cidr(self.cidr()) else { return };
        at.field("except").each(self.except().iter(), |except, at| {
            errs.complaints(at, except, names::legacy_cidr(except, had));
            if names::sloppy_cidr(except).is_some_and(|part| !names::is_within(part, whole)) {
                errs.invalid(at, except, "must be a strict subset of `cidr`");
            }
        });
    }
}
