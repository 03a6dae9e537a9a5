//! The rules for containers.

use std::collections::BTreeSet;

use object::{Lens, List, names};
use schema::{ErrorList, FieldPath};

use super::{Container, ContainerResizePolicy, ContainerRestartRule, EphemeralContainer};
use crate::{
    core::{
        env,
        probe::{PodTermination, ProbeType},
        volume::mounts::{Volumes, check_pull_policy},
    },
    rules::ValidateField,
};

/// What the rules for a container must know of its pod.
#[derive(Debug)]
pub(crate) struct PodContext<'a> {
    pub(crate) volumes: Volumes<'a>,
    pub(crate) claims: BTreeSet<&'a str>,
    pub(crate) termination: PodTermination<'a>,
    pub(crate) restart_policy: &'a str,
    pub(crate) host_users: bool,
}

const PROBES: [(&str, ProbeType); 3] = [
    ("livenessProbe", ProbeType::Liveness),
    ("readinessProbe", ProbeType::Readiness),
    ("startupProbe", ProbeType::Startup),
];

pub(crate) fn check_containers(
    containers: &List<Container>,
    pod: &PodContext,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if containers.is_empty() {
        return errs.required(at, "");
    }
    let (mut names, mut ports) = (BTreeSet::new(), BTreeSet::new());
    at.for_each_item(containers.iter(), |container, at| {
        container.check(pod, at, errs);
        errs.unique(&mut names, &at.field("name"), container.name());
        container.check_life(pod.termination, at, errs);
        container.check_restart(at, errs);
        container.check_host_ports(&mut ports, at, errs);
    });
}

pub(crate) fn check_init_containers(
    containers: &List<Container>,
    regular: &List<Container>,
    pod: &PodContext,
    list: &FieldPath,
    errs: &mut ErrorList,
) {
    let mut names: BTreeSet<_> = regular.iter().map(Container::name).collect();
    list.for_each_item(containers.iter(), |container, at| {
        container.check(pod, at, errs);
        if container.restart_policy().is_some() || container.restart_policy_rules().is_empty() {
            container.check_restart(at, errs);
        } else {
            let why = "must specify restartPolicy when restart rules are used";
            errs.required(&at.field("restartPolicy"), why);
        }
        let name = container.name();
        if !(names.insert(name) || name.is_empty()) {
            errs.duplicate(&at.field("name"), name);
        }
        // Only within one container; and the first is always the one that is named.
        container.check_host_ports(&mut BTreeSet::new(), &list.index(0), errs);
        if container.is_sidecar() {
            container.check_life(pod.termination, at, errs);
        } else {
            container.forbid_life(at, errs);
        }
    });
}

pub(crate) fn check_ephemeral_containers(
    containers: &List<EphemeralContainer>,
    others: impl Iterator<Item: Into<String>>,
    pod: &PodContext,
    list: &FieldPath,
    errs: &mut ErrorList,
) {
    let others: BTreeSet<String> = others.map(Into::into).collect();
    let mut names = others.clone();
    for (i, ephemeral) in containers.iter().enumerate() {
        let (at, container) = (list.index(i), ephemeral.as_container());
        container.check(pod, &at, errs);
        container.check_image(&at, errs);
        if !names.insert(container.name().to_owned()) {
            errs.duplicate(&at.field("name"), container.name());
        }
        let target = ephemeral.target_container_name();
        if !target.is_empty() && !others.contains(target) {
            errs.not_found(&at.field("targetContainerName"), target);
        }
        ephemeral.forbid_fields(&at, errs);
    }
}

impl Container {
    /// What holds for containers of all sorts.
    fn check(&self, pod: &PodContext, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_format(&at.field("name"), self.name(), names::dns1123_label);
        errs.required_field(at, "image", self.image());
        let policies = ["File", "FallbackToLogsOnError"];
        let policy = self.termination_message_policy();
        errs.one_of(&at.field("terminationMessagePolicy"), policy, &policies);
        self.check_ports(&at.field("ports"), errs);
        env::check_env(self.env(), &at.field("env"), errs);
        env::check_env_from(self.env_from(), &at.field("envFrom"), errs);
        self.check_mounts(&pod.volumes, &at.field("volumeMounts"), errs);
        self.check_devices(&pod.volumes, &at.field("volumeDevices"), errs);
        check_pull_policy(&at.field("imagePullPolicy"), self.image_pull_policy(), errs);
        self.resources().check(Some(&pod.claims), &at.field("resources"), errs);
        check_resize(self.resize_policy(), pod.restart_policy, &at.field("resizePolicy"), errs);
        if let Some(context) = self.security_context() {
            context.check(pod.host_users, &at.field("securityContext"), errs);
        }
    }

    /// Of pods, not of templates.
    pub(crate) fn check_image(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.image().trim() != self.image() {
            let why = "must not have leading or trailing whitespace";
            errs.invalid(&at.field("image"), self.image(), why);
        }
    }

    fn check_ports(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut names = BTreeSet::new();
        at.for_each_item(self.ports().iter(), |port, at| {
            if !port.name().is_empty() {
                let wrong = object::names::port_name(port.name());
                if wrong.is_empty() && !names.insert(port.name()) {
                    errs.duplicate(&at.field("name"), port.name());
                }
                errs.invalid_each(&at.field("name"), port.name(), wrong);
            }
            match port.container_port() {
                0 => errs.required(&at.field("containerPort"), ""),
                n => errs.port(&at.field("containerPort"), n),
            }
            if port.host_port() != 0 {
                errs.port(&at.field("hostPort"), port.host_port());
            }
            errs.one_of(&at.field("protocol"), port.protocol(), &["SCTP", "TCP", "UDP"]);
        });
    }

    /// A port of the host is taken once.
    fn check_host_ports(&self, taken: &mut BTreeSet<String>, at: &FieldPath, errs: &mut ErrorList) {
        for (i, port) in self.ports().iter().enumerate().filter(|(_, port)| port.host_port() != 0) {
            let place = format!("{}/{}/{}", port.protocol(), port.host_ip(), port.host_port());
            if taken.contains(&place) {
                errs.duplicate(&at.field("ports").index(i).field("hostPort"), place.as_str());
            }
            taken.insert(place);
        }
    }

    fn check_life(&self, end: PodTermination, at: &FieldPath, errs: &mut ErrorList) {
        at.if_present("lifecycle", self.lifecycle(), |lifecycle, at| {
            lifecycle.check(end, at, errs);
        });
        let probes = [self.liveness_probe(), self.readiness_probe(), self.startup_probe()];
        for ((name, role), probe) in PROBES.into_iter().zip(probes) {
            at.if_present(name, probe, |probe, at| probe.check(role, end, at, errs));
        }
    }

    /// An init container that is expected to end is not asked how it is.
    fn forbid_life(&self, at: &FieldPath, errs: &mut ErrorList) {
        let why = "may not be set for init containers without restartPolicy=Always";
        for (name, set) in [
            ("lifecycle", self.lifecycle().is_some()),
            ("livenessProbe", self.liveness_probe().is_some()),
            ("readinessProbe", self.readiness_probe().is_some()),
            ("startupProbe", self.startup_probe().is_some()),
        ] {
            if set {
                errs.forbidden(&at.field(name), why);
            }
        }
        for (i, policy) in self.resize_policy().iter().enumerate() {
            if policy.restart_policy() == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let at = at.field("resizePolicy");
                errs.invalid(&at.index(i).field("restartPolicy"), policy.restart_policy(), why);
            }
        }
    }

    fn check_restart(&self, at: &FieldPath, errs: &mut ErrorList) {
        let rules = self.restart_policy_rules();
        match self.restart_policy() {
            None if rules.is_empty() => {}
            None => errs.required(
                &at.field("restartPolicy"),
                "must specify restartPolicy when restart rules are used",
            ),
            Some(policy) => {
                let known = ["Always", "Never", "OnFailure"];
                errs.one_of(&at.field("restartPolicy"), policy, &known);
            }
        }
        let at = at.field("restartPolicyRules");
        errs.max_items(&at, rules.len(), 20);
        at.for_each_item(rules.iter(), |rule, at| rule.check(at, errs));
    }
}

impl ContainerRestartRule {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("action"), self.action(), &["Restart", "RestartAllContainers"]);
        let at = at.field("exitCodes");
        let Some(codes) = self.exit_codes() else {
            return errs.required(&at, "must be specified");
        };
        errs.one_of(&at.field("operator"), codes.operator(), &["In", "NotIn"]);
        errs.max_items(&at.field("values"), codes.values().len(), 255);
    }
}

impl EphemeralContainer {
    fn forbid_fields(&self, at: &FieldPath, errs: &mut ErrorList) {
        const WHY: &str = "cannot be set for an Ephemeral Container";
        let container = self.as_container();
        let resources = container.resources();
        let mut amounts = ["limits", "requests", "claims"].into_iter();
        let some_resources = amounts.any(|name| !resources.tree().get(name).is_null());
        let said = |name: &str| !self.tree().get(name).is_null(); // even if it is empty
        for (name, set) in [
            ("ports", said("ports")),
            ("resources", some_resources),
            ("resizePolicy", said("resizePolicy")),
            ("restartPolicy", container.restart_policy().is_some()),
            ("restartPolicyRules", said("restartPolicyRules")),
            ("livenessProbe", container.liveness_probe().is_some()),
            ("readinessProbe", container.readiness_probe().is_some()),
            ("startupProbe", container.startup_probe().is_some()),
            ("lifecycle", container.lifecycle().is_some()),
        ] {
            if set {
                errs.forbidden(&at.field(name), WHY);
            }
        }
        at.field("volumeMounts").for_each_item(container.volume_mounts().iter(), |mount, at| {
            if !mount.sub_path().is_empty() {
                errs.forbidden(&at.field("subPath"), WHY);
            }
            if !mount.sub_path_expr().is_empty() {
                errs.forbidden(&at.field("subPathExpr"), WHY);
            }
        });
    }
}

fn check_resize(
    policies: &List<ContainerResizePolicy>,
    pod_restart: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (i, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.resource_name(), policy.restart_policy());
        errs.unique(&mut seen, &at.index(i), resource);
        errs.required_one_of(at, resource, &["cpu", "memory"]);
        errs.required_one_of(at, restart, &["NotRequired", "RestartContainer"]);
        if pod_restart == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errs.invalid(at, restart, why);
        }
    }
}
