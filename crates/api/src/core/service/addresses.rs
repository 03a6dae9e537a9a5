//! The addresses of a service within the cluster: two fields that must agree, and
//! what becomes of them when the service changes.

use std::collections::BTreeSet;

use object::{List, Text, Value, names};
use schema::{ErrorList, FieldPath};

use super::{Service, ServiceSpec};

impl ServiceSpec {
    pub fn is_headless(&self) -> bool {
        self.cluster_ips().len() == 1 && self.cluster_ips().iter().next() == Some("None")
    }

    /// Whether it is reached from outside the cluster.
    pub fn is_external(&self) -> bool {
        self.needs_node_ports() || self.type_() == "ClusterIP" && !self.external_ips().is_empty()
    }

    /// Whether it has an address in the cluster, be it `None`.
    pub fn needs_cluster_ip(&self) -> bool {
        self.type_() != "ExternalName"
    }

    pub fn needs_node_ports(&self) -> bool {
        matches!(self.type_(), "NodePort" | "LoadBalancer")
    }

    /// Whether a load balancer must ask nodes if they have endpoints.
    pub fn needs_health_check(&self) -> bool {
        self.type_() == "LoadBalancer" && self.external_traffic_policy() == "Local"
    }
}

impl Service {
    /// Whether the addresses and families that are given agree.
    pub fn check_addresses(&self, old: Option<&Self>, errs: &mut ErrorList) {
        check(self.spec(), old.map(Self::spec), &FieldPath::SPEC, errs);
    }

    /// The one address, given alone, is the whole list.
    pub(super) fn align_addresses(&mut self) {
        let one = Text::from(self.spec().cluster_ip());
        if !one.is_empty() && self.spec().cluster_ips().is_empty() {
            self.spec_mut().set_cluster_ips([one]);
        }
    }

    /// Who changes only one of the two fields means both.
    pub(super) fn align_changed(&mut self, old: &Self) {
        let (before, spec) = (old.spec(), self.spec_mut());
        let same_list = spec.cluster_ips() == before.cluster_ips();
        if spec.cluster_ips().is_empty() && spec.cluster_ip() == before.cluster_ip() {
            spec.set_cluster_ips(before.cluster_ips().clone());
        } else if spec.cluster_ip() != before.cluster_ip() && same_list {
            match Text::from(spec.cluster_ip()) {
                one if one.is_empty() => spec.set_cluster_ips(List::default()),
                one => spec.set_cluster_ips([one]),
            }
        }
    }

    /// What the server has chosen stays, if a client leaves it out.
    pub(super) fn keep_chosen(&mut self, old: &Self) {
        let (before, spec) = (old.spec(), self.spec_mut());
        if before.needs_cluster_ip() && spec.needs_cluster_ip() {
            if spec.cluster_ip().is_empty() {
                spec.set_cluster_ip(before.cluster_ip());
            }
            if spec.cluster_ips().is_empty() {
                spec.set_cluster_ips(before.cluster_ips().clone());
            }
            if let (None, Some(policy)) = (spec.ip_family_policy(), before.ip_family_policy()) {
                spec.set_ip_family_policy(policy);
            }
            if spec.ip_families().is_empty() {
                spec.set_ip_families(before.ip_families().clone());
            }
        }
        if before.needs_node_ports() && spec.needs_node_ports() && !spec.ports().is_empty() {
            let used = |spec: &ServiceSpec| -> BTreeSet<i32> {
                spec.ports().iter().map(super::ServicePort::node_port).filter(|n| *n != 0).collect()
            };
            let taken: BTreeSet<i32> = used(before).intersection(&used(spec)).copied().collect();
            let ports = before.ports().by_key(|port| port.name());
            for port in spec.ports_mut().iter_mut().filter(|port| port.node_port() == 0) {
                let was = ports.get(port.name()).copied();
                let was = was.map(super::ServicePort::node_port).unwrap_or_default();
                if !taken.contains(&was) {
                    port.set_node_port(was);
                }
            }
        }
        if before.needs_health_check()
            && spec.needs_health_check()
            && spec.health_check_node_port() == 0
        {
            spec.set_health_check_node_port(before.health_check_node_port());
        }
    }

    /// A name elsewhere has no traffic within the cluster; a wrong policy is still told.
    pub(super) fn drop_internal_policy(&mut self) {
        let policy = self.spec().internal_traffic_policy();
        if self.spec().type_() == "ExternalName" && matches!(policy, Some("Cluster" | "Local")) {
            self.spec_mut().clear_internal_traffic_policy();
        }
    }

    /// What only the old type had goes with it, if nobody has touched it.
    pub(super) fn drop_outdated(&mut self, old: &Self) {
        let (before, spec) = (old.spec(), self.spec_mut());
        if before.needs_cluster_ip() && !spec.needs_cluster_ip() {
            if spec.cluster_ip() == before.cluster_ip()
                && spec.cluster_ips() == before.cluster_ips()
            {
                spec.set_cluster_ip("");
                spec.set_cluster_ips(List::default());
            }
            if spec.ip_families() == before.ip_families() {
                spec.set_ip_families(List::default());
            }
            if spec.ip_family_policy() == before.ip_family_policy() {
                spec.clear_ip_family_policy();
            }
        }
        let known = before.ports().by_key(|port| port.node_port());
        let same_ports = spec
            .ports()
            .iter()
            .all(|port| port.node_port() == 0 || known.contains_key(&port.node_port()));
        if before.needs_node_ports()
            && !spec.needs_node_ports()
            && same_ports
            && !spec.ports().is_empty()
        {
            spec.ports_mut().iter_mut().for_each(|port| port.set_node_port(0));
        }
        if before.needs_health_check()
            && !spec.needs_health_check()
            && spec.health_check_node_port() == before.health_check_node_port()
        {
            spec.set_health_check_node_port(0);
        }
        if before.type_() == "LoadBalancer" && spec.type_() != "LoadBalancer" {
            if spec.allocate_load_balancer_node_ports()
                == before.allocate_load_balancer_node_ports()
            {
                spec.clear_allocate_load_balancer_node_ports();
            }
            if spec.load_balancer_class() == before.load_balancer_class() {
                spec.clear_load_balancer_class();
            }
        }
        if before.is_external()
            && !spec.is_external()
            && spec.external_traffic_policy() == before.external_traffic_policy()
        {
            spec.set_external_traffic_policy("");
        }
    }
}

/// What was there already is taken as it is.
pub(super) fn check(
    spec: &ServiceSpec,
    old: Option<&ServiceSpec>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if !spec.needs_cluster_ip() {
        return;
    }
    let (list, all) = (at.field("clusterIPs"), spec.cluster_ips());
    let shown = || Value::from(all.clone());
    match (spec.cluster_ip(), all.iter().next()) {
        ("", None) => {}
        ("", Some(_)) => {
            errs.invalid(&list, shown(), "must be empty when `clusterIP` is not specified");
        }
        (_, None) => errs.required(&list, ""),
        (one, Some(first)) if one != first => {
            errs.invalid(&list, shown(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    check_families(spec, at, errs);
    let had: Vec<&str> = old.map_or_else(Vec::new, |old| old.cluster_ips().iter().collect());
    let mut sound = true;
    for (i, ip) in all.iter().enumerate() {
        if i == 0 && ip == "None" {
            if all.len() > 1 {
                sound = false;
                errs.invalid(&list, shown(), "'None' must be the first and only value");
            }
            continue;
        }
        let wrong = names::legacy_ip(ip, &had);
        sound &= wrong.is_empty();
        errs.invalid_each(&list.index(i), ip, wrong);
    }
    if all.len() > 2 {
        errs.invalid(&list, shown(), "may only hold up to 2 values");
    }
    if !sound {
        return;
    }
    let six = |ip: &str| ip.contains(':');
    if all.len() > 1 && all.iter().all(six) == all.iter().any(six) {
        errs.invalid(&list, shown(), "may specify no more than one IP for each IP family");
    }
    if spec.is_headless() {
        return;
    }
    for (i, (ip, family)) in all.iter().zip(spec.ip_families().iter()).enumerate() {
        if matches!(family, "IPv4" | "IPv6") && six(ip) != (family == "IPv6") {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errs.invalid(&list.index(i), ip, why);
        }
    }
}

fn check_families(spec: &ServiceSpec, at: &FieldPath, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    at.field("ipFamilies").for_each_item(spec.ip_families().iter(), |family, at| {
        errs.one_of(at, family, &["IPv4", "IPv6"]);
        errs.unique(&mut seen, at, family);
    });
    if let Some(policy) = spec.ip_family_policy() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errs.one_of(&at.field("ipFamilyPolicy"), policy, &known);
    }
}

/// An address and its family, once chosen, stay first; the second can come and go.
pub(super) fn check_changed(
    new: &ServiceSpec,
    old: &ServiceSpec,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if !new.needs_cluster_ip() || !old.needs_cluster_ip() {
        return;
    }
    let single = new.ip_family_policy() == Some("SingleStack");
    let policy = at.field("ipFamilyPolicy");
    let shown_policy = || new.ip_family_policy().map_or(Value::Null, Value::from);
    let headless = (new.is_headless(), old.is_headless());
    if headless != (true, true) {
        let pair = (new.cluster_ips(), old.cluster_ips());
        check_list(pair, pair.0, &at.field("clusterIPs"), true, errs);
        if pair.1.len() > pair.0.len() && pair.0.len() == 1 && !single {
            let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
            errs.invalid(&policy, shown_policy(), why);
        }
    }
    if headless == (false, false) {
        let pair = (new.ip_families(), old.ip_families());
        check_list(pair, new.cluster_ips(), &at.field("ipFamilies"), false, errs);
        if pair.1.len() > pair.0.len() && pair.0.len() == 1 && !single {
            let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
            errs.invalid(&policy, shown_policy(), why);
        }
    }
}

fn check_list(
    (new, old): (&List<String>, &List<String>),
    shown: &List<String>,
    at: &FieldPath,
    addresses: bool,
    errs: &mut ErrorList,
) {
    const KEPT: &str = "may not change once set";
    let value = |list: &List<String>| Value::from(list.clone());
    if new.len() == old.len() {
        for (i, (new_item, old_item)) in new.iter().zip(old.iter()).enumerate() {
            if new_item != old_item {
                let i = if addresses { i } else { 0 };
                errs.invalid(&at.index(i), value(new), KEPT);
            }
        }
        return;
    }
    if new.is_empty() {
        let what = if addresses { "primary clusterIP" } else { "primary ipFamily" };
        errs.invalid(&at.index(0), value(new), format!("{what} can not be unset"));
    } else if !old.is_empty() && new.iter().next() != old.iter().next() {
        errs.invalid(&at.index(0), value(shown), KEPT);
    }
}
