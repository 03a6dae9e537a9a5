//! `autoscale`: creates a `HorizontalPodAutoscaler` for a scalable object.

use object::{Quantity, Value};

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES,
    create::{annotate_declared, tree},
    for_each_object, write_query,
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
    workload::push,
};

pub(crate) const COMMAND: Command = Command::new(
    "autoscale",
    &[
        FILES,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::new("min", FlagType::Int32).default("-1"),
            Flag::new("max", FlagType::Int32).default("-1").required(),
            Flag::new("cpu-percent", FlagType::Int32).default("-1").deprecated(
                "Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or '500m' for milliCPU).",
            ),
            Flag::text("cpu"),
            Flag::text("memory"),
            Flag::text("name"),
            Flag::bool("save-config"),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    check(call)?;
    let metrics = metrics(call)?;
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-autoscale")?;
    let how = BuilderOptions { fetch: !call.has_files(), ..BuilderOptions::default() };
    let (infos, fails) = call.select(call.args(), how)?;
    if infos.is_empty() {
        CommandError::collect(fails)?;
        return Err(CommandError::error("no objects passed to autoscale"));
    }
    for_each_object(&infos, fails, |info| {
        let (made, done) = one(call, info, &metrics, dry_run, &query)?;
        output.print_declared(call, &made, &format!("{done}{}", dry_run.suffix()))
    })
}

fn check(call: &Invocation<'_>) -> Result {
    let (min, max) = (call.flags.int("min"), call.flags.int("max"));
    if max < 1 {
        return Err(CommandError::error(format!(
            "--max=MAXPODS is required and must be at least 1, max: {max}"
        )));
    }
    if max < min {
        return Err(CommandError::error(format!(
            "--max=MAXPODS must be larger or equal to --min=MINPODS, max: {max}, min: {min}"
        )));
    }
    Ok(())
}

/// Creates the autoscaler of one object. Returns it and the verb for the message.
fn one(
    call: &Invocation<'_>,
    info: &Info,
    metrics: &Value,
    dry_run: DryRun,
    query: &str,
) -> Result<(Value, &'static str)> {
    if !info.resource.subresources.iter().any(|sub| sub == "scale") {
        return Err(CommandError::error(format!(
            "cannot autoscale a {}: could not find scale subresource for {} in discovery information",
            info.resource.kind,
            info.resource.gvr()
        )));
    }
    let mut scaler = scaler(call, info, metrics)?;
    ChangeCause::of(call).annotate(&mut scaler);
    if dry_run == DryRun::Client {
        return Ok((scaler, "created"));
    }
    if call.flags.is_true("save-config") {
        annotate_declared(&mut scaler);
    }
    let path = format!(
        "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers{query}",
        call.namespace()?
    );
    let made = call.server()?.post(&path, &scaler).map_err(|fail| refused(call, fail))?;
    Ok((made, "autoscaled"))
}

/// The error when the server rejects the autoscaler. As upstream, it says that the configuration is incompatible with
/// autoscaling/v1, unless v1 could express it.
fn refused(call: &Invocation<'_>, fail: CommandError) -> CommandError {
    let (cpu, memory) = (call.flags.text("cpu"), call.flags.text("memory"));
    let why = match (cpu, memory) {
        ("", _) => "empty input",
        (cpu, "") if cpu.ends_with('%') => return fail,
        _ => "%!w(<nil>)",
    };
    CommandError::error(format!(
        "failed to create autoscaling/v2 HPA and the configuration is incompatible with autoscaling/v1: {why}"
    ))
}

fn scaler(call: &Invocation<'_>, info: &Info, metrics: &Value) -> Result<Value> {
    let mut scaler = tree(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {desiredReplicas: 0}}",
    );
    *scaler["status"].get_mut("currentMetrics") = Value::Null;
    scaler["metadata"]["name"] = match call.flags.text("name") {
        "" => info.name.as_str().into(),
        name => name.into(),
    };
    if call.namespace_given() {
        scaler["metadata"]["namespace"] = call.namespace()?.into();
    }
    let spec = scaler.get_mut("spec");
    spec["maxReplicas"] = call.flags.int("max").into();
    if call.flags.int("min") > 0 {
        spec["minReplicas"] = call.flags.int("min").into();
    }
    if !metrics.is_null() {
        spec["metrics"] = metrics.clone();
    }
    spec["scaleTargetRef"]["apiVersion"] = info.resource.api_version().into();
    spec["scaleTargetRef"]["kind"] = info.resource.kind.as_str().into();
    spec["scaleTargetRef"]["name"] = info.name.as_str().into();
    Ok(scaler)
}

/// The metrics that `--cpu-percent`, `--cpu` and `--memory` request.
fn metrics(call: &Invocation<'_>) -> Result<Value> {
    let (percent, cpu) = (call.flags.int("cpu-percent"), call.flags.text("cpu"));
    if percent > 0 && !cpu.is_empty() {
        return Err(CommandError::error("--cpu-percent and --cpu are mutually exclusive"));
    }
    let mut metrics = Value::Null;
    if percent > 0 {
        push(&mut metrics, metric("cpu", utilization(percent)));
    }
    for (name, unit) in [("cpu", "m"), ("memory", "Mi")] {
        let given = call.flags.text(name);
        if given.is_empty() {
            continue;
        }
        let wrong = || CommandError::error(format!("invalid resource {name} value: {given}"));
        let target = if let Some(percent) = given.strip_suffix('%') {
            let number =
                percent.parse::<i32>().ok().filter(|number| *number >= 0).ok_or_else(|| {
                    CommandError::error(format!("invalid percentage value: {percent}"))
                })?;
            utilization(number.into())
        } else {
            let spelled = if given.parse::<f64>().is_ok() {
                format!("{given}{unit}")
            } else {
                given.to_owned()
            };
            let amount: Quantity = spelled.parse().map_err(|_| wrong())?;
            let mut target = tree("{type: AverageValue}");
            target["averageValue"] = amount.to_string().into();
            target
        };
        push(&mut metrics, metric(name, target));
    }
    Ok(metrics)
}

fn utilization(percent: i64) -> Value {
    let mut target = tree("{type: Utilization}");
    target["averageUtilization"] = percent.into();
    target
}

fn metric(name: &str, target: Value) -> Value {
    let mut metric = tree("{type: Resource}");
    metric["resource"]["name"] = name.into();
    metric["resource"]["target"] = target;
    metric
}
