//! What is odd about a pod or a template of pods, though it is taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::{Lens, List, Map, ObjectMeta};
use schema::{FieldPath, WarningList};

use super::PodSpec;
use crate::{
    advice::{CommonWarnings, deprecated_node_label},
    core::{
        Affinity, Container, ContainerPort, NodeSelectorTerm, PodAffinity, PodAffinityTerm,
        PodAntiAffinity, PodTemplateSpec, SecurityContext, Volume, WeightedPodAffinityTerm,
        affinity::warn_term, volume::overlaps,
    },
};

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Volumes that are out of use: the field, what messages call it, since when.
pub(crate) const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

impl PodTemplateSpec {
    pub(crate) fn warn(&self, at: &FieldPath, warnings: &mut WarningList) {
        warn(self.spec(), self.metadata(), at, warnings);
        self.warn_app_armor(at, warnings);
    }

    /// Profiles that only an annotation names; of a pod they have become fields.
    fn warn_app_armor(&self, at: &FieldPath, warnings: &mut WarningList) {
        let of_pod = self.spec().security_context().and_then(|context| context.app_armor_profile());
        self.spec().visit(at, |container, _| {
            let own = container.security_context().and_then(SecurityContext::app_armor_profile);
            let key = format!("{APP_ARMOR}{}", container.name());
            let Some(note) = self.metadata().annotations().get(&key) else { return };
            let says = of_pod.is_some_and(|profile| match profile.type_() {
                "Unconfined" => note == "unconfined",
                "RuntimeDefault" => note == "runtime/default",
                _ => note.strip_prefix("localhost/") == profile.localhost_profile(),
            });
            if own.is_none() && !says {
                let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                warnings.push_at(&at.field("metadata").field("annotations").key(&key), why);
            }
        });
    }
}

/// Of a pod at the root, or a template at its place.
pub(super) fn warn(
    spec: &PodSpec,
    meta: &ObjectMeta,
    root: &FieldPath,
    warnings: &mut WarningList,
) {
    let (at, notes) = (root.field("spec"), root.field("metadata"));
    let notes = notes.field("annotations");
    warn_placement(spec, &at, warnings);
    for (key, why) in OLD_ANNOTATIONS {
        if meta.annotations().get(key).is_some() {
            warnings.push_at(&notes.key(key), why);
        }
    }
    at.field("volumes")
        .for_each_item(spec.volumes().iter(), |volume, at| warn_volume(volume, at, warnings));
    overlaps::warn(spec.volumes(), warnings);
    warn_duplicates(spec, &at, warnings);
    for name in ["memory", "ephemeral-storage"] {
        warnings.fractional_bytes(&at.field("overhead"), spec.overhead(), name);
    }
    let seccomp = spec.security_context().and_then(|context| context.seccomp_profile());
    if seccomp.is_none() {
        warn_seccomp(meta.annotations(), SECCOMP_POD, &notes, warnings);
    }
    spec.visit(&at, |container, at| warn_container(container, meta, &notes, at, warnings));
    warn_ports(spec, &at, warnings);
    if spec.termination_grace_period_seconds() < 0 {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push_at(&at.field("terminationGracePeriodSeconds"), why);
    }
    at.if_present("affinity", spec.affinity(), |affinity, at| {
        warn_affinity(affinity, at, warnings);
    });
    warn_addresses(spec, &at, warnings);
}

fn warn_placement(spec: &PodSpec, at: &FieldPath, warnings: &mut WarningList) {
    for (key, _) in spec.node_selector().iter() {
        if let Some(why) = deprecated_node_label(key) {
            warnings.push_at(&at.field("nodeSelector").key(key), why);
        }
    }
    if let Some(nodes) = spec.affinity().and_then(Affinity::node_affinity) {
        let at = at.field("affinity");
        let at = at.field("nodeAffinity");
        let required = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        let terms = nodes.required_during_scheduling_ignored_during_execution();
        let terms = terms.into_iter().flat_map(|terms| terms.node_selector_terms().iter());
        for (i, term) in terms.enumerate() {
            warn_term(term, false, &required.field("nodeSelectorTerms").index(i), warnings);
        }
        let preferred = at.field("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = nodes.preferred_during_scheduling_ignored_during_execution();
        for (i, term) in terms.iter().enumerate() {
            let term: &NodeSelectorTerm = term.preference();
            warn_term(term, true, &preferred.index(i).field("preference"), warnings);
        }
    }
    let at = at.field("topologySpreadConstraints");
    for (i, constraint) in spec.topology_spread_constraints().iter().enumerate() {
        let (at, key) = (at.index(i), constraint.topology_key());
        if let Some(why) = deprecated_node_label(key) {
            warnings.push_at(&at.field("topologyKey"), format!("{key} is {why}"));
        }
        if constraint.label_selector().is_none() {
            warnings.push_at(&at.field("labelSelector"), NO_SELECTOR);
        }
    }
}

fn warn_volume(volume: &Volume, at: &FieldPath, warnings: &mut WarningList) {
    let source = volume.volume_source();
    let is_old = |field: &str| !source.tree().get(field).is_null();
    let old = DEPRECATED_VOLUMES.iter().filter(|(field, ..)| is_old(field));
    let template = source.ephemeral().and_then(|source| source.volume_claim_template());
    let (first, last): (Vec<_>, Vec<_>) =
        old.partition(|(field, ..)| !matches!(*field, "cephfs" | "rbd"));
    for (_, name, why) in first {
        warnings.push_at(&at.field(name), why);
    }
    if let Some(template) = template {
        let at = at.field("ephemeral");
        template.spec().warn(&at.field("volumeClaimTemplate").field("spec"), warnings);
    }
    for (_, name, why) in last {
        warnings.push_at(&at.field(name), why);
    }
}

/// What is given twice, though only one counts.
fn warn_duplicates(spec: &PodSpec, at: &FieldPath, warnings: &mut WarningList) {
    let mut seen = BTreeSet::new();
    for (i, alias) in spec.host_aliases().iter().enumerate() {
        if !seen.insert(alias.ip()) {
            let at = at.field("hostAliases");
            warnings.push_at(&at.index(i).field("ip"), format!("duplicate ip {:?}", alias.ip()));
        }
    }
    let mut seen = BTreeSet::new();
    let secrets = at.field("imagePullSecrets");
    for (i, secret) in spec.image_pull_secrets().iter().enumerate() {
        if !seen.insert(secret.name()) {
            let what = format!("duplicate name {:?}", secret.name());
            warnings.push_at(&secrets.index(i).field("name"), what);
        }
    }
    for (i, secret) in spec.image_pull_secrets().iter().enumerate() {
        if secret.name().is_empty() {
            warnings.push_at(&secrets.index(i).field("name"), "invalid empty name \"\"");
        }
    }
}

fn warn_seccomp(notes: &Map<String>, key: &str, at: &FieldPath, warnings: &mut WarningList) {
    if notes.get(key).is_some() {
        let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        warnings.push_at(&at.key(key), why);
    }
}

fn warn_container(
    container: &Container,
    meta: &ObjectMeta,
    notes: &FieldPath,
    at: &FieldPath,
    warnings: &mut WarningList,
) {
    let seccomp = container.security_context().and_then(SecurityContext::seccomp_profile);
    if seccomp.is_none() {
        let key = format!("{SECCOMP}{}", container.name());
        warn_seccomp(meta.annotations(), &key, notes, warnings);
    }
    let resources = container.resources();
    let of = at.field("resources");
    for name in ["memory", "ephemeral-storage"] {
        warnings.fractional_bytes(&of.field("limits"), resources.limits(), name);
        warnings.fractional_bytes(&of.field("requests"), resources.requests(), name);
    }
    let mut seen = BTreeSet::new();
    for (i, variable) in container.env().iter().enumerate() {
        let (name, value) = (variable.name(), variable.value());
        let reference = format!("$({name})");
        let extends =
            variable.value_from().is_none() && value.contains(&reference) && value != reference;
        if !seen.insert(name) && !extends {
            let why = format!(
                "hides previous definition of {name:?}, which may be dropped when using apply"
            );
            warnings.push_at(&at.field("env").index(i), why);
        }
    }
}

/// A port with its path.
type Placed<'a> = (String, &'a ContainerPort);

fn warn_ports(spec: &PodSpec, at: &FieldPath, warnings: &mut WarningList) {
    let mut ports: Vec<Placed> = Vec::new();
    let mut known = KnownPorts::default();
    spec.visit(at, |container, at| {
        for (i, port) in container.ports().iter().enumerate() {
            let here = at.field("ports").index(i).to_string();
            if !warnings.is_full() {
                warn_port(port, &here, known.clashes(port).map(|i| &ports[i]), warnings);
                known.add(port, ports.len());
            }
            ports.push((here, port));
        }
    });
    let mut named: HashMap<&str, &str> = HashMap::new();
    for (here, port) in ports.iter().filter(|(_, port)| !port.name().is_empty()) {
        let name = port.name();
        match named.get(name) {
            Some(other) => warnings.push(format!(
                "{here}: duplicate port name {name:?} with {other}, services and probes that \
                 select ports by name will use {other}"
            )),
            None => drop(named.insert(name, here)),
        }
    }
}

/// The places of ports by what they can clash on: the container's port and protocol, then the
/// host's port and address. Only ports that clash are found.
#[derive(Default)]
struct KnownPorts<'a>(HashMap<(i32, &'a str), HashMap<i32, PlacesByAddress<'a>>>);

type PlacesByAddress<'a> = BTreeMap<&'a str, Vec<usize>>;

impl<'a> KnownPorts<'a> {
    fn add(&mut self, port: &'a ContainerPort, place: usize) {
        let by_host = self.0.entry((port.container_port(), port.protocol())).or_default();
        let by_address = by_host.entry(port.host_port()).or_default();
        by_address.entry(port.host_ip()).or_default().push(place);
    }

    /// The ports that clash with this one, in their order. A port that is not on the host clashes
    /// with every other; two on the host do if they have the same address, or one has every address.
    fn clashes(&self, port: &ContainerPort) -> impl Iterator<Item = usize> {
        let mut places = Vec::new();
        if let Some(by_host) = self.0.get(&(port.container_port(), port.protocol())) {
            let all = |by: &PlacesByAddress<'_>| -> Vec<usize> {
                by.values().flatten().copied().collect()
            };
            let at = |host: i32| by_host.get(&host).map(all).unwrap_or_default();
            places = match (port.host_port(), port.host_ip()) {
                (0, _) => by_host.values().flat_map(all).collect::<Vec<usize>>(),
                (host, "") => [at(0), at(host)].concat(),
                (host, ip) => {
                    let own = by_host.get(&host);
                    let same = own.into_iter().flat_map(|by| [by.get(ip), by.get("")]);
                    at(0).into_iter().chain(same.flatten().flatten().copied()).collect()
                }
            };
            places.sort_unstable();
        }
        places.into_iter()
    }
}

fn warn_port<'a>(
    port: &ContainerPort,
    here: &str,
    clashes: impl Iterator<Item = &'a Placed<'a>>,
    warnings: &mut WarningList,
) {
    if !port.host_ip().is_empty() && port.host_port() == 0 {
        warnings.push(format!(
            "{here}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} \
             Protocol:{} HostIP:{}}}",
            port.name(),
            port.container_port(),
            port.protocol(),
            port.host_ip()
        ));
    }
    for (there, other) in clashes {
        let (host, ip) = (port.host_port(), port.host_ip());
        let what = if ip == other.host_ip() && host == other.host_port() {
            "duplicate"
        } else if host == 0 || other.host_port() == 0 {
            "overlapping"
        } else {
            "dangerously ambiguous"
        };
        warnings.push(format!("{here}: {what} port definition with {there}"));
        if warnings.is_full() {
            return;
        }
    }
}

fn warn_affinity(affinity: &Affinity, at: &FieldPath, warnings: &mut WarningList) {
    let near = affinity.pod_affinity();
    let far = affinity.pod_anti_affinity();
    let required = [
        near.map(PodAffinity::required_during_scheduling_ignored_during_execution),
        far.map(PodAntiAffinity::required_during_scheduling_ignored_during_execution),
    ];
    let preferred = [
        near.map(PodAffinity::preferred_during_scheduling_ignored_during_execution),
        far.map(PodAntiAffinity::preferred_during_scheduling_ignored_during_execution),
    ];
    for (i, name) in ["podAffinity", "podAntiAffinity"].into_iter().enumerate() {
        let at = at.field(name);
        let all = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        let terms = required[i].into_iter().flat_map(List::iter);
        for (i, _) in terms.enumerate().filter(|(_, term)| no_selector(term)) {
            warnings.push_at(&all.index(i).field("labelSelector"), NO_SELECTOR);
        }
        let all = at.field("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = preferred[i].into_iter().flat_map(List::iter);
        let terms = terms.map(WeightedPodAffinityTerm::pod_affinity_term);
        for (i, _) in terms.enumerate().filter(|(_, term)| no_selector(term)) {
            let at = all.index(i);
            warnings.push_at(&at.field("podAffinityTerm").field("labelSelector"), NO_SELECTOR);
        }
    }
}

fn no_selector(term: &PodAffinityTerm) -> bool {
    term.label_selector().is_none()
}

fn warn_addresses(spec: &PodSpec, at: &FieldPath, warnings: &mut WarningList) {
    let servers = spec.dns_config().into_iter().flat_map(|dns| dns.nameservers().iter());
    at.field("dnsConfig")
        .field("nameservers")
        .for_each_item(servers, |server, at| warnings.ip(at, server));
    for (i, alias) in spec.host_aliases().iter().enumerate() {
        warnings.ip(&at.field("hostAliases").index(i).field("ip"), alias.ip());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Pod, Volume};

    #[test]
    fn what_is_odd_is_told_once_each() {
        let port = ContainerPort::new().with_container_port(80).with_protocol("TCP");
        let container = Container::new().with_name("c").with_ports([port.clone(), port]);
        let spec = PodSpec::new()
            .with_containers([container])
            .with_termination_grace_period_seconds(-1)
            .with_volumes([Volume::new().with_name("v")]);
        let pod = Pod::new().with_spec(spec);
        let mut warnings = WarningList::default();
        warn(pod.spec(), pod.metadata(), &FieldPath::Root, &mut warnings);
        assert_eq!(
            warnings.0,
            [
                "spec.containers[0].ports[1]: duplicate port definition with \
                 spec.containers[0].ports[0]",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid \
                 and will be treated as 1",
            ]
        );
    }

    /// The clashes of ports, by comparing each with each.
    fn pairwise(ports: &[ContainerPort]) -> Vec<String> {
        let mut found = Vec::new();
        for (i, port) in ports.iter().enumerate() {
            for (j, other) in ports[..i].iter().enumerate() {
                let key =
                    |port: &ContainerPort| (port.container_port(), port.protocol().to_owned());
                let (ip, host) = (port.host_ip(), port.host_port());
                let what = if key(port) != key(other) {
                    continue;
                } else if ip == other.host_ip() && host == other.host_port() {
                    "duplicate"
                } else if host == 0 || other.host_port() == 0 {
                    "overlapping"
                } else if host == other.host_port() && ip.is_empty() != other.host_ip().is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                let at = |i: usize| format!("spec.containers[0].ports[{i}]");
                found.push(format!("{}: {what} port definition with {}", at(i), at(j)));
            }
        }
        found
    }

    #[test]
    fn clashes_are_those_that_comparing_each_with_each_finds() {
        let mut seed = 7_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..500 {
            let count = next(8);
            let ports: Vec<ContainerPort> = (0..count)
                .map(|_| {
                    ContainerPort::new()
                        .with_container_port([80, 81][next(2) as usize])
                        .with_protocol(["TCP", "UDP"][next(2) as usize])
                        .with_host_port([0, 1, 1, 2][next(4) as usize])
                        .with_host_ip(["", "10.0.0.1", "10.0.0.2"][next(3) as usize])
                })
                .collect();
            let container = Container::new()
                .with_name("c")
                .with_ports(ports.iter().cloned().collect::<List<_>>());
            let spec = PodSpec::new().with_containers([container]);
            let mut warnings = WarningList::default();
            warn_ports(&spec, &FieldPath::SPEC, &mut warnings);
            warnings.0.retain(|told| told.contains("port definition"));
            assert_eq!(warnings.0, pairwise(&ports));
        }
    }
}
