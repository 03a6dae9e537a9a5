//! core/v1: container.

mod rules;

use macros::api;
use object::List;
use ref_cast::RefCast;

pub(crate) use self::rules::{
    Surroundings, check_containers, check_ephemeral_containers, check_init_containers,
};
use super::{
    EnvFromSource, EnvVar, Lifecycle, Probe, ResourceRequirements, SecurityContext, VolumeDevice,
    VolumeMount,
};

#[api]
pub struct Container {
    /// Unique in the pod.
    #[api(tag = 1, required, always)]
    name: String,
    /// The image that it runs.
    #[api(tag = 2)]
    image: String,
    /// Runs instead of the entrypoint of the image.
    #[api(tag = 3)]
    command: List<String>,
    /// Instead of the arguments of the image.
    #[api(tag = 4)]
    args: List<String>,
    /// Where it starts, if not where the image says.
    #[api(tag = 5)]
    working_dir: String,
    /// Ports that it listens on.
    #[api(tag = 6, keys("containerPort", "protocol"), merge, merge_key = "containerPort")]
    ports: List<ContainerPort>,
    /// Where environment variables come from in bulk.
    #[api(tag = 19)]
    env_from: List<EnvFromSource>,
    /// Environment variables.
    #[api(tag = 7, keys("name"), merge, merge_key = "name")]
    env: List<EnvVar>,
    /// What it asks for and may use.
    #[api(tag = 8)]
    resources: ResourceRequirements,
    /// Whether it is restarted when its resources change.
    #[api(tag = 23)]
    resize_policy: List<ContainerResizePolicy>,
    /// Instead of that of the pod; Always makes an init container run beside the others.
    #[api(tag = 24, go = "v1.ContainerRestartPolicy")]
    restart_policy: Option<String>,
    /// By exit code, instead of the restart policy.
    #[api(tag = 25)]
    restart_policy_rules: List<ContainerRestartRule>,
    /// Volumes, and where they appear.
    #[api(tag = 9, keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMount>,
    /// Volumes that appear as block devices.
    #[api(tag = 21, keys("devicePath"), merge, merge_key = "devicePath")]
    volume_devices: List<VolumeDevice>,
    /// When it fails, the container is restarted.
    #[api(tag = 10)]
    liveness_probe: Option<Probe>,
    /// While it fails, no service sends requests.
    #[api(tag = 11)]
    readiness_probe: Option<Probe>,
    /// Until it succeeds, the other probes wait.
    #[api(tag = 22)]
    startup_probe: Option<Probe>,
    /// What is done after the start and before the stop.
    #[api(tag = 12)]
    lifecycle: Option<Lifecycle>,
    /// The file whose content becomes the last message.
    #[api(tag = 13, default = "/dev/termination-log", implied)]
    termination_message_path: String,
    /// Whether the log is used where that file is empty.
    #[api(tag = 20, default = "File", implied, go = "v1.TerminationMessagePolicy")]
    termination_message_policy: String,
    /// When the image is fetched: Always, IfNotPresent or Never.
    #[api(tag = 14, go = "v1.PullPolicy")]
    image_pull_policy: String,
    /// Rights and identity of the container.
    #[api(tag = 15)]
    security_context: Option<SecurityContext>,
    /// Whether its input stays open.
    #[api(tag = 16)]
    stdin: bool,
    /// Whether its input is closed after the first client.
    #[api(tag = 17)]
    stdin_once: bool,
    /// Whether it has a terminal.
    #[api(tag = 18)]
    tty: bool,
}

#[api]
pub struct ContainerPort {
    /// By which services can refer to it.
    #[api(tag = 1)]
    name: String,
    /// The port of the node that leads here.
    #[api(tag = 2)]
    host_port: i32,
    /// The port itself.
    #[api(tag = 3, required, always)]
    container_port: i32,
    /// TCP, UDP or SCTP.
    #[api(tag = 4, default = "TCP", go = "v1.Protocol")]
    protocol: String,
    /// The address of the node that leads here.
    #[api(tag = 5, name = "hostIP")]
    host_ip: String,
}

#[api]
pub struct ContainerResizePolicy {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    resource_name: String,
    #[api(tag = 2, required, always, go = "v1.ResourceResizeRestartPolicy")]
    restart_policy: String,
}

#[api]
pub struct ContainerRestartRule {
    #[api(tag = 1, go = "v1.ContainerRestartRuleAction")]
    action: String,
    #[api(tag = 2)]
    exit_codes: Option<ContainerRestartRuleOnExitCodes>,
}

#[api]
pub struct ContainerRestartRuleOnExitCodes {
    #[api(tag = 1, go = "v1.ContainerRestartRuleOnExitCodesOperator")]
    operator: String,
    #[api(tag = 2, set)]
    values: List<i32>,
}

#[api]
pub struct EphemeralContainer {
    #[api(tag = 1, inline)]
    ephemeral_container_common: EphemeralContainerCommon,
    #[api(tag = 2)]
    target_container_name: String,
}

#[api]
pub struct EphemeralContainerCommon {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    image: String,
    #[api(tag = 3)]
    command: List<String>,
    #[api(tag = 4)]
    args: List<String>,
    #[api(tag = 5)]
    working_dir: String,
    #[api(tag = 6, keys("containerPort", "protocol"), merge, merge_key = "containerPort")]
    ports: List<ContainerPort>,
    #[api(tag = 19)]
    env_from: List<EnvFromSource>,
    #[api(tag = 7, keys("name"), merge, merge_key = "name")]
    env: List<EnvVar>,
    #[api(tag = 8)]
    resources: ResourceRequirements,
    #[api(tag = 23)]
    resize_policy: List<ContainerResizePolicy>,
    #[api(tag = 24, go = "v1.ContainerRestartPolicy")]
    restart_policy: Option<String>,
    #[api(tag = 25)]
    restart_policy_rules: List<ContainerRestartRule>,
    #[api(tag = 9, keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMount>,
    #[api(tag = 21, keys("devicePath"), merge, merge_key = "devicePath")]
    volume_devices: List<VolumeDevice>,
    #[api(tag = 10)]
    liveness_probe: Option<Probe>,
    #[api(tag = 11)]
    readiness_probe: Option<Probe>,
    #[api(tag = 22)]
    startup_probe: Option<Probe>,
    #[api(tag = 12)]
    lifecycle: Option<Lifecycle>,
    #[api(tag = 13, default = "/dev/termination-log", implied)]
    termination_message_path: String,
    #[api(tag = 20, default = "File", implied, go = "v1.TerminationMessagePolicy")]
    termination_message_policy: String,
    #[api(tag = 14, go = "v1.PullPolicy")]
    image_pull_policy: String,
    #[api(tag = 15)]
    security_context: Option<SecurityContext>,
    #[api(tag = 16)]
    stdin: bool,
    #[api(tag = 17)]
    stdin_once: bool,
    #[api(tag = 18)]
    tty: bool,
}

impl Container {
    /// Whether it is an init container that goes on running.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy() == Some("Always")
    }

    pub(crate) fn default_fields(&mut self) {
        if self.image_pull_policy().is_empty() {
            let policy = pull_policy(self.image());
            self.set_image_pull_policy(policy);
        }
        self.resources_mut().round_up();
    }
}

impl EphemeralContainer {
    /// The same container, without what only ephemeral ones have.
    pub fn as_container(&self) -> &Container {
        Container::ref_cast(&self.0)
    }

    pub(crate) fn as_container_mut(&mut self) -> &mut Container {
        Container::ref_cast_mut(&mut self.0)
    }
}

/// What is pulled every time: only an image whose tag is, or is taken to be, `latest`.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image; `latest` without one, none beside a digest or in a broken name.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b':');
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.is_empty() || !path.bytes().all(fits) || last.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    tag.or(digest.is_none().then_some("latest"))
}
