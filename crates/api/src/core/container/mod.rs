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
    name: Must<String>,
    /// The image that it runs.
    image: String,
    /// Runs instead of the entrypoint of the image.
    command: List<String>,
    /// Instead of the arguments of the image.
    args: List<String>,
    /// Where it starts, if not where the image says.
    working_dir: String,
    /// Ports that it listens on.
    #[api(keys("containerPort", "protocol"), merge, merge_key = "containerPort")]
    ports: List<ContainerPort>,
    /// Where environment variables come from in bulk.
    #[api(tag = 19)]
    env_from: List<EnvFromSource>,
    /// Environment variables.
    #[api(tag = 7, keys("name"), merge, merge_key = "name")]
    env: List<EnvVar>,
    /// What it asks for and may use.
    resources: ResourceRequirements,
    /// Whether it is restarted when its resources change.
    #[api(tag = 23)]
    resize_policy: List<ContainerResizePolicy>,
    /// Instead of that of the pod; Always makes an init container run beside the others.
    #[api(go = "v1.ContainerRestartPolicy")]
    restart_policy: Option<String>,
    /// By exit code, instead of the restart policy.
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
    readiness_probe: Option<Probe>,
    /// Until it succeeds, the other probes wait.
    #[api(tag = 22)]
    startup_probe: Option<Probe>,
    /// What is done after the start and before the stop.
    #[api(tag = 12)]
    lifecycle: Option<Lifecycle>,
    /// The file whose content becomes the last message.
    #[api(default = "/dev/termination-log", implied)]
    termination_message_path: String,
    /// Whether the log is used where that file is empty.
    #[api(tag = 20, default = "File", implied, go = "v1.TerminationMessagePolicy")]
    #[api(values("FallbackToLogsOnError", "File"))]
    termination_message_policy: String,
    /// When the image is fetched: Always, IfNotPresent or Never.
    #[api(tag = 14, go = "v1.PullPolicy", values("Always", "IfNotPresent", "Never"))]
    image_pull_policy: String,
    /// Rights and identity of the container.
    security_context: Option<SecurityContext>,
    /// Whether its input stays open.
    stdin: bool,
    /// Whether its input is closed after the first client.
    stdin_once: bool,
    /// Whether it has a terminal.
    tty: bool,
}

#[api]
pub struct ContainerPort {
    /// By which services can refer to it.
    name: String,
    /// The port of the node that leads here.
    host_port: i32,
    /// The port itself.
    container_port: Must<i32>,
    /// TCP, UDP or SCTP.
    #[api(default = "TCP", go = "v1.Protocol", values("SCTP", "TCP", "UDP"))]
    protocol: String,
    /// The address of the node that leads here.
    #[api(name = "hostIP")]
    host_ip: String,
}

#[api]
pub struct ContainerResizePolicy {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    resource_name: Must<String>,
    /// Whether the container restarts when it changes: NotRequired or RestartContainer.
    #[api(go = "v1.ResourceResizeRestartPolicy")]
    restart_policy: Must<String>,
}

#[api]
pub struct ContainerRestartRule {
    /// What to do: Restart or RestartAllContainers.
    #[api(go = "v1.ContainerRestartRuleAction", required)]
    action: String,
    /// The exit codes that the rule is about.
    exit_codes: Option<ContainerRestartRuleOnExitCodes>,
}

#[api]
pub struct ContainerRestartRuleOnExitCodes {
    /// Whether the code must be one of the values: In or NotIn.
    #[api(go = "v1.ContainerRestartRuleOnExitCodesOperator", required)]
    operator: String,
    /// The exit codes.
    #[api(set)]
    values: List<i32>,
}

#[api]
pub struct EphemeralContainer {
    /// A container without ports, probes, hooks and resources.
    #[api(inline, go = "EphemeralContainerCommon")]
    ephemeral_container_common: Container,
    /// The container whose processes it sees.
    target_container_name: String,
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
    let (host, parts) = match path.split_once('/') {
        Some((first, rest)) if is_host(first) => (Some(first), rest),
        _ => (None, path),
    };
    // One name alone, at the usual registry, is a name in its library.
    let usual = host.is_none_or(|host| matches!(host, "docker.io" | "index.docker.io"));
    let library = if usual && !parts.contains('/') { "library/".len() } else { 0 };
    let bare_digest = path.len() == 64 && path.bytes().all(|b| b.is_ascii_hexdigit());
    if bare_digest
        || library + parts.len() > 255
        || host.is_some_and(|host| !fits_host(host))
        || !parts.split('/').all(is_part)
        || !tag.is_none_or(is_tag)
    {
        return None;
    }
    tag.or(digest.is_none().then_some("latest"))
}

/// What stands before the first slash is a host where it looks like one.
fn is_host(text: &str) -> bool {
    text.contains(['.', ':']) || text == "localhost" || text.chars().any(char::is_uppercase)
}

fn fits_host(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').unwrap_or((text, "0"));
    let ends = |label: &str| label.starts_with('-') || label.ends_with('-') || label.is_empty();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let address = name.starts_with('[') && name.ends_with(']');
    let labels = || name.split('.').all(|label| label.chars().all(fits) && !ends(label));
    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && (address || labels())
}

/// Small letters and digits, with one dot, up to two underscores or any dashes between.
fn is_part(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits =
        |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-');
    text.starts_with(plain) && text.ends_with(plain) && text.split(plain).all(fits)
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(word) && text.len() <= 128 && text.chars().all(|c| word(c) || ".-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_is_always_pulled() {
        for image in ["a", "a:latest", "r.example:5000/a/b", "localhost/a", "a__b/c-d.e"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["a:1", "/a", "a//b", "A", "a:-x", "a._b", "-a", "r.example:x/a", "a@sha256:0"]
        {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
        let named = |host: &str, length| pull_policy(&(host.to_owned() + &"a".repeat(length)));
        assert_eq!((named("", 247), named("", 248)), ("Always", "IfNotPresent"));
        assert_eq!((named("x.io/", 255), named("x.io/", 256)), ("Always", "IfNotPresent"));
    }
}
