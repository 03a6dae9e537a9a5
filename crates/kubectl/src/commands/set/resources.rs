//! `set resources`: changes the resource requests and limits of containers.

use object::{Quantity, Value};

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, SetMessages, change_all, check_dry_run,
    objects, print,
};
use crate::{
    commands::{DryRun, SELECTOR},
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    record,
    workload::{each_container, matches_pattern, pod_spec},
};

pub(super) const COMMAND: Command = Command::new(
    "resources",
    &[
        FILES,
        ALL,
        SELECTOR,
        LOCAL,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::text("containers").short('c').default("*"),
            Flag::text("limits"),
            Flag::text("requests"),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let infos = objects(call, call.args())?;
    check_dry_run(call, DryRun::of(call)?)?;
    if call.flags.text("limits").is_empty() && call.flags.text("requests").is_empty() {
        return Err(CommandError::error(
            "you must specify an update to requests or limits (in the form of --requests/--limits)",
        ));
    }
    let (limits, requests) =
        (amounts(call.flags.text("limits"))?, amounts(call.flags.text("requests"))?);
    let pattern = call.flags.text("containers");
    let setting = SetMessages {
        done: "resource requirements updated",
        failed: "failed to patch resources update to pod template",
        always: false,
    };
    change_all(call, infos, &setting, |object, fails| {
        let found = each_container(
            pod_spec(object)?,
            |name| matches_pattern(name, pattern),
            |container| {
                for (field, amounts) in [("limits", &limits), ("requests", &requests)] {
                    for (name, amount) in amounts {
                        container["resources"][field][*name] = amount.clone();
                    }
                }
                Ok(())
            },
        )?;
        if found == 0 {
            fails.push(CommandError::error(format!("unable to find container named {pattern}")));
        }
        Ok(found > 0)
    })
}

/// Parses a list of quantities: `cpu=100m,memory=256Mi`.
pub(crate) fn amounts(text: &str) -> Result<Vec<(&str, Value)>> {
    let mut all = Vec::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = pair.split('=').collect();
        let [name, amount] = parts[..] else {
            return Err(CommandError::error(format!(
                "invalid argument syntax {pair}, expected <resource>=<value>"
            )));
        };
        let amount: Quantity = amount
            .parse()
            .map_err(|error: object::QuantityError| CommandError::error(error.to_string()))?;
        all.push((name, Value::from(amount.to_string())));
    }
    Ok(all)
}
