//! core/v1: Node.

use std::collections::BTreeSet;

use crate::{advice::CommonWarnings, columns, rules::ValidateField, shown::format_go};
use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Text, Time, Value, from_json, names};
use schema::{
    ErrorList, ErrorType, FieldPath, Kind, ResourceNames, Scope, SelectableField, StorageConfig,
    Subresource, TableColumn, WarningList,
};

use super::{Taint, resources, toleration::check_taints};

/// Pods that should rather run elsewhere.
const AVOIDED: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// A machine of the cluster that runs pods.
#[api]
pub struct Node {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the node.
    spec: NodeSpec,
    /// Most recently observed status of the node, reported by its kubelet.
    status: NodeStatus,
}

#[api]
pub struct NodeSpec {
    /// IP range of the node's pods, of the primary family.
    #[api(name = "podCIDR")]
    pod_cidr: String,
    /// IP ranges of the node's pods, at most one per family.
    #[api(tag = 7, name = "podCIDRs", set, merge)]
    pod_cidrs: List<String>,
    /// ID of the machine at its cloud provider, as PROVIDER://ID.
    #[api(tag = 3, name = "providerID")]
    provider_id: String,
    /// Whether no new pods are scheduled to the node, as after kubectl cordon.
    unschedulable: bool,
    /// Taints, which keep away pods that do not tolerate them.
    taints: List<Taint>,
    /// Deprecated, and no longer used.
    config_source: Option<NodeConfigSource>,
    /// Deprecated, and no longer used.
    #[api(tag = 2, name = "externalID")]
    external_id: String,
    /// Which pods may be preempted on the node.
    #[api(tag = 8)]
    pod_preemption_policy: Option<NodePodPreemptionPolicy>,
}

#[api]
pub struct NodePodPreemptionPolicy {
    /// Whether no pod is preempted to let another grow.
    #[api(set)]
    disable_resize_preemption: List<String>,
}

#[api]
pub struct NodeConfigSource {
    /// The map with the kubelet's configuration.
    #[api(tag = 2)]
    config_map: Option<ConfigMapNodeConfigSource>,
}

#[api]
pub struct ConfigMapNodeConfigSource {
    /// The namespace of the map.
    namespace: Must<String>,
    /// The name of the map.
    name: Must<String>,
    /// The uid of the map.
    #[api(go_type = "types.UID")]
    uid: String,
    /// The version of the map.
    resource_version: String,
    /// The key under which the configuration is.
    kubelet_config_key: Must<String>,
}

#[api]
pub struct NodeStatus {
    /// Total resources of the node.
    #[api(go_type = "v1.ResourceList")]
    capacity: Map<Quantity>,
    /// Resources of the node that pods can use.
    #[api(go_type = "v1.ResourceList")]
    allocatable: Map<Quantity>,
    /// Deprecated, and no longer set.
    #[api(go_type = "v1.NodePhase", enum_values("Pending", "Running", "Terminated"))]
    phase: String,
    /// Current conditions of the node: Ready, MemoryPressure, DiskPressure, PIDPressure and others.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<NodeCondition>,
    /// Host names and IP addresses of the node.
    #[api(keys("type"), merge, merge_key = "type")]
    addresses: List<NodeAddress>,
    /// Ports of the daemons of the node.
    daemon_endpoints: NodeDaemonEndpoints,
    /// Versions of kernel, operating system, kubelet and container runtime, and IDs of the machine.
    node_info: NodeSystemInfo,
    /// Container images that the node has.
    images: List<ContainerImage>,
    /// Attachable volumes that are mounted or being mounted.
    #[api(go_type = "[]v1.UniqueVolumeName")]
    volumes_in_use: List<String>,
    /// Volumes that are attached to the node.
    volumes_attached: List<AttachedVolume>,
    /// Deprecated, and no longer used.
    config: Option<NodeConfigStatus>,
    /// Runtime handlers that the container runtime offers.
    runtime_handlers: List<NodeRuntimeHandler>,
    /// Features of the container runtime.
    features: Option<NodeFeatures>,
    /// Kubernetes features that the node declares to support.
    declared_features: List<String>,
}

#[api]
pub struct NodeDaemonEndpoints {
    /// Endpoint of the kubelet.
    kubelet_endpoint: DaemonEndpoint,
}

#[api]
pub struct DaemonEndpoint {
    /// Port number.
    #[api(name = "Port")]
    port: Must<i32>,
}

#[api]
pub struct NodeRuntimeHandler {
    /// The name of the handler; empty for the default one.
    #[api(no_omitempty)]
    name: String,
    /// What it can do.
    features: Option<NodeRuntimeHandlerFeatures>,
}

#[api]
pub struct NodeRuntimeHandlerFeatures {
    /// Whether it can make mounts read-only all the way down.
    recursive_read_only_mounts: Option<bool>,
    /// Whether it can give pods users of their own.
    user_namespaces: Option<bool>,
}

#[api]
pub struct NodeFeatures {
    /// Whether it can leave out the groups that the image names.
    supplemental_groups_policy: Option<bool>,
}

#[api]
pub struct NodeSystemInfo {
    /// Machine ID from /etc/machine-id.
    #[api(name = "machineID")]
    machine_id: Must<String>,
    /// UUID of the machine from its firmware.
    #[api(name = "systemUUID")]
    system_uuid: Must<String>,
    /// ID of the current boot.
    #[api(name = "bootID")]
    boot_id: Must<String>,
    /// Version of the kernel.
    kernel_version: Must<String>,
    /// Name of the operating system, from /etc/os-release.
    os_image: Must<String>,
    /// Name and version of the container runtime.
    container_runtime_version: Must<String>,
    /// The version of the kubelet.
    kubelet_version: Must<String>,
    /// Deprecated, and no longer used.
    kube_proxy_version: Must<String>,
    /// linux or windows.
    operating_system: Must<String>,
    /// Processor architecture, such as amd64.
    architecture: Must<String>,
    /// Swap space of the node.
    swap: Option<NodeSwapStatus>,
    /// Whether the kubelet runs without being root outside.
    running_in_user_namespace: Option<bool>,
}

#[api]
pub struct NodeSwapStatus {
    /// How many bytes there are.
    capacity: Option<i64>,
}

#[api]
pub struct NodeConfigStatus {
    /// What the node should use.
    assigned: Option<NodeConfigSource>,
    /// What it uses.
    active: Option<NodeConfigSource>,
    /// What it falls back to.
    last_known_good: Option<NodeConfigSource>,
    /// What went wrong.
    error: String,
}

#[api]
pub struct AttachedVolume {
    /// The name of the volume.
    #[api(go_type = "v1.UniqueVolumeName")]
    name: Must<String>,
    /// The device on the node.
    device_path: Must<String>,
}

#[api]
pub struct ContainerImage {
    /// Names by which the image is known, with tags and digests.
    #[api(no_omitempty)]
    names: List<String>,
    /// Size of the image in bytes.
    size_bytes: i64,
}

#[api]
pub struct NodeCondition {
    /// Type of the condition.
    #[api(go_type = "v1.NodeConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition was last reported.
    last_heartbeat_time: Time,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

#[api]
pub struct NodeAddress {
    /// Type of the address: Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.
    #[api(go_type = "v1.NodeAddressType")]
    type_: Must<String>,
    /// The address.
    address: Must<String>,
}

impl Kind for Node {
    const NAMES: ResourceNames = ResourceNames::new("", "v1", "Node", "nodes").short(&["no"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = StorageConfig::new("minions", "v1");
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::proxy("NodeProxyOptions"), Subresource::status("Node").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Status", |node, _| node.state().into()),
        TableColumn::text("Roles", |node, _| node.roles().into()),
        TableColumn::AGE,
        TableColumn::text("Version", |node, _| node.status().node_info().kubelet_version().into()),
        TableColumn::wide_text("Internal-IP", |node, _| node.address("InternalIP").into()),
        TableColumn::wide_text("External-IP", |node, _| node.address("ExternalIP").into()),
        TableColumn::wide_text("OS-Image", |node, _| {
            or_unknown(node.status().node_info().os_image()).into()
        }),
        TableColumn::wide_text("Kernel-Version", |node, _| node.kernel().into()),
        TableColumn::wide_text("Container-Runtime", |node, _| {
            or_unknown(node.status().node_info().container_runtime_version()).into()
        }),
    ];
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("spec.unschedulable", |node| {
            node.spec().unschedulable().to_string()
        })];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        if spec.config_source().is_some() {
            warnings.push_at(&at.field("configSource"), "the feature is removed");
        }
        if !spec.external_id().is_empty() {
            let why = "this field is deprecated, and is unused by Kubernetes";
            warnings.push_at(&at.field("externalID"), why);
        }
        at.field("podCIDRs")
            .for_each_item(spec.pod_cidrs().iter(), |range, at| warnings.cidr(at, range));
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(errs);
        let swap = self.status().node_info().swap().and_then(NodeSwapStatus::capacity);
        if let Some(capacity) = swap {
            errs.positive(&FieldPath::METADATA.field("nodeSwapStatus").field("capacity"), capacity);
        }
        self.check_ranges(errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check(errs);
        self.check_ranges(errs);
        self.check_addresses(errs);
        let (spec, old, at) = (self.spec(), old.spec(), FieldPath::SPEC);
        if !old.pod_cidrs().is_empty() && old.pod_cidrs() != spec.pod_cidrs() {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            errs.forbidden(&at.field("podCIDRs"), why);
        }
        let provider = at.field("providerID");
        match (old.provider_id(), spec.provider_id()) {
            ("", _) => {}
            (_, "") => errs.invalid(&provider, Value::Null, "field cannot be cleared once set"),
            (old, new) if old != new => {
                errs.invalid(&provider, Value::Null, "field cannot be modified once set");
            }
            _ => {}
        }
        if spec.external_id() != old.external_id() {
            errs.forbidden(&at.field("externalID"), "may not be updated");
        }
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        self.validate_update(old, errs);
    }

    fn default_fields(&mut self) {
        self.spec_mut().align_ranges();
        let status = self.status_mut();
        if status.allocatable().is_empty() && !status.capacity().is_empty() {
            let capacity = status.capacity().clone();
            status.set_allocatable(capacity);
        }
    }

    fn prepare_create(&mut self) {
        self.spec_mut().clear_config_source();
        self.spec_mut().clear_pod_preemption_policy();
        self.status_mut().clear_config();
    }

    fn prepare_update(&mut self, old: &Self) {
        if old.spec().config_source().is_none() {
            self.spec_mut().clear_config_source();
        }
        if old.spec().pod_preemption_policy().is_none() {
            self.spec_mut().clear_pod_preemption_policy();
        }
    }

    fn prepare_status(&mut self, old: &Self) {
        if old.status().config().is_none() {
            self.status_mut().clear_config();
        }
    }
}

impl Node {
    pub fn condition(&self, name: &str) -> Option<&NodeCondition> {
        self.status().conditions().find(|condition| condition.type_() == name)
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status() == "True")
    }

    /// The first address of this type, as tables show it.
    fn address(&self, kind: &str) -> &str {
        let found = self.status().addresses().find(|address| address.type_() == kind);
        found.map_or(columns::NONE, NodeAddress::address)
    }

    fn state(&self) -> String {
        let ready = match self.condition("Ready") {
            Some(ready) if ready.status() == "True" => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        };
        let cordoned = if self.spec().unschedulable() { ",SchedulingDisabled" } else { "" };
        format!("{ready}{cordoned}")
    }

    fn roles(&self) -> String {
        let role = |(name, value): (&str, &str)| match name.strip_prefix("node-role.kubernetes.io/")
        {
            Some(role) => Some(role.to_owned()),
            None if name == "kubernetes.io/role" => Some(value.to_owned()),
            None => None,
        };
        let roles: BTreeSet<_> = self.metadata().labels().iter().filter_map(role).collect();
        let roles = columns::join(roles.into_iter().filter(|role| !role.is_empty()));
        if roles.is_empty() { columns::NONE.into() } else { roles }
    }

    fn kernel(&self) -> String {
        let info = self.status().node_info();
        let version = or_unknown(info.kernel_version());
        match info.architecture() {
            "" => version.into(),
            architecture => format!("{version} ({architecture})"),
        }
    }
}

impl NodeSpec {
    /// The one range and the list of ranges agree; the one wins.
    fn align_ranges(&mut self) {
        let first = self.pod_cidrs().iter().next().map(Text::from);
        let one = Text::from(self.pod_cidr());
        match first {
            Some(first) if one.is_empty() => self.set_pod_cidr(first),
            first if !one.is_empty() && first.as_ref() != Some(&one) => self.set_pod_cidrs([one]),
            _ => {}
        }
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "<unknown>" } else { text }
}

impl Node {
    fn check_ranges(&self, errs: &mut ErrorList) {
        let (at, ranges) = (FieldPath::SPEC.field("podCIDRs"), self.spec().pod_cidrs());
        let mut unreadable = None;
        for (i, range) in ranges.iter().enumerate() {
            if unreadable.is_none() && names::sloppy_cidr(range).is_none() {
                unreadable = Some((i, range));
            }
            errs.invalid_each(&at.index(i), range, names::legacy_cidr(range, &[]));
        }
        if ranges.len() < 2 {
            return;
        }
        if let Some((i, range)) = unreadable {
            let why = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: \
                 <nil> (invalid CIDR address: {range})"
            );
            errs.push(ErrorType::Internal, &at, Value::Null, why);
        }
        let six = |range: &str| range.contains(':');
        let both = ranges.iter().any(six) && !ranges.iter().all(six);
        if ranges.len() > 2 || !both || unreadable.is_some() {
            let why = "may specify no more than one CIDR for each IP family";
            errs.invalid(&at, Value::from(ranges.clone()), why);
        }
    }

    fn check_features(&self, at: &FieldPath, errs: &mut ErrorList) {
        const MAX: usize = 253;
        let mut last: Option<&str> = None;
        for (i, feature) in self.status().declared_features().iter().enumerate() {
            let at = at.index(i);
            let mut parts = feature.split('/');
            let fits = |part: &str| {
                part.starts_with(|c: char| c.is_ascii_alphabetic())
                    && part.chars().all(|c| c.is_ascii_alphanumeric())
            };
            let first = parts.next().unwrap_or_default();
            let upper = first.starts_with(|c: char| c.is_ascii_uppercase());
            if feature.len() > MAX {
                let why = format!(
                    "invalid feature name {feature:?}: must be no more than {MAX} characters"
                );
                errs.invalid(&at, feature, why);
            } else if !upper || !fits(first) || !parts.all(fits) {
                let why = format!(
                    "invalid feature name {feature:?}: must start with an UpperCamelCase segment, \
                     with subsequent segments separated by '/' (e.g., MyFeature or \
                     MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
                );
                errs.invalid(&at, feature, why);
            }
            match last {
                Some(last) if last == feature => errs.duplicate(&at, feature),
                Some(last) if last > feature => {
                    errs.invalid(&at, feature, "list must be sorted alphabetically");
                }
                _ => {}
            }
            last = Some(feature);
        }
    }

    fn check(&self, errs: &mut ErrorList) {
        self.check_avoided(errs);
        check_taints(self.spec().taints(), &FieldPath::METADATA.field("taints"), errs);
        let (status, at) = (self.status(), FieldPath::STATUS);
        for (name, amounts) in
            [("capacity", status.capacity()), ("allocatable", status.allocatable())]
        {
            for (resource, amount) in amounts.iter() {
                let at = at.field(name);
                resources::rules::check_amount(resource, &amount, &at.field(resource), errs);
            }
        }
        self.check_features(&at.field("declaredFeatures"), errs);
    }

    /// Which pods should rather run elsewhere, as an old annotation says.
    fn check_avoided(&self, errs: &mut ErrorList) {
        let at = FieldPath::METADATA.field("annotations");
        let Some(text) = self.metadata().annotations().get(AVOIDED).filter(|it| !it.is_empty())
        else {
            return;
        };
        let avoided = match from_json(text.as_bytes()) {
            Ok(avoided) => avoided,
            Err(why) => return errs.invalid(&at.field("AvoidPods"), AVOIDED, why.to_string()),
        };
        at.field(AVOIDED).for_each_item(
            avoided.get("preferAvoidPods").items().iter(),
            |entry, at| {
                let (at, signature) = (at.field("PodSignature"), entry.get("podSignature"));
                match signature.get("podController") {
                    Value::Null => errs.required(&at, ""),
                    controller if controller.get("controller").as_bool() == Some(true) => {}
                    _ => {
                        let at = at.field("PodController");
                        errs.invalid(&at.field("Controller"), false, "must point to a controller");
                    }
                }
            },
        );
    }

    fn check_addresses(&self, errs: &mut ErrorList) {
        let mut seen = BTreeSet::new();
        for (i, address) in self.status().addresses().iter().enumerate() {
            if !seen.insert((address.type_(), address.address())) {
                errs.duplicate_formatted(
                    &FieldPath::STATUS.field("addresses").index(i),
                    format_go(address),
                    "",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, create_errors, created_from_json};

    #[test]
    fn roles_and_state_are_shown() {
        let mut node: Node = created_from_json(
            r#"{"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "",
            "kubernetes.io/role": "a"}}, "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"}}"#,
        );
        assert_eq!(cell(&node, "Roles"), "a,b");
        assert_eq!(cell(&node, "Status"), "Unknown,SchedulingDisabled");
        assert_eq!(node.spec().pod_cidrs().iter().collect::<Vec<_>>(), ["10.0.0.0/24"]);
        let ready = NodeCondition::new().with_type("Ready").with_status("True");
        node.status_mut().set_conditions([ready]);
        assert!(node.is_ready());
        let taint = Taint::new().with_key("k").with_effect("Sometimes");
        node.spec_mut().set_taints([taint]);
        assert_eq!(
            create_errors(&node),
            ["metadata.taints[0].effect: Unsupported value: \"Sometimes\": supported values: \
              \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""]
        );
    }
}
