//! `set selector`: changes the selector of a Service.

use object::{
    Value,
    selector::{Operator, Requirement, Selector},
};

use super::{ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, objects, print, typed};
use crate::{
    commands::{DryRun, write_query},
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::two_way,
    print::OutputFormat,
    record::{self, ChangeCause},
};

pub(super) const COMMAND: Command = Command::new(
    "selector",
    &[
        FILES,
        ALL,
        LOCAL,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[Flag::text("resource-version")],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-set")?;
    let Some((last, words)) = call.args().split_last() else {
        return Err(CommandError::error("one selector is required"));
    };
    let wanted = Selector::parse(last).map_err(|error| {
        CommandError::error(format!("couldn't parse the selector string \"{last}\": {error}"))
    })?;
    let not_allowed = |requirement: &&Requirement| {
        matches!(
            requirement.operator,
            Operator::NotEquals | Operator::GreaterThan | Operator::LessThan
        )
    };
    if let Some(requirement) = wanted.requirements().iter().find(not_allowed) {
        let operator = match requirement.operator {
            Operator::NotEquals => "!=",
            Operator::GreaterThan => "gt",
            _ => "lt",
        };
        return Err(CommandError::error(format!(
            "\"{operator}\" is not a valid label selector operator"
        )));
    }
    let (labels, expressions) = parts(&wanted);
    let version = call.flags.text("resource-version");
    for info in objects(call, words)? {
        let mut object = info.object.clone();
        if object["kind"].as_str() != Some("Service") {
            return Err(CommandError::error("setting a selector is only supported for Services"));
        }
        if !expressions.is_empty() {
            return Err(CommandError::error(format!(
                "match expression [{}] not supported on this object",
                expressions.join(" ")
            )));
        }
        object["spec"]["selector"] = labels.clone();
        ChangeCause::of(call).annotate(&mut object);
        if call.flags.is_true("local") || dry_run == DryRun::Client {
            typed::fill_zero_values(&mut object);
        } else {
            let (mut patch, sent) = two_way(&info.object, &object)?;
            if !version.is_empty() {
                patch["metadata"]["resourceVersion"] = version.into();
            }
            object = call.server()?.patch(&(info.path() + &query), sent, &patch)?;
        }
        output.print_declared(call, &object, &format!("selector updated{}", dry_run.suffix()))?;
    }
    Ok(())
}

/// The labels of equality requirements, and all other requirements as text.
fn parts(selector: &Selector) -> (Value, Vec<String>) {
    let (mut labels, mut rest) = (Value::object(), Vec::new());
    for Requirement { key, operator, values } in selector.requirements() {
        let name = match operator {
            Operator::Equals | Operator::DoubleEquals => {
                labels[key.as_str()] = values.first().map_or("", |value| value.as_str()).into();
                continue;
            }
            Operator::NotIn | Operator::NotEquals => "NotIn",
            Operator::In => "In",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan => "Gt",
            Operator::LessThan => "Lt",
        };
        let values: Vec<&str> = values.iter().map(object::Text::as_str).collect();
        rest.push(format!("{{{key} {name} [{}]}}", values.join(" ")));
    }
    (labels, rest)
}
