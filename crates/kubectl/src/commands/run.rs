//! `run`: creates a pod from an image.

use object::Value;

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER,
    attach::{DETACH, attach_or_print_log, print_log},
    create::tree,
    write_query,
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    merge::merge_patch,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    streams::{container_of, no_such_pod},
};

pub(crate) const COMMAND: Command = Command::new(
    "run",
    &[
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        DETACH,
        &[
            Flag::text("image").required(),
            Flag::text("image-pull-policy"),
            Flag::text("restart").default("Always"),
            Flag::new("env", FlagType::StringArray),
            Flag::text("labels").short('l'),
            Flag::new("annotations", FlagType::StringArray),
            Flag::text("port"),
            Flag::bool("expose"),
            Flag::bool("command"),
            Flag::bool("attach"),
            Flag::bool("stdin").short('i'),
            Flag::bool("tty").short('t'),
            Flag::bool("rm"),
            Flag::bool("quiet").short('q'),
            Flag::bool("privileged"),
            Flag::bool("leave-stdin-open"),
            Flag::text("overrides"),
            Flag::text("override-type").default("merge"),
            Flag::new("pod-running-timeout", FlagType::Duration).default("1m0s"),
            Flag::bool("save-config"),
        ],
        REMOVAL,
    ],
    run,
);

/// Flags for the deletion of the pod with `--rm`.
const REMOVAL: &[Flag] = &[
    Flag::text("cascade").default("background").bare("background"),
    Flag::new("grace-period", FlagType::Int64).default("-1"),
    Flag::bool("force"),
    Flag::bool("wait"),
    Flag::new("timeout", FlagType::Duration),
];

#[expect(clippy::too_many_lines, reason = "the checks of upstream, in its order")]
fn run(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    let Some(name) = call.args().first() else {
        return Err(CommandError::error("NAME is required for run"));
    };
    let image = flags.text("image");
    if image.is_empty() {
        return Err(CommandError::error("--image is required"));
    }
    let path = image.rsplit_once('@').map_or(image, |(path, _)| path);
    let path =
        path.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(path, |(path, _)| path);
    if path.is_empty()
        || image.ends_with(':')
        || path.chars().any(char::is_whitespace)
        || path.rsplit('/').next().is_some_and(|last| last.chars().any(char::is_uppercase))
    {
        return Err(CommandError::error(format!(
            "invalid image name {}: invalid reference format",
            object::quote::quote(image)
        )));
    }
    if flags.duration("pod-running-timeout") <= 0 {
        return Err(CommandError::error("--pod-running-timeout must be higher than zero"));
    }
    let attached =
        if flags.is_set("attach") { flags.is_true("attach") } else { flags.is_true("stdin") };
    let dry_run = DryRun::of(call)?;
    if attached && dry_run != DryRun::No {
        return Err(CommandError::error(
            "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)",
        ));
    }
    if flags.is_true("tty") && !flags.is_true("stdin") {
        return Err(CommandError::error(
            "-i/--stdin is required for containers with -t/--tty=true",
        ));
    }
    if flags.is_true("rm") && !attached {
        return Err(CommandError::error("--rm should only be used for attached containers"));
    }
    if flags.is_true("expose") && flags.text("port").is_empty() {
        return Err(CommandError::error("--port must be set when exposing a service"));
    }
    let restart = restart_policy(flags.text("restart"), flags.is_true("stdin"))?;
    let policy = flags.text("image-pull-policy");
    if !matches!(policy, "" | "Always" | "IfNotPresent" | "Never") {
        return Err(CommandError::error(format!(
            "invalid image pull policy: {policy}, valid values are: Always, IfNotPresent, Never"
        )));
    }
    let output = OutputFormat::of(call, false)?;
    let mut pod = pod(call, name, restart)?;
    overrides(call, &mut pod)?;
    ChangeCause::of(call).annotate(&mut pod);
    if flags.is_true("save-config") && dry_run != DryRun::Client {
        super::create::annotate_declared(&mut pod);
    }
    let query = write_query(call, dry_run, "kubectl-run")?;
    let namespace = call.namespace()?;
    if dry_run != DryRun::Client {
        pod = call.server()?.post(&format!("/api/v1/namespaces/{namespace}/pods{query}"), &pod)?;
    }
    let mut made = vec![pod.clone()];
    let mut fails = Vec::new();
    if flags.is_true("expose") {
        let mut service = service(call, name)?;
        if dry_run != DryRun::Client {
            let path = format!("/api/v1/namespaces/{namespace}/services{query}");
            match call.server()?.post(&path, &service) {
                Ok(created) => service = created,
                Err(fail) => fails.push(fail),
            }
        }
        if fails.is_empty() {
            made.push(service);
        }
    }
    if attached {
        let ended = attach(call, &pod);
        if flags.is_true("rm") {
            remove(call, &made)?;
        }
        return ended;
    }
    for object in &made {
        output.print_declared(call, object, &format!("created{}", dry_run.suffix()))?;
    }
    CommandError::collect(fails)
}

fn restart_policy(restart: &str, interactive: bool) -> Result<&str> {
    match restart {
        "" if interactive => return Ok("OnFailure"),
        "" => return Ok("Always"),
        "Always" | "OnFailure" | "Never" => return Ok(restart),
        _ => {}
    }
    Err(CommandError::error(format!(
        "invalid restart policy: {restart}, valid values are: Always, OnFailure, Never"
    )))
}

fn pod(call: &Invocation<'_>, name: &str, restart: &str) -> Result<Value> {
    let flags = &call.flags;
    let mut pod = tree("{apiVersion: v1, kind: Pod, spec: {dnsPolicy: ClusterFirst}, status: {}}");
    pod["metadata"]["name"] = name.into();
    if call.namespace_given() {
        pod["metadata"]["namespace"] = call.namespace()?.as_str().into();
    }
    if flags.text("labels").is_empty() {
        pod["metadata"]["labels"]["run"] = name.into();
    }
    for pair in flags.text("labels").split(',').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CommandError::error(format!("unexpected label spec: {pair}")));
        };
        pod["metadata"]["labels"][name] = value.into();
    }
    for pair in flags.all("annotations") {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CommandError::error(format!("invalid annotations format: {pair}")));
        };
        pod["metadata"]["annotations"][name] = value.into();
    }
    let mut container = tree("{resources: {}}");
    container["name"] = name.into();
    container["image"] = flags.text("image").into();
    if !flags.text("image-pull-policy").is_empty() {
        container["imagePullPolicy"] = flags.text("image-pull-policy").into();
    }
    let rest = &call.args()[1..];
    if !rest.is_empty() {
        let field = if flags.is_true("command") { "command" } else { "args" };
        container[field] = Value::List(rest.iter().map(|word| word.as_str().into()).collect());
    }
    let mut variables = Vec::new();
    for pair in flags.all("env") {
        let is_name = |name: &str| object::names::env_var_name(name).is_empty();
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| is_name(name)) else {
            return Err(CommandError::error(format!("invalid env: {pair}")));
        };
        let mut variable = Value::object();
        variable["name"] = name.into();
        if !value.is_empty() {
            variable["value"] = value.into();
        }
        variables.push(variable);
    }
    if !variables.is_empty() {
        container["env"] = Value::List(variables.into());
    }
    if !flags.text("port").is_empty() {
        let port = flags.text("port");
        let number: i64 =
            port.parse().map_err(|_| CommandError::error("--port must be a number"))?;
        let mut made = Value::object();
        made["containerPort"] = number.into();
        container["ports"] = Value::List([made].into_iter().collect());
    }
    if flags.is_true("privileged") {
        container["securityContext"]["privileged"] = true.into();
    }
    if flags.is_true("stdin") {
        container["stdin"] = true.into();
        if !flags.is_true("leave-stdin-open") {
            container["stdinOnce"] = true.into();
        }
    }
    if flags.is_true("tty") {
        container["tty"] = true.into();
    }
    pod["spec"]["containers"] = Value::List([container].into_iter().collect());
    pod["spec"]["restartPolicy"] = restart.into();
    Ok(pod)
}

/// Applies `--overrides`.
pub(super) fn overrides(call: &Invocation<'_>, pod: &mut Value) -> Result {
    let text = call.flags.text("overrides");
    if text.is_empty() {
        return Ok(());
    }
    let patch = object::from_json(text.as_bytes())
        .map_err(|_| CommandError::error("Invalid JSON Patch"))?;
    match call.flags.text("override-type") {
        "merge" => merge_patch(pod, &patch),
        "strategic" => crate::merge::strategic(pod, &patch)?,
        "json" => {
            *pod = schema::patch::apply_json_patch(pod, &patch)?;
        }
        other => {
            return Err(CommandError::error(format!("invalid override type: {other}")));
        }
    }
    crate::print::typed::fill_zero_values(pod);
    Ok(())
}

fn service(call: &Invocation<'_>, name: &str) -> Result<Value> {
    let mut service = tree("{apiVersion: v1, kind: Service, status: {loadBalancer: {}}}");
    service["metadata"]["name"] = name.into();
    if call.namespace_given() {
        service["metadata"]["namespace"] = call.namespace()?.as_str().into();
    }
    let port: i64 = call.flags.int("port");
    let mut made = tree("{protocol: TCP}");
    made["port"] = port.into();
    made["targetPort"] = port.into();
    service["spec"]["ports"] = Value::List([made].into_iter().collect());
    if call.flags.text("labels").is_empty() {
        service["spec"]["selector"]["run"] = name.into();
    }
    for pair in call.flags.text("labels").split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        service["metadata"]["labels"][name] = value.into();
        service["spec"]["selector"][name] = value.into();
    }
    Ok(service)
}

/// Attaches to the new pod's container until it exits.
fn attach(call: &Invocation<'_>, pod: &Value) -> Result {
    let mut current = Value::Null;
    let reached = follow(call, pod, |pod| {
        let ready = pod["status"]["conditions"].items().iter().any(|condition| {
            condition["type"].as_str() == Some("Ready")
                && condition["status"].as_str() == Some("True")
        });
        current = pod.clone();
        is_over(pod) || ready && phase(pod) == "Running"
    });
    reached?;
    let container = container_of(call, &current, "", true)?;
    if is_over(&current) {
        print_log(call, &current, &container, 0)?;
    } else {
        // Output from before the attach is not part of the session, so it is printed from the log.
        let printed = print_log(call, &current, &container, 0).unwrap_or_else(|fail| {
            call.print_err(&format!("warning: couldn't fetch pre-attach logs: {}", fail.message()));
            0
        });
        attach_or_print_log(call, &current, &container, call.flags.is_true("stdin"), printed)?;
    }
    wait_for_exit(call, pod)
}

/// Waits for the container's exit code, if the pod ends with it.
fn wait_for_exit(call: &Invocation<'_>, pod: &Value) -> Result {
    let flags = &call.flags;
    let restart = flags.text("restart");
    if flags.is_true("leave-stdin-open") || restart == "Always" {
        return Ok(());
    }
    let mut last = Value::Null;
    follow(call, pod, |pod| {
        last = pod.clone();
        if restart == "Never" { is_over(pod) } else { phase(pod) == "Succeeded" }
    })?;
    if phase(&last) == "Succeeded" {
        return Ok(());
    }
    let text = |field: &str| last["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let statuses = last["status"]["containerStatuses"].items();
    let end = statuses.first().map(|status| &status["state"]["terminated"]);
    let code = end.and_then(|end| end["exitCode"].as_i64()).filter(|code| *code != 0);
    let (Some(end), Some(code)) = (end, code) else {
        return Err(CommandError::error(format!(
            "pod {namespace}/{name} failed with unknown exit code"
        )));
    };
    let text = |field: &str| end[field].as_str().unwrap_or_default();
    let says =
        format!("pod {namespace}/{name} terminated ({})\n{}", text("reason"), text("message"));
    let code = u8::try_from(code & 0xff).unwrap_or(1);
    Err(CommandError::WithExitCode { fail: Box::new(CommandError::Raw(says)), code })
}

/// Waits until the pod meets a condition.
fn follow(call: &Invocation<'_>, pod: &Value, mut is_so: impl FnMut(&Value) -> bool) -> Result {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    let seconds = call.flags.duration("pod-running-timeout") as f64 / 1e9;
    let limit = Some(seconds).filter(|seconds| *seconds > 0.0);
    let reached = call.follow_pod(text("namespace"), text("name"), limit, |pod| match pod {
        Some(pod) => Ok(!is_so(pod)),
        None => Err(no_such_pod()),
    });
    if reached? { Ok(()) } else { Err(CommandError::error("timed out waiting for the condition")) }
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn is_over(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Timeout of `--wait` when none is given.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_hours(168);

/// Deletes the objects that `--rm` covers.
fn remove(call: &Invocation<'_>, made: &[Value]) -> Result {
    let mut options = tree("{apiVersion: v1, kind: DeleteOptions}");
    options["propagationPolicy"] = super::delete::propagation(call)?.into();
    let grace = call.flags.int("grace-period");
    if call.flags.is_true("force") || grace >= 0 {
        options["gracePeriodSeconds"] = grace.max(0).into();
    }
    for object in made {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let (namespace, name) = (text("namespace"), text("name"));
        let path = format!("/api/v1/namespaces/{namespace}/{kind}s/{name}");
        match call.server()?.delete(&path, &options) {
            Err(fail) if fail.is_not_found() => {}
            Err(fail) => return Err(fail),
            Ok(_) if call.flags.is_true("quiet") => {}
            Ok(_) => {
                let name = object::quote::quote(name);
                call.print(&format!("{kind} {name} deleted from {namespace} namespace\n"));
            }
        }
        if call.flags.is_true("wait") {
            let limit = match u64::try_from(call.flags.duration("timeout")) {
                Ok(parse_nanos) if parse_nanos > 0 => std::time::Duration::from_nanos(parse_nanos),
                _ => LONGEST_WAIT,
            };
            super::delete::poll_until_deleted(call, &path, limit)?;
        }
    }
    Ok(())
}
