//! core/v1: container.

mod rules;

use macros::api;
use object::List;
use ref_cast::RefCast;

pub(crate) use self::rules::{
    PodContext, check_containers, check_ephemeral_containers, check_init_containers,
};
use super::{
    EnvFromSource, EnvVar, Lifecycle, Probe, ResourceRequirements, SecurityContext, VolumeDevice,
    VolumeMount,
};

#[api]
pub struct Container {
    /// Name of the container, unique in the pod. Cannot be changed.
    name: Must<String>,
    /// Image to run, such as registry.example.com/app:1.2.
    image: String,
    /// Program to run instead of the image's entrypoint, without a shell. $(NAME) is replaced by the variable NAME.
    command: List<String>,
    /// Arguments of the program, instead of those of the image. $(NAME) is replaced by the variable NAME.
    args: List<String>,
    /// Working directory. Defaults to that of the image.
    working_dir: String,
    /// Ports that the container listens on. A list for information: ports that are missing here can be reached too.
    #[api(keys("containerPort", "protocol"), merge, merge_key = "containerPort")]
    ports: List<ContainerPort>,
    /// ConfigMaps and Secrets whose keys all become environment variables.
    #[api(tag = 19)]
    env_from: List<EnvFromSource>,
    /// Environment variables.
    #[api(tag = 7, keys("name"), merge, merge_key = "name")]
    env: List<EnvVar>,
    /// Compute resources of the container: requests and limits.
    resources: ResourceRequirements,
    /// Whether the container is restarted when a resource is resized, per resource.
    #[api(tag = 23)]
    resize_policy: List<ContainerResizePolicy>,
    /// Restart policy of this container instead of the pod's. Always makes an init container a sidecar.
    #[api(go_type = "v1.ContainerRestartPolicy")]
    restart_policy: Option<String>,
    /// Rules by exit code that take precedence over the restart policy.
    restart_policy_rules: List<ContainerRestartRule>,
    /// Volumes to mount, and where.
    #[api(tag = 9, keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMount>,
    /// Volumes to attach as raw block devices.
    #[api(tag = 21, keys("devicePath"), merge, merge_key = "devicePath")]
    volume_devices: List<VolumeDevice>,
    /// Check of whether the container is alive. If it fails, the container is restarted.
    #[api(tag = 10)]
    liveness_probe: Option<Probe>,
    /// Check of whether the container can take requests. While it fails, the pod is removed from the endpoints of
    /// services.
    readiness_probe: Option<Probe>,
    /// Check of whether the container has started. The other probes begin when it has succeeded.
    #[api(tag = 22)]
    startup_probe: Option<Probe>,
    /// Hooks that run after the start and before the stop of the container.
    #[api(tag = 12)]
    lifecycle: Option<Lifecycle>,
    /// File whose content becomes the termination message, /dev/termination-log by default.
    #[api(default = "/dev/termination-log", unpublished_default)]
    termination_message_path: String,
    /// Source of the termination message: File (default), or FallbackToLogsOnError for the end of the log if the file
    /// is empty.
    #[api(
        tag = 20,
        default = "File",
        unpublished_default,
        go_type = "v1.TerminationMessagePolicy"
    )]
    #[api(enum_values("FallbackToLogsOnError", "File"))]
    termination_message_policy: String,
    /// When the image is pulled: Always, IfNotPresent or Never. Defaults to Always for the tag latest, else to
    /// IfNotPresent.
    #[api(tag = 14, go_type = "v1.PullPolicy", enum_values("Always", "IfNotPresent", "Never"))]
    image_pull_policy: String,
    /// Security settings of the container. They override those of the pod.
    security_context: Option<SecurityContext>,
    /// Whether stdin is kept open for attach. Without it the container reads an end of file at once.
    stdin: bool,
    /// Whether stdin is closed for good when the first client detaches.
    stdin_once: bool,
    /// Whether the container gets a terminal; needs stdin.
    tty: bool,
}

#[api]
pub struct ContainerPort {
    /// Name of the port, by which services can refer to it.
    name: String,
    /// Port of the node that is forwarded to the container.
    host_port: i32,
    /// Port number in the container, 1 to 65535.
    container_port: Must<i32>,
    /// Protocol: TCP, UDP or SCTP.
    #[api(default = "TCP", go_type = "v1.Protocol", enum_values("SCTP", "TCP", "UDP"))]
    protocol: String,
    /// Address of the node to which hostPort is bound.
    #[api(name = "hostIP")]
    host_ip: String,
}

#[api]
pub struct ContainerResizePolicy {
    /// Resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    resource_name: Must<String>,
    /// What a resize does: NotRequired (default) or RestartContainer.
    #[api(go_type = "v1.ResourceResizeRestartPolicy")]
    restart_policy: Must<String>,
}

#[api]
pub struct ContainerRestartRule {
    /// What to do: Restart or RestartAllContainers.
    #[api(go_type = "v1.ContainerRestartRuleAction", required)]
    action: String,
    /// The exit codes that the rule is about.
    exit_codes: Option<ContainerRestartRuleOnExitCodes>,
}

#[api]
pub struct ContainerRestartRuleOnExitCodes {
    /// Whether the code must be one of the values: In or NotIn.
    #[api(go_type = "v1.ContainerRestartRuleOnExitCodesOperator", required)]
    operator: String,
    /// The exit codes.
    #[api(set)]
    values: List<i32>,
}

#[api]
pub struct EphemeralContainer {
    /// A container without ports, probes, hooks and resources.
    #[api(inline, go_type = "EphemeralContainerCommon")]
    ephemeral_container_common: Container,
    /// Container whose process namespace is shared.
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
