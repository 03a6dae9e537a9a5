//! `create` for workloads: deployments, jobs and cron jobs.

use object::Value;

use super::{texts, values};
use crate::{
    commands::{
        Command,
        create::{WRITES, begin, make, one_name, tree},
    },
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
};

pub(super) const DEPLOYMENT: Command = Command::new(
    "deployment",
    &[
        WRITES,
        &[
            Flag::new("image", FlagType::StringSlice).required(),
            Flag::new("port", FlagType::Int32).default("-1"),
            Flag::new("replicas", FlagType::Int32).short('r').default("1"),
        ],
    ],
    deployment,
)
.aliases(&["deploy"]);
pub(super) const JOB: Command =
    Command::new("job", &[WRITES, &[Flag::text("image"), Flag::text("from")]], job);
pub(super) const CRON_JOB: Command = Command::new(
    "cronjob",
    &[
        WRITES,
        &[Flag::text("image").required(), Flag::text("schedule").required(), Flag::text("restart")],
    ],
    cron_job,
)
.aliases(&["cj"]);

/// The arguments after `--`.
fn command<'a>(call: &'a Invocation<'_>) -> &'a [String] {
    call.flags.args_len_at_dash.map_or(&[], |at| &call.args()[at..])
}

/// The name of a container, derived from its image: the last segment of the path.
fn container_name(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    if name.contains(['_', '.']) {
        return format!("{}-{}", name.replace(['_', '.'], "-"), crate::commands::debug::suffix());
    }
    name.to_owned()
}

fn deployment(call: &Invocation<'_>) -> Result {
    one_name(call)?;
    let images = call.flags.all("image");
    if images.len() > 1 && !command(call).is_empty() {
        return Err(CommandError::error("cannot specify multiple --image options and command"));
    }
    let mut object = begin(call, "apps/v1", "Deployment", true)?;
    let name = object["metadata"]["name"].clone();
    object["metadata"]["labels"]["app"] = name.clone();
    let mut containers = Vec::new();
    for image in images {
        let mut container = Value::object();
        container["image"] = image.as_str().into();
        container["name"] = container_name(image).as_str().into();
        container["resources"] = Value::object();
        if !command(call).is_empty() {
            container["command"] = texts(command(call));
        }
        containers.push(container);
    }
    if call.flags.int("port") >= 0 {
        let mut port = Value::object();
        port["containerPort"] = call.flags.int("port").into();
        containers[0]["ports"] = values(vec![port]);
    }
    object["spec"] = tree("strategy: {}");
    object["spec"]["replicas"] = call.flags.int("replicas").into();
    object["spec"]["selector"]["matchLabels"]["app"] = name.clone();
    object["spec"]["template"]["metadata"]["labels"]["app"] = name;
    object["spec"]["template"]["spec"]["containers"] = values(containers);
    object["status"] = Value::object();
    make(call, object, "deployments.apps", "failed to create deployment: ")
}

fn container(name: &str, image: &str, command: &[String]) -> Value {
    let mut container = Value::object();
    container["image"] = image.into();
    container["name"] = name.into();
    container["resources"] = Value::object();
    if !command.is_empty() {
        container["command"] = texts(command);
    }
    values(vec![container])
}

fn job(call: &Invocation<'_>) -> Result {
    let name = one_name(call)?;
    let (image, from) = (call.flags.text("image"), call.flags.text("from"));
    if image.is_empty() == from.is_empty() {
        return Err(CommandError::error("either --image or --from must be specified"));
    }
    if !from.is_empty() && !command(call).is_empty() {
        return Err(CommandError::error("cannot specify --from and command"));
    }
    let mut object = begin(call, "batch/v1", "Job", true)?;
    if from.is_empty() {
        object["spec"]["template"] = tree("{metadata: {}, spec: {restartPolicy: Never}}");
        object["spec"]["template"]["spec"]["containers"] = container(&name, image, command(call));
    } else {
        let (infos, fails) = call.select(
            &[from.to_owned()],
            crate::select::BuilderOptions { fetch: true, ..<_>::default() },
        )?;
        CommandError::collect(fails)?;
        let [info] = &infos[..] else {
            return Err(CommandError::error("--from must be an existing cronjob"));
        };
        if info.resource.kind != "CronJob" {
            return Err(CommandError::error(format!(
                "unknown object type *v1.{}",
                info.resource.kind
            )));
        }
        let cron = &info.object;
        let template = &cron["spec"]["jobTemplate"];
        object["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        object["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] = "manual".into();
        if !template["metadata"]["labels"].is_null() {
            object["metadata"]["labels"] = template["metadata"]["labels"].clone();
        }
        let mut owner = tree("{apiVersion: batch/v1, kind: CronJob, controller: true}");
        owner["name"] = cron["metadata"]["name"].clone();
        owner["uid"] = cron["metadata"]["uid"].clone();
        object["metadata"]["ownerReferences"] = values(vec![owner]);
        object["metadata"]["namespace"] = cron["metadata"]["namespace"].clone();
        object["spec"] = template["spec"].clone();
    }
    object["status"] = Value::object();
    make(call, object, "jobs.batch", "failed to create job: ")
}

fn cron_job(call: &Invocation<'_>) -> Result {
    let name = one_name(call)?;
    let mut object = begin(call, "batch/v1", "CronJob", true)?;
    let restart = match call.flags.text("restart") {
        "" => "OnFailure",
        given => given,
    };
    let template = &mut object["spec"]["jobTemplate"];
    template["metadata"]["name"] = name.as_str().into();
    template["spec"]["template"]["metadata"] = Value::object();
    template["spec"]["template"]["spec"]["containers"] =
        container(&name, call.flags.text("image"), command(call));
    template["spec"]["template"]["spec"]["restartPolicy"] = restart.into();
    object["spec"]["schedule"] = call.flags.text("schedule").into();
    object["status"] = Value::object();
    make(call, object, "cronjobs.batch", "failed to create cronjob: ")
}
