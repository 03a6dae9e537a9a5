//! `debug`: adds an ephemeral container to a pod, creates a changed copy of a pod, or a pod on a node.

mod profile;

use std::collections::BTreeMap;

use object::{Lens, Value, quote::quote};
use schema::patch::apply_strategic_merge_patch;

use self::profile::{DebugStyle, Profile};
use super::{
    Command,
    attach::{attach_or_print_log, print_log},
    create::tree,
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::{BuilderOptions, go_io_error},
    server::PatchType,
    streams::no_such_pod,
    workload::{items_mut, list, push},
};

pub(crate) const COMMAND: Command = Command::new(
    "debug",
    &[&[
        Flag::new("filename", FlagType::StringSlice).short('f'),
        Flag::bool("arguments-only"),
        Flag::bool("attach"),
        Flag::text("container").short('c'),
        Flag::text("copy-to"),
        Flag::bool("replace"),
        Flag::new("env", FlagType::StringSlice),
        Flag::text("image"),
        Flag::bool("keep-labels"),
        Flag::bool("keep-annotations"),
        Flag::bool("keep-liveness"),
        Flag::bool("keep-readiness"),
        Flag::bool("keep-startup"),
        Flag::bool("keep-init-containers").default("true"),
        Flag::new("set-image", FlagType::StringSlice),
        Flag::text("image-pull-policy"),
        Flag::bool("stdin").short('i'),
        Flag::bool("quiet").short('q'),
        Flag::bool("same-node"),
        Flag::bool("share-processes").default("true"),
        Flag::text("target"),
        Flag::bool("tty").short('t'),
        Flag::text("profile").default("general"),
        Flag::text("custom"),
    ]],
    run,
);

/// Fields that a custom profile may not set.
const FIXED: &[&str] = &["name", "command", "image", "lifecycle", "volumeDevices"];

/// The arguments and flags of the command.
struct DebugOptions<'a> {
    call: &'a Invocation<'a>,
    images: BTreeMap<&'a str, &'a str>,
    arguments: &'a [String],
    profile: Profile,
    custom: Value,
}

fn run(call: &Invocation<'_>) -> Result {
    let dash = call.flags.args_len_at_dash.unwrap_or(call.args().len());
    let (names, arguments) = call.args().split_at(dash);
    let pairs = |flag: &str| -> Result<BTreeMap<&str, &str>> {
        let mut all = BTreeMap::new();
        for pair in call.flags.all(flag) {
            let (name, value) = pair.split_once('=').ok_or_else(|| CommandError::Usage {
                says: format!(
                    "invalid argument {} for \"--{flag}\" flag: {pair} must be formatted as key=value",
                    object::quote::quote(pair)
                ),
                command: call.command.clone(),
                help: "--help' for usage.",
            })?;
            all.insert(name, value);
        }
        Ok(all)
    };
    pairs("env")?;
    let profile = Profile::of(call.flags.text("profile"))?;
    let custom = custom(call)?;
    let wish = DebugOptions { call, images: pairs("set-image")?, arguments, profile, custom };
    wish.check(names)?;
    let mut words = vec!["pods".to_owned()];
    words.extend_from_slice(names);
    if names.iter().any(|name| name.contains('/')) {
        words = names
            .iter()
            .map(|name| if name.contains('/') { name.clone() } else { format!("pods/{name}") })
            .collect();
    }
    let how = BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() };
    let (infos, fails) = if names.is_empty() {
        call.select(&[], how)?
    } else {
        call.select_words(&words, how, false)?
    };
    for info in infos {
        let (pod, container) = match (info.resource.group.as_str(), info.resource.kind.as_str()) {
            ("", "Node") => wish.node(&info.name)?,
            ("", "Pod") if !call.flags.text("copy-to").is_empty() => wish.copy(&info.object)?,
            ("", "Pod") => wish.add_ephemeral_container(&info.object)?,
            _ => {
                return Err(CommandError::error(format!(
                    "{} not supported by debug",
                    quote(&info.resource.gvk())
                )));
            }
        };
        if attaches(call) && !container.is_empty() {
            attach(call, &pod, &container)?;
        }
    }
    CommandError::collect(fails)
}

fn attaches(call: &Invocation<'_>) -> bool {
    if call.flags.is_set("attach") {
        call.flags.is_true("attach")
    } else {
        call.flags.is_true("stdin")
    }
}

fn custom(call: &Invocation<'_>) -> Result<Value> {
    let file = call.flags.text("custom");
    if file.is_empty() {
        return Ok(Value::Null);
    }
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandError::error(format!(
            "must pass a container spec json file for custom profile: open {file}: {}",
            go_io_error(&error)
        ))
    })?;
    let tree = object::yaml::from_yaml(&text).map_err(|error| {
        CommandError::error(format!("{file} does not contain a valid container spec: {error}"))
    })?;
    if FIXED.iter().any(|field| !tree[*field].is_zero()) {
        return Err(CommandError::error(
            "name, command, image, lifecycle and volume devices are not modifiable via custom profile",
        ));
    }
    Ok(tree)
}

/// Whether a text is a valid image reference: host, path, tag and digest.
fn is_image(text: &str) -> bool {
    const PART: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    const HOST: &str = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?";
    let pattern = format!(
        r"^(?:{HOST}/)?{PART}(?:/{PART})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?$"
    );
    regex::Regex::new(&pattern).expect("written in the code").is_match(text)
}

impl DebugOptions<'_> {
    fn check(&self, names: &[String]) -> Result {
        let (call, flags) = (self.call, &self.call.flags);
        let (image, container) = (flags.text("image"), flags.text("container"));
        let wrong = |says: &str| Err(CommandError::error(says));
        if flags.is_set("attach")
            && flags.is_true("attach")
            && image.is_empty()
            && container.is_empty()
        {
            return wrong(
                "you must specify --container or create a new container using --image in order to attach.",
            );
        }
        if flags.text("copy-to").is_empty() {
            if flags.is_true("replace") {
                return wrong("--replace may only be used with --copy-to.");
            }
            if flags.is_true("same-node") {
                return wrong("--same-node may only be used with --copy-to.");
            }
            if !self.images.is_empty() {
                return wrong("--set-image may only be used with --copy-to.");
            }
            if image.is_empty() {
                return wrong("you must specify --image when not using --copy-to.");
            }
        } else if image.is_empty() && self.images.is_empty() && self.arguments.is_empty() {
            return wrong("you must specify --image, --set-image or command arguments.");
        } else if !self.arguments.is_empty() && container.is_empty() && image.is_empty() {
            return wrong(
                "you must specify an existing container or a new image when specifying args.",
            );
        }
        if !image.is_empty() && !is_image(image) {
            return Err(CommandError::error(format!(
                "invalid image name {}: invalid reference format",
                quote(image)
            )));
        }
        if names.is_empty() && flags.all("filename").is_empty() {
            return wrong("NAME or filename is required for debug");
        }
        let policy = flags.text("image-pull-policy");
        if !matches!(policy, "" | "Always" | "IfNotPresent" | "Never") {
            return Err(CommandError::error(format!("invalid image pull policy: {policy}")));
        }
        for (name, image) in &self.images {
            if !is_image(image) {
                return Err(CommandError::error(format!(
                    "invalid image name {} for container {}: invalid reference format",
                    quote(image),
                    quote(name)
                )));
            }
        }
        let target = flags.text("target");
        if !target.is_empty() {
            if !flags.text("copy-to").is_empty() {
                return wrong(
                    "--target is incompatible with --copy-to. Use --share-processes instead.",
                );
            }
            if !flags.is_true("quiet") {
                call.print(&format!(
                    "Targeting container {}. If you don't see processes from this container it may be because the container runtime doesn't support this feature.\n",
                    quote(target)
                ));
            }
        }
        if flags.is_true("tty") && !flags.is_true("stdin") {
            return wrong("-i/--stdin is required for containers with -t/--tty=true");
        }
        if flags.text("profile") == "legacy" {
            call.print_err("--profile=legacy is deprecated and planned to be removed in v1.39. It is recommended to specify other profile, for example \"--profile=general\".");
        }
        Ok(())
    }

    /// Sets the fields of the container for which there are flags.
    fn fill(&self, container: &mut Value) {
        let flags = &self.call.flags;
        if !self.arguments.is_empty() {
            let words = list(self.arguments.iter().map(|word| word.as_str().into()).collect());
            if flags.is_true("arguments-only") {
                container["args"] = words;
            } else {
                container["command"] = words;
                container.remove("args");
            }
        }
        let env: Vec<Value> = flags
            .all("env")
            .iter()
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let mut variable = Value::object();
                variable["name"] = name.into();
                variable["value"] = value.into();
                variable
            })
            .collect();
        if !env.is_empty() {
            container["env"] = list(env);
        }
        for (flag, field) in [("image", "image"), ("image-pull-policy", "imagePullPolicy")] {
            if !flags.text(flag).is_empty() {
                container[field] = flags.text(flag).into();
            }
        }
        for flag in ["stdin", "tty"] {
            if flags.is_true(flag) {
                container[flag] = true.into();
            } else {
                container.remove(flag);
            }
        }
    }

    fn container(&self, name: &str) -> Value {
        let mut container = tree("{terminationMessagePolicy: File}");
        container["name"] = name.into();
        self.fill(&mut container);
        container
    }

    /// The name of the new container.
    fn name(&self, pod: &Value) -> String {
        let given = self.call.flags.text("container");
        if !given.is_empty() {
            return given.to_owned();
        }
        let taken = |name: &str| {
            ["containers", "initContainers", "ephemeralContainers"].iter().any(|field| {
                pod["spec"][*field].items().iter().any(|c| c["name"].as_str() == Some(name))
            })
        };
        let mut name = format!("debugger-{}", suffix());
        while taken(&name) {
            name = format!("debugger-{}", suffix());
        }
        if !self.call.flags.is_true("quiet") {
            self.call.print(&format!("Defaulting debug container name to {name}.\n"));
        }
        name
    }

    /// Merges the custom profile into the container.
    fn customize(&self, containers: &mut Value, name: &str) -> Result {
        if self.custom.is_null() {
            return Ok(());
        }
        for container in items_mut(containers) {
            if container["name"].as_str() == Some(name) {
                let mut custom = self.custom.clone();
                *container =
                    apply_strategic_merge_patch(api::Container::SHAPE, container, &mut custom)?;
            }
        }
        Ok(())
    }

    /// Creates a pod on a node; returns it and the container's name.
    fn node(&self, node: &str) -> Result<(Value, String)> {
        let given = self.call.flags.text("container");
        let container = if given.is_empty() { "debugger" } else { given };
        let name = format!("node-debugger-{node}-{}", suffix());
        if !self.call.flags.is_true("quiet") {
            self.call.print(&format!(
                "Creating debugging pod {name} with container {container} on node {node}.\n"
            ));
        }
        let mut pod = tree(
            "{apiVersion: v1, kind: Pod, metadata: {labels: {app.kubernetes.io/managed-by: kubectl-debug}}, spec: {restartPolicy: Never, tolerations: [{operator: Exists}]}}",
        );
        pod["metadata"]["name"] = name.into();
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["containers"] = list(vec![self.container(container)]);
        self.profile.apply(&mut pod, container, DebugStyle::Node, &self.call.flags);
        self.customize(&mut pod["spec"]["containers"], container)?;
        let path = format!("/api/v1/namespaces/{}/pods", self.call.namespace()?);
        Ok((self.call.server()?.post(&path, &pod)?, container.to_owned()))
    }

    /// Adds an ephemeral container to a pod; returns the pod and the container's name.
    fn add_ephemeral_container(&self, pod: &Value) -> Result<(Value, String)> {
        let name = self.name(pod);
        let mut container = self.container(&name);
        if !self.call.flags.text("target").is_empty() {
            container["targetContainerName"] = self.call.flags.text("target").into();
        }
        let mut whole = pod.clone();
        push(&mut whole["spec"]["ephemeralContainers"], container);
        self.profile.apply(&mut whole, &name, DebugStyle::Ephemeral, &self.call.flags);
        self.customize(&mut whole["spec"]["ephemeralContainers"], &name)?;
        let mut patch = Value::object();
        patch["spec"]["ephemeralContainers"] = whole["spec"]["ephemeralContainers"].clone();
        let path = pod_path(pod) + "/ephemeralcontainers";
        let patched = self.call.server()?.patch(&path, PatchType::Strategic, &patch)?;
        Ok((patched, name))
    }

    /// Creates a copy of a pod; returns it and the container's name.
    fn copy(&self, pod: &Value) -> Result<(Value, String)> {
        let flags = &self.call.flags;
        let mut copy = tree("{apiVersion: v1, kind: Pod}");
        copy["metadata"]["name"] = flags.text("copy-to").into();
        for field in ["namespace", "labels", "annotations"] {
            if !pod["metadata"][field].is_null() {
                copy["metadata"][field] = pod["metadata"][field].clone();
            }
        }
        copy["spec"] = pod["spec"].clone();
        copy["spec"].remove("ephemeralContainers");
        if flags.is_set("share-processes") {
            copy["spec"]["shareProcessNamespace"] = flags.is_true("share-processes").into();
        }
        if !flags.is_true("same-node") {
            copy["spec"].remove("nodeName");
        }
        for container in items_mut(&mut copy["spec"]["containers"]) {
            let name = container["name"].as_str().unwrap_or_default();
            if let Some(image) = self.images.get(name).or_else(|| self.images.get("*")) {
                container["image"] = (*image).into();
            }
        }
        let given = flags.text("container");
        let there =
            copy["spec"]["containers"].items().iter().any(|c| c["name"].as_str() == Some(given));
        let mut name = given.to_owned();
        if !there && flags.text("image").is_empty() {
            if self.images.is_empty() {
                return Err(CommandError::error(
                    "you must specify image when creating new container",
                ));
            }
            // Only images change: there is no container to attach to.
            name = String::new();
        } else {
            if there {
                for container in items_mut(&mut copy["spec"]["containers"]) {
                    if container["name"].as_str() == Some(given) {
                        self.fill(container);
                    }
                }
            } else {
                name = self.name(&copy);
                push(&mut copy["spec"]["containers"], self.container(&name));
            }
            self.profile.apply(&mut copy, &name, DebugStyle::Copy, flags);
            self.customize(&mut copy["spec"]["containers"], &name)?;
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let made = self.call.server()?.post(&path, &copy)?;
        if flags.is_true("replace") {
            self.call.server()?.delete(&pod_path(pod), &tree("{gracePeriodSeconds: 0}"))?;
        }
        Ok((made, name))
    }
}

fn pod_path(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}

/// Five random letters, which make a name unique.
pub(super) fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = ring::rand::SystemRandom::new();
    let mut bytes = [0; 5];
    if ring::rand::SecureRandom::fill(&random, &mut bytes).is_err() {
        let now = object::Clock::now_micros(&object::SystemClock);
        bytes.copy_from_slice(&now.to_le_bytes()[..5]);
    }
    bytes.iter().map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char).collect()
}

/// Waits until the container runs, and attaches to it.
fn attach(call: &Invocation<'_>, pod: &Value, container: &str) -> Result {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (mut now, mut state, mut warned) = (Value::Null, Value::Null, String::new());
    call.follow_pod(text("namespace"), text("name"), None, |pod| {
        let Some(pod) = pod else { return Err(no_such_pod()) };
        state = state_of(pod, container);
        if !state["terminated"].is_null() || !state["running"].is_null() {
            now = pod.clone();
            return Ok(false);
        }
        let message = state["waiting"]["message"].as_str().unwrap_or_default();
        if !message.is_empty() && message != warned && !call.flags.is_true("quiet") {
            call.print_err(&format!("Warning: container {container}: {message}"));
            message.clone_into(&mut warned);
        }
        Ok(true)
    })?;
    if state["terminated"].is_null() {
        attach_or_print_log(call, &now, container, true, 0)
    } else {
        print_log(call, &now, container, 0).map(drop)
    }
}

fn state_of(pod: &Value, container: &str) -> Value {
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod["status"][*list].items());
    let status = statuses.find(|status| status["name"].as_str() == Some(container));
    status.map(|status| status["state"].clone()).unwrap_or_default()
}

#[test]
fn images_have_a_form() {
    for image in
        ["busybox", "a:b", "h.example:5000/a/b-c:v1.2", "a@sha256:0123456789abcdef0123456789abcdef"]
    {
        assert!(is_image(image), "{image}");
    }
    for wrong in ["a:b:c", "A", "", "a/", ":x"] {
        assert!(!is_image(wrong), "{wrong}");
    }
}
