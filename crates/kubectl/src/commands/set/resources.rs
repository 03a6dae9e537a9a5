//! `set resources`: what containers ask for, and what they may use at most.

use object::{Quantity, Value};

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, Setting, change_all, check_dry_run,
    objects, print,
};
use crate::{
    call::Call,
    commands::{DryRun, SELECTOR},
    fail::{Fail, Result},
    flags::Flag,
    record,
    workload::{each_container, fits, pod_spec},
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

fn run(call: &Call<'_>) -> Result {
    let infos = objects(call, call.words())?;
    check_dry_run(call, DryRun::of(call)?)?;
    if call.flags.text("limits").is_empty() && call.flags.text("requests").is_empty() {
        return Err(Fail::error(
            "you must specify an update to requests or limits (in the form of --requests/--limits)",
        ));
    }
    let (limits, requests) =
        (amounts(call.flags.text("limits"))?, amounts(call.flags.text("requests"))?);
    let pattern = call.flags.text("containers");
    let setting = Setting {
        done: "resource requirements updated",
        failed: "failed to patch resources update to pod template",
        always: false,
    };
    change_all(call, infos, &setting, |object, fails| {
        let found = each_container(
            pod_spec(object)?,
            |name| fits(name, pattern),
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
            fails.push(Fail::error(format!("unable to find container named {pattern}")));
        }
        Ok(found > 0)
    })
}

/// `cpu=100m,memory=256Mi`.
pub(crate) fn amounts(text: &str) -> Result<Vec<(&str, Value)>> {
    let mut all = Vec::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = pair.split('=').collect();
        let [name, amount] = parts[..] else {
            return Err(Fail::error(format!(
                "invalid argument syntax {pair}, expected <resource>=<value>"
            )));
        };
        let amount: Quantity = amount
            .parse()
            .map_err(|error: object::QuantityError| Fail::error(error.to_string()))?;
        all.push((name, Value::from(amount.to_string())));
    }
    Ok(all)
}
