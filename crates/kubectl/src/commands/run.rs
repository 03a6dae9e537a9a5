//! `run`: one pod from an image.

use object::Value;

use super::{Command, DRY_RUN, DryRun, FIELD_MANAGER, create::tree, exec, write_query};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    merge::merge_patch,
    print::{self, Output},
    record::{self, Record},
    resources::escape,
    streams::container_of,
};

pub(crate) const COMMAND: Command = Command::new(
    "run",
    &[
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::text("image"),
            Flag::text("image-pull-policy"),
            Flag::text("restart").default("Always"),
            Flag::new("env", Kind::Each),
            Flag::text("labels").short('l'),
            Flag::new("annotations", Kind::Each),
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
            Flag::new("pod-running-timeout", Kind::Duration).default("1m0s"),
        ],
    ],
    run,
);

fn run(call: &Call<'_>) -> Result {
    let flags = &call.flags;
    if !flags.has("image") {
        return Err(Fail::error("required flag(s) \"image\" not set"));
    }
    let Some(name) = call.words().first() else {
        return Err(call.usage("NAME is required for run"));
    };
    let image = flags.text("image");
    if image.is_empty() {
        return Err(Fail::error("--image is required"));
    }
    let path = image.rsplit_once('@').map_or(image, |(path, _)| path);
    let path =
        path.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(path, |(path, _)| path);
    if path.is_empty()
        || path.chars().any(char::is_whitespace)
        || path.rsplit('/').next().is_some_and(|last| last.chars().any(char::is_uppercase))
    {
        return Err(Fail::error(format!(
            "invalid image name {}: invalid reference format",
            object::quote::quote(image)
        )));
    }
    let attached = flags.on("attach") || flags.on("stdin") || flags.on("tty");
    let dry_run = DryRun::of(call)?;
    if attached && dry_run != DryRun::No {
        return Err(Fail::error(
            "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)",
        ));
    }
    if flags.on("rm") && !attached {
        return Err(Fail::error("--rm should only be used for attached containers"));
    }
    if flags.on("expose") && flags.text("port").is_empty() {
        return Err(Fail::error("--port must be set when exposing a service"));
    }
    let restart = flags.text("restart");
    if !matches!(restart, "Always" | "OnFailure" | "Never") {
        return Err(Fail::error(format!(
            "invalid restart policy: {restart}, valid values are: Always, OnFailure, Never"
        )));
    }
    let output = Output::of(call, false)?;
    let mut pod = pod(call, name)?;
    overrides(call, &mut pod)?;
    Record::of(call).note(&mut pod);
    let query = write_query(call, dry_run, "kubectl-run")?;
    let namespace = call.namespace()?;
    if dry_run != DryRun::Client {
        pod = call.server()?.post(&format!("/api/v1/namespaces/{namespace}/pods{query}"), &pod)?;
    }
    if !attached || !output.is_human() {
        output.print_declared(call, &pod, &format!("created{}", dry_run.suffix()))?;
    }
    if flags.on("expose") {
        let mut service = service(call, name)?;
        if dry_run != DryRun::Client {
            service = call
                .server()?
                .post(&format!("/api/v1/namespaces/{namespace}/services{query}"), &service)?;
        }
        if matches!(output, Output::Yaml) {
            call.out("---\n");
        }
        output.print_declared(call, &service, &format!("created{}", dry_run.suffix()))?;
    }
    if attached { attach(call, &pod) } else { Ok(()) }
}

fn pod(call: &Call<'_>, name: &str) -> Result<Value> {
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
            return Err(Fail::error(format!("unexpected label spec: {pair}")));
        };
        pod["metadata"]["labels"][name] = value.into();
    }
    for pair in flags.all("annotations") {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Fail::error(format!("unexpected annotation spec: {pair}")));
        };
        pod["metadata"]["annotations"][name] = value.into();
    }
    let mut container = tree("{resources: {}}");
    container["name"] = name.into();
    container["image"] = flags.text("image").into();
    if !flags.text("image-pull-policy").is_empty() {
        container["imagePullPolicy"] = flags.text("image-pull-policy").into();
    }
    let rest = &call.words()[1..];
    if !rest.is_empty() {
        let field = if flags.on("command") { "command" } else { "args" };
        container[field] = Value::List(rest.iter().map(|word| word.as_str().into()).collect());
    }
    let mut variables = Vec::new();
    for pair in flags.all("env") {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Fail::error(format!("invalid env: {pair}")));
        };
        let mut variable = Value::object();
        variable["name"] = name.into();
        variable["value"] = value.into();
        variables.push(variable);
    }
    if !variables.is_empty() {
        container["env"] = Value::List(variables.into());
    }
    if !flags.text("port").is_empty() {
        let port = flags.text("port");
        let number: i64 = port.parse().map_err(|_| {
            Fail::error(format!(
                "strconv.Atoi: parsing {}: invalid syntax",
                object::quote::quote(port)
            ))
        })?;
        let mut made = Value::object();
        made["containerPort"] = number.into();
        container["ports"] = Value::List([made].into_iter().collect());
    }
    if flags.on("privileged") {
        container["securityContext"]["privileged"] = true.into();
    }
    if flags.on("stdin") {
        container["stdin"] = true.into();
        if !flags.on("leave-stdin-open") {
            container["stdinOnce"] = true.into();
        }
    }
    if flags.on("tty") {
        container["tty"] = true.into();
    }
    pod["spec"]["containers"] = Value::List([container].into_iter().collect());
    pod["spec"]["restartPolicy"] = flags.text("restart").into();
    Ok(pod)
}

fn overrides(call: &Call<'_>, pod: &mut Value) -> Result {
    let text = call.flags.text("overrides");
    if text.is_empty() {
        return Ok(());
    }
    let patch =
        object::from_json(text.as_bytes()).map_err(|_| Fail::error("Invalid JSON Patch"))?;
    match call.flags.text("override-type") {
        "merge" => merge_patch(pod, &patch),
        "strategic" => crate::merge::strategic(pod, &patch)?,
        "json" => {
            *pod = schema::patch::json(pod, &patch)?;
        }
        other => return Err(Fail::error(format!("--override-type={other} is not supported"))),
    }
    Ok(())
}

fn service(call: &Call<'_>, name: &str) -> Result<Value> {
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
    service["spec"]["selector"]["run"] = name.into();
    Ok(service)
}

fn attach(call: &Call<'_>, pod: &Value) -> Result {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    let seconds = call.flags.duration("pod-running-timeout") as f64 / 1e9;
    let selector = escape(&format!("metadata.name={name}"));
    let mut current = pod.clone();
    call.server()?.watch(
        &format!("{path}?watch=true&fieldSelector={selector}"),
        crate::server::JSON,
        Some(seconds),
        |_, object| {
            current = object.clone();
            Ok(!matches!(
                object["status"]["phase"].as_str(),
                Some("Running" | "Succeeded" | "Failed")
            ))
        },
    )?;
    let container = container_of(call, &current, "", true)?;
    let result = if current["status"]["phase"].as_str() == Some("Running") {
        exec::stream(call, &current, "attach", &container, "")
    } else {
        call.server()?.stream(&format!("{path}/{name}/log?container={container}"), |bytes| {
            call.out(&String::from_utf8_lossy(bytes));
            Ok(true)
        })
    };
    if call.flags.on("rm") {
        call.server()?
            .delete(&format!("{path}/{name}"), &tree("{apiVersion: v1, kind: DeleteOptions}"))?;
        call.out(&format!(
            "pod {} deleted from {namespace} namespace\n",
            object::quote::quote(name)
        ));
    }
    result
}
