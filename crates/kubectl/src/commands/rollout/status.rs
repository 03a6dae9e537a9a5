//! `rollout status`: reports the progress of a rollout.

use object::{Value, quote::quote};

use super::workloads;
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    select::Info,
};

pub(super) fn run(call: &Invocation<'_>) -> Result {
    let revision = call.flags.int("revision");
    if revision < 0 {
        return Err(CommandError::error(format!(
            "revision must be a positive integer: {revision}"
        )));
    }
    let (infos, mut fails) = workloads(call)?;
    if infos.is_empty() && fails.is_empty() {
        call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
    }
    for info in &infos {
        if let Err(fail) = one(call, info, revision) {
            fails.push(fail);
        }
    }
    CommandError::collect(fails)
}

fn one(call: &Invocation<'_>, info: &Info, revision: i64) -> Result {
    info.resource.require_type()?;
    if !matches!(info.resource.kind.as_str(), "Deployment" | "DaemonSet" | "StatefulSet") {
        return Err(CommandError::error(format!(
            "no status viewer has been implemented for {}",
            info.resource.group_kind()
        )));
    }
    let (text, done) = status(&info.object, &info.resource.kind, revision)?;
    call.print(&text);
    if done || !call.flags.is_true("watch") {
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    let timeout = Some(call.flags.duration("timeout")).filter(|n| *n > 0).map(|n| n as f64 / 1e9);
    let mut shown = text;
    let finished = call.watch_object(info, timeout, |object| {
        let Some(object) = object else {
            return Err(CommandError::error("object has been deleted"));
        };
        let (text, done) = status(object, &info.resource.kind, revision)?;
        if text != shown {
            call.print(&text);
            shown = text;
        }
        Ok(!done)
    })?;
    if finished { Ok(()) } else { Err(CommandError::error("timed out waiting for the condition")) }
}

/// The status message of a workload, and whether its rollout is complete.
#[expect(clippy::too_many_lines, reason = "three kinds side by side")]
fn status(object: &Value, kind: &str, revision: i64) -> Result<(String, bool)> {
    let name = quote(object["metadata"]["name"].as_str().unwrap_or_default());
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let (spec, status) = (&object["spec"], &object["status"]);
    let observed =
        number(&object["metadata"]["generation"]) <= number(&status["observedGeneration"]);
    let rolling = |field: &str| match spec[field]["type"].as_str() {
        Some("RollingUpdate") => Ok(()),
        _ => Err(CommandError::error(
            "rollout status is only available for RollingUpdate strategy type",
        )),
    };
    Ok(match kind {
        "Deployment" => {
            let running: i64 =
                object["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
                    .as_str()
                    .unwrap_or_default()
                    .parse()
                    .unwrap_or(0);
            if revision > 0 && revision != running {
                return Err(CommandError::error(format!(
                    "desired revision ({revision}) is different from the running revision ({running})"
                )));
            }
            if !observed {
                return Ok((
                    "Waiting for deployment spec update to be observed...\n".to_owned(),
                    false,
                ));
            }
            let late = status["conditions"].items().iter().any(|c| {
                c["type"].as_str() == Some("Progressing")
                    && c["reason"].as_str() == Some("ProgressDeadlineExceeded")
            });
            if late {
                return Err(CommandError::error(format!(
                    "deployment {name} exceeded its progress deadline"
                )));
            }
            let (wanted, updated) = (number(&spec["replicas"]), number(&status["updatedReplicas"]));
            let (all, available) =
                (number(&status["replicas"]), number(&status["availableReplicas"]));
            let waiting = format!("Waiting for deployment {name} rollout to finish: ");
            if !spec["replicas"].is_null() && updated < wanted {
                (
                    format!(
                        "{waiting}{updated} out of {wanted} new replicas have been updated...\n"
                    ),
                    false,
                )
            } else if all > updated {
                (
                    format!("{waiting}{} old replicas are pending termination...\n", all - updated),
                    false,
                )
            } else if available < updated {
                (
                    format!(
                        "{waiting}{available} of {updated} updated replicas are available...\n"
                    ),
                    false,
                )
            } else {
                (format!("deployment {name} successfully rolled out\n"), true)
            }
        }
        "DaemonSet" => {
            rolling("updateStrategy")?;
            if !observed {
                return Ok((
                    "Waiting for daemon set spec update to be observed...\n".to_owned(),
                    false,
                ));
            }
            let (wanted, updated) = (
                number(&status["desiredNumberScheduled"]),
                number(&status["updatedNumberScheduled"]),
            );
            let available = number(&status["numberAvailable"]);
            let waiting = format!("Waiting for daemon set {name} rollout to finish: ");
            if updated < wanted {
                (
                    format!("{waiting}{updated} out of {wanted} new pods have been updated...\n"),
                    false,
                )
            } else if available < wanted {
                (format!("{waiting}{available} of {wanted} updated pods are available...\n"), false)
            } else {
                (format!("daemon set {name} successfully rolled out\n"), true)
            }
        }
        "StatefulSet" => {
            rolling("updateStrategy")?;
            if number(&status["observedGeneration"]) == 0 || !observed {
                return Ok((
                    "Waiting for statefulset spec update to be observed...\n".to_owned(),
                    false,
                ));
            }
            let (wanted, ready) = (number(&spec["replicas"]), number(&status["readyReplicas"]));
            let updated = number(&status["updatedReplicas"]);
            if ready < wanted {
                return Ok((
                    format!("Waiting for {} pods to be ready...\n", wanted - ready),
                    false,
                ));
            }
            let partition = &spec["updateStrategy"]["rollingUpdate"];
            if !partition.is_null() {
                let wanted = wanted - number(&partition["partition"]);
                if !partition["partition"].is_null() && updated < wanted {
                    return Ok((
                        format!(
                            "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated...\n"
                        ),
                        false,
                    ));
                }
                return Ok((
                    format!(
                        "partitioned roll out complete: {updated} new pods have been updated...\n"
                    ),
                    true,
                ));
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (update, current) =
                (text(&status["updateRevision"]), text(&status["currentRevision"]));
            if update != current {
                return Ok((
                    format!(
                        "waiting for statefulset rolling update to complete {updated} pods at revision {update}...\n"
                    ),
                    false,
                ));
            }
            let pods = number(&status["currentReplicas"]);
            (
                format!(
                    "statefulset rolling update complete {pods} pods at revision {current}...\n"
                ),
                true,
            )
        }
        kind => {
            return Err(CommandError::error(format!(
                "no status viewer has been implemented for {kind}"
            )));
        }
    })
}
