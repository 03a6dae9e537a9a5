//! The rules for what a pod is to be, in a pod and in a template.

use std::collections::{BTreeSet, HashMap};

use object::{Lens, names};
use schema::{ErrorList, FieldPath, validate_labels};

use super::{PodResourceClaim, PodSpec, TopologySpreadConstraint, platform};
use crate::{
    core::{
        Container, ResourceRequirements,
        affinity::check_label_keys,
        container::{
            PodContext, check_containers, check_ephemeral_containers, check_init_containers,
        },
        probe::PodTermination,
        security_context::HostNamespaces,
        toleration::check_tolerations,
        volume::mounts::check_volumes,
    },
    rules::ValidateField,
    shown::format_go,
};

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const MAX_SECONDS: i64 = i32::MAX as i64;

impl PodSpec {
    /// `pod` is the pod's name, empty in a template.
    pub(crate) fn check(&self, pod: &str, at: &FieldPath, errs: &mut ErrorList) {
        let volumes = check_volumes(self.volumes(), pod, &at.field("volumes"), errs);
        self.check_claims(&at.field("resourceClaims"), errs);
        let pod_has = PodContext {
            volumes,
            claims: self.claim_names(),
            termination: PodTermination {
                grace: self.termination_grace_period_seconds(),
                os: self.os().map(super::PodOS::name),
            },
            restart_policy: self.restart_policy(),
            host_users: self.host_users() != Some(false),
        };
        self.check_all_containers(&pod_has, at, errs);
        self.check_resources(at, errs);
        self.check_host_ports(!pod.is_empty(), &at.field("containers"), errs);
        errs.one_of(&at.field("restartPolicy"), self.restart_policy(), &RESTART_POLICIES);
        errs.one_of(&at.field("dnsPolicy"), self.dns_policy(), &DNS_POLICIES);
        validate_labels(self.node_selector(), &at.field("nodeSelector"), errs);
        if let Some(context) = self.security_context() {
            let host = HostNamespaces { network: self.host_network(), ipc: self.host_ipc() };
            context.check(host, &at.field("securityContext"), errs);
        }
        if self.host_pid() && self.share_process_namespace() == Some(true) {
            let why = "ShareProcessNamespace and HostPID cannot both be enabled";
            errs.invalid(&at.field("shareProcessNamespace"), true, why);
        }
        at.if_present("affinity", self.affinity(), |affinity, at| affinity.check(at, errs));
        self.check_dns(&at.field("dnsConfig"), errs);
        self.check_gates(at, errs);
        self.check_spread(&at.field("topologySpreadConstraints"), errs);
        platform::check_host_process(self, at, errs);
        self.check_host_users(at, errs);
        self.check_names(at, errs);
        check_tolerations(self.tolerations(), &at.field("tolerations"), errs);
        self.check_aliases(&at.field("hostAliases"), errs);
        self.check_policies(at, errs);
        platform::check_os(self, at, errs);
        self.check_file_keys(at, errs);
    }

    /// Each container of each sort, and where it stands.
    pub(crate) fn visit<'a>(
        &'a self,
        at: &FieldPath,
        mut each: impl FnMut(&'a Container, &FieldPath),
    ) {
        for (name, list) in
            [("initContainers", self.init_containers()), ("containers", self.containers())]
        {
            at.field(name).for_each_item(list.iter(), |container, at| each(container, at));
        }
        for (i, container) in self.ephemeral_containers().iter().enumerate() {
            each(container.as_container(), &at.field("ephemeralContainers").index(i));
        }
    }

    fn check_all_containers(&self, pod: &PodContext, at: &FieldPath, errs: &mut ErrorList) {
        check_containers(self.containers(), pod, &at.field("containers"), errs);
        let init = at.field("initContainers");
        check_init_containers(self.init_containers(), self.containers(), pod, &init, errs);
        let others = self.all_containers().map(Container::name);
        let ephemeral = at.field("ephemeralContainers");
        check_ephemeral_containers(self.ephemeral_containers(), others, pod, &ephemeral, errs);
    }

    fn claim_names(&self) -> BTreeSet<&str> {
        let names = self.resource_claims().iter().map(PodResourceClaim::name);
        names.filter(|name| !name.is_empty()).collect()
    }

    fn check_claims(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut seen = BTreeSet::new();
        for (i, claim) in self.resource_claims().iter().enumerate() {
            let (at, name) = (at.index(i), claim.name());
            if name.is_empty() {
                errs.required(&at.field("name"), "");
            } else if seen.insert(name) {
                errs.label(&at.field("name"), name);
            } else {
                errs.duplicate(&at.field("name"), name);
            }
            claim.check_source(&at, errs);
        }
    }

    fn check_resources(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(resources) = self.resources() else { return };
        let at = at.field("resources");
        if self.os().is_some_and(|os| os.name() == "windows") {
            return errs.forbidden(&at, "may not be set for a windows pod");
        }
        if !resources.tree().get("claims").is_null() {
            let why = "claims may not be set for Resources at pod-level";
            errs.forbidden(&at.field("claims"), why);
        }
        resources.check_of_pod(&self.claim_names(), &at, errs);
        self.check_sums(resources, &at, errs);
    }

    /// A pod as a whole asks for at least as much as its containers do together.
    fn check_sums(&self, whole: &ResourceRequirements, at: &FieldPath, errs: &mut ErrorList) {
        for (name, sum) in self.container_requests() {
            if let Some(asked) = whole.requests().get(&name).filter(|asked| sum > *asked) {
                let why = format!(
                    "must be greater than or equal to aggregate container requests of {sum}"
                );
                errs.invalid(&at.field("requests").key(&name), asked.to_string(), why);
            }
        }
        for (name, sum) in self.container_limits() {
            let limit = whole.limits().get(&name).filter(|limit| sum > *limit);
            if let Some(limit) = limit.filter(|_| name.starts_with("hugepages-")) {
                let why =
                    format!("must be greater than or equal to aggregate container limits of {sum}");
                errs.invalid(&at.field("limits").key(&name), limit.to_string(), why);
            }
        }
        for (i, container) in self.containers().iter().enumerate() {
            for (name, limit) in container.resources().limits().iter() {
                if let Some(most) = whole.limits().get(name).filter(|most| limit > *most) {
                    let why = format!("must be less than or equal to pod limits of {most}");
                    let at = at.field("containers");
                    errs.invalid(&at.index(i).key(name).field("limits"), limit.to_string(), why);
                }
            }
        }
    }

    fn check_host_ports(&self, pod: bool, at: &FieldPath, errs: &mut ErrorList) {
        if !self.host_network() {
            return;
        }
        for (i, container) in self.containers().iter().enumerate() {
            for (j, port) in container.ports().iter().enumerate() {
                let (host, own) = (port.host_port(), port.container_port());
                if host != own && (pod || host != 0) {
                    let why = "must match `containerPort` when `hostNetwork` is true";
                    errs.invalid(&at.index(i).field("ports").index(j).field("hostPort"), host, why);
                }
            }
        }
    }

    fn check_dns(&self, at: &FieldPath, errs: &mut ErrorList) {
        let alone = self.dns_policy() == "None";
        let Some(config) = self.dns_config() else {
            if alone {
                errs.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
            }
            return;
        };
        let (servers, searches) = (config.nameservers(), config.searches());
        let at_servers = at.field("nameservers");
        if alone && servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errs.required(&at_servers, why);
        }
        if servers.len() > 3 {
            let why = "must not have more than 3 nameservers";
            errs.invalid(&at_servers, object::Value::from(servers.clone()), why);
        }
        for (i, server) in servers.iter().enumerate() {
            errs.invalid_each(&at_servers.index(i), server, names::legacy_ip(server, &[]));
        }
        let at_searches = at.field("searches");
        let all = || object::Value::from(searches.clone());
        if searches.len() > 32 {
            errs.invalid(&at_searches, all(), "must not have more than 32 search paths");
        }
        if searches.iter().map(|search| search.len() + 1).sum::<usize>() > 2049 {
            let why = "must not have more than 2048 characters (including spaces) in the search \
                       list";
            errs.invalid(&at_searches, all(), why);
        }
        for (i, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
            let search = search.strip_suffix('.').unwrap_or(search);
            errs.invalid_each(&at_searches.index(i), search, underscored_subdomain(search));
        }
        for (i, option) in config.options().iter().enumerate() {
            if option.name().is_empty() {
                errs.required(&at.field("options").index(i), "must not be empty");
            }
        }
    }

    fn check_gates(&self, at: &FieldPath, errs: &mut ErrorList) {
        at.field("readinessGates").for_each_item(self.readiness_gates().iter(), |gate, at| {
            errs.qualified(&at.field("conditionType"), gate.condition_type());
        });
        let mut seen = BTreeSet::new();
        let at = at.field("schedulingGates");
        for (i, gate) in self.scheduling_gates().iter().enumerate() {
            errs.qualified(&at.index(i), gate.name());
            errs.unique(&mut seen, &at.index(i), gate.name());
        }
    }

    fn check_spread(&self, at: &FieldPath, errs: &mut ErrorList) {
        let all = self.topology_spread_constraints();
        let key = |it: &'_ TopologySpreadConstraint| {
            (it.topology_key().to_owned(), it.when_unsatisfiable().to_owned())
        };
        let mut left: HashMap<_, usize> = HashMap::new();
        all.iter().for_each(|it| *left.entry(key(it)).or_default() += 1);
        for (i, constraint) in all.iter().enumerate() {
            let at = at.index(i);
            constraint.check(&at, errs);
            let mine = key(constraint);
            let later = left.entry(mine.clone()).or_default();
            *later = later.saturating_sub(1);
            if *later > 0 {
                let both = format!("{{{}, {}}}", mine.0, mine.1);
                errs.duplicate(&at.field("{topologyKey, whenUnsatisfiable}"), both.as_str());
            }
        }
    }

    fn check_host_users(&self, at: &FieldPath, errs: &mut ErrorList) {
        const WHY: &str = "when `hostUsers` is false";
        if self.host_users() != Some(false) {
            return;
        }
        for (name, set) in [
            ("hostNetwork", self.host_network()),
            ("HostPID", self.host_pid()),
            ("HostIPC", self.host_ipc()),
        ] {
            if set {
                errs.forbidden(&at.field(name), WHY);
            }
        }
    }

    fn check_names(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, value) in [
            ("serviceAccountName", self.service_account_name()),
            ("nodeName", self.node_name()),
            ("priorityClassName", self.priority_class_name()),
        ] {
            errs.optional_format(&at.field(name), value, names::dns1123_subdomain);
        }
        for (name, value) in [("hostname", self.hostname()), ("subdomain", self.subdomain())] {
            errs.optional_format(&at.field(name), value, names::dns1123_label);
        }
        at.if_present("runtimeClassName", self.runtime_class_name(), |it, at| {
            errs.subdomain(at, it);
        });
        let Some(name) = self.hostname_override() else { return };
        let at = at.field("hostnameOverride");
        if self.set_hostname_as_fqdn() == Some(true) {
            errs.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
        }
        if self.host_network() {
            errs.forbidden(&at, "may not be specified when hostNetwork is true");
        }
        errs.max_bytes(&at, name, 64);
        errs.subdomain(&at, name);
    }

    fn check_aliases(&self, at: &FieldPath, errs: &mut ErrorList) {
        at.for_each_item(self.host_aliases().iter(), |alias, at| {
            errs.invalid_each(&at.field("ip"), alias.ip(), names::legacy_ip(alias.ip(), &[]));
            at.field("hostnames")
                .for_each_item(alias.hostnames().iter(), |it, at| errs.subdomain(at, it));
        });
    }

    fn check_policies(&self, at: &FieldPath, errs: &mut ErrorList) {
        if let Some(seconds) = self.active_deadline_seconds() {
            for wrong in names::in_range(seconds, 1, MAX_SECONDS) {
                errs.invalid(&at.field("activeDeadlineSeconds"), seconds, wrong);
            }
        }
        match self.preemption_policy() {
            None => {}
            Some("") => errs.required(&at.field("preemptionPolicy"), ""),
            Some(policy) => {
                let known = ["PreemptLowerPriority", "Never"];
                errs.one_of(&at.field("preemptionPolicy"), policy, &known);
            }
        }
        if !self.overhead().is_empty() {
            let overhead = ResourceRequirements::new().with_limits(self.overhead().clone());
            overhead.check(None, &at.field("overhead"), errs);
        }
    }

    fn check_file_keys(&self, at: &FieldPath, errs: &mut ErrorList) {
        let volumes = self.volumes().by_key(|volume| volume.name());
        self.visit(at, |container, at| {
            for (i, var) in container.env().iter().enumerate() {
                let key = var.value_from().and_then(|source| source.file_key_ref());
                let Some(name) = key.map(super::super::env::FileKeySelector::volume_name) else {
                    continue;
                };
                let at = at.field("env");
                let at = at.index(i);
                let at = at.field("valueFrom");
                let at = at.field("fileKeyRef");
                match volumes.get(name) {
                    None => errs.not_found(&at.field("volumeName"), name),
                    Some(volume) if volume.volume_source().empty_dir().is_none() => {
                        let why = "referenced volume must be of type emptyDir";
                        errs.invalid(&at.field("volumeName"), name, why);
                    }
                    Some(_) => {}
                }
            }
        });
    }
}

impl PodResourceClaim {
    fn check_source(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (claim, template) = (self.resource_claim_name(), self.resource_claim_template_name());
        if claim.is_some() == template.is_some() {
            let why = match claim {
                Some(_) => {
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be \
                     specified"
                }
                None => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            };
            errs.invalid_formatted(at, format_go(self), why);
        }
        for (field, name) in [("resourceClaimName", claim), ("resourceClaimTemplateName", template)]
        {
            at.if_present(field, name, |name, at| errs.subdomain(at, name));
        }
    }
}

impl TopologySpreadConstraint {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.positive(&at.field("maxSkew"), self.max_skew().into());
        if self.topology_key().is_empty() {
            errs.required(&at.field("topologyKey"), "can not be empty");
        }
        let action = self.when_unsatisfiable();
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        errs.one_of(&at.field("whenUnsatisfiable"), action, &actions);
        if let Some(domains) = self.min_domains() {
            let at = at.field("minDomains");
            errs.positive(&at, domains.into());
            if action != "DoNotSchedule" {
                let why = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errs.invalid(&at, domains, why);
            }
        }
        for (name, policy) in [
            ("nodeAffinityPolicy", self.node_affinity_policy()),
            ("nodeTaintsPolicy", self.node_taints_policy()),
        ] {
            at.if_present(name, policy, |policy, at| errs.one_of(at, policy, &["Honor", "Ignore"]));
        }
        let none = object::List::default();
        check_label_keys(self.match_label_keys(), &none, self.label_selector(), at, errs);
        errs.selector(&at.field("labelSelector"), self.label_selector());
    }
}

/// As a subdomain, but names of services may begin with an underscore.
fn underscored_subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    let ends = |b: Option<u8>, more: bool| {
        b.is_some_and(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || more && b == b'_')
    };
    let fits = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase() || matches!(b, b'-' | b'_');
    let label = |label: &str| {
        ends(label.bytes().next(), true)
            && ends(label.bytes().next_back(), false)
            && label.bytes().all(fits)
    };
    if !name.split('.').all(label) {
        wrong.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    wrong
}

impl PodSpec {
    /// Whether anything but what may change in a running pod differs.
    pub(super) fn same_tree(&self, other: &Self) -> bool {
        self.tree() == other.tree()
    }
}
