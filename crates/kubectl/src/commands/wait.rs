//! `wait`: waits until objects meet a condition.

use object::Value;

use super::{ALL, ALL_NAMESPACES, Command, FIELD_SELECTOR, FILES, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat, jsonpath},
    select::{BuilderOptions, Info},
};

pub(crate) const COMMAND: Command = Command::new(
    "wait",
    &[
        FILES,
        SELECTOR,
        FIELD_SELECTOR,
        ALL,
        ALL_NAMESPACES,
        print::FLAGS,
        &[
            Flag::text("for"),
            Flag::new("timeout", FlagType::Duration).default("30s"),
            Flag::bool("local"),
        ],
    ],
    run,
);

/// The condition to wait for.
enum WaitCondition {
    Delete,
    Create,
    Condition { kind: String, status: String },
    JsonPath { template: jsonpath::Template, value: Option<String> },
}

/// Splits `{.status.phase}=Running` into the path and the value. A double `==` is part of the path.
fn split_json_path(text: &str) -> Result<(String, Option<String>)> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '=' if chars.next_if_eq(&'=').is_some() => parts[last] += "==",
            '=' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    match <[String; 2]>::try_from(parts) {
        Ok([path, value]) => Ok((path, Some(value.trim_matches(['\'', '"']).to_owned()))),
        Err(parts) if parts.len() == 1 => Ok((parts.concat(), None)),
        Err(_) => Err(CommandError::error(
            "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or --for=jsonpath='{.status.readyReplicas}'",
        )),
    }
}

impl WaitCondition {
    fn parse(text: &str) -> Result<Self> {
        let lower = text.to_lowercase();
        if lower == "delete" {
            return Ok(Self::Delete);
        }
        if lower == "create" {
            return Ok(Self::Create);
        }
        if let Some(condition) = text.strip_prefix("condition=") {
            let (kind, status) = condition.split_once('=').unwrap_or((condition, "true"));
            return Ok(Self::Condition { kind: kind.to_owned(), status: status.to_owned() });
        }
        if let Some(path) = text.strip_prefix("jsonpath=") {
            let path = path.trim_matches(['\'', '"']);
            if path.is_empty() {
                return Err(CommandError::error("jsonpath expression cannot be empty"));
            }
            let (path, value) = split_json_path(path)?;
            let path = path.trim_matches(['\'', '"']);
            if path == "{}" {
                return Err(CommandError::error(
                    "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'",
                ));
            }
            if value.as_deref() == Some("") {
                return Err(CommandError::error(
                    "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
                ));
            }
            let template = jsonpath::Template::parse_relaxed(path).map_err(CommandError::error)?;
            return Ok(Self::JsonPath { template, value });
        }
        Err(CommandError::error(format!("unrecognized condition: {}", object::quote::quote(text))))
    }

    /// Whether an object meets the condition.
    fn holds(&self, object: &Value) -> Result<bool> {
        match self {
            Self::Delete => Ok(false),
            Self::Create => Ok(true),
            Self::Condition { kind, status } => {
                let found = object["status"]["conditions"].items().iter().find(|condition| {
                    condition["type"].as_str().is_some_and(|other| other.eq_ignore_ascii_case(kind))
                });
                let Some(condition) = found else { return Ok(false) };
                let (observed, generation) = (
                    condition["observedGeneration"].as_i64(),
                    object["metadata"]["generation"].as_i64(),
                );
                let observed = observed.or(object["status"]["observedGeneration"].as_i64());
                if observed
                    .zip(generation)
                    .is_some_and(|(observed, generation)| observed < generation)
                {
                    return Ok(false);
                }
                Ok(condition["status"].as_str().unwrap_or_default().eq_ignore_ascii_case(status))
            }
            Self::JsonPath { template, value } => {
                let found: Vec<Value> = template
                    .find_results(object)
                    .unwrap_or_default()
                    .into_iter()
                    .flatten()
                    .collect();
                let Some(wanted) = value else { return Ok(!found.is_empty()) };
                match &found[..] {
                    [] => Ok(false),
                    [Value::List(_) | Value::Object(_) | Value::Map(_)] => {
                        Err(CommandError::error(
                            "jsonpath leads to a nested object or list which is not supported",
                        ))
                    }
                    [one] => Ok(jsonpath::format_value(one).trim() == wanted.trim()),
                    _ => Err(CommandError::error(
                        "given jsonpath expression matches more than one value",
                    )),
                }
            }
        }
    }
}

fn run(call: &Invocation<'_>) -> Result {
    if !call.flags.is_set("for") {
        return Err(CommandError::error("unrecognized condition: []"));
    }
    let condition = WaitCondition::parse(call.flags.text("for"))?;
    if call.flags.is_true("local") {
        return Err(CommandError::error("--local is not supported"));
    }
    let output = OutputFormat::of(call, false)?;
    let timeout = call.flags.duration("timeout");
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    let seconds = if timeout < 0 { 7.0 * 24.0 * 3600.0 } else { timeout as f64 / 1e9 };
    let started = std::time::Instant::now();
    let (infos, mut fails) = match condition {
        WaitCondition::Create => wait_created(call, seconds, started)?,
        _ => call.select(
            call.args(),
            BuilderOptions {
                fetch: true,
                default_namespace: true,
                ignore_missing: matches!(condition, WaitCondition::Delete),
                ..BuilderOptions::default()
            },
        )?,
    };
    if infos.is_empty() {
        CommandError::collect(fails)?;
        return match condition {
            WaitCondition::Delete => Ok(()),
            _ => Err(CommandError::error("no matching resources found")),
        };
    }
    for info in infos {
        let left = seconds - started.elapsed().as_secs_f64();
        if timeout > 0 && left <= 0.0 {
            fails.push(CommandError::Raw(match condition {
                WaitCondition::Delete => "context deadline exceeded".to_owned(),
                _ => format!(
                    "timed out waiting for the condition on {}/{}",
                    info.resource.plural, info.name
                ),
            }));
            continue;
        }
        match wait_one(call, &info, &condition, left) {
            Ok(Some(object)) => output.print(call, &object, "condition met")?,
            Ok(None) => fails.push(CommandError::Raw(format!(
                "timed out waiting for the condition on {}/{}",
                info.resource.plural, info.name
            ))),
            Err(fail) => fails.push(fail),
        }
    }
    match CommandError::collect(fails) {
        Err(CommandError::Raw(says)) => Err(CommandError::error(says)),
        other => other,
    }
}

fn wait_created(
    call: &Invocation<'_>,
    seconds: f64,
    started: std::time::Instant,
) -> Result<(Vec<Info>, Vec<CommandError>)> {
    loop {
        let (infos, fails) = call.select(
            call.args(),
            BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() },
        )?;
        let missing = fails.iter().all(CommandError::is_not_found) && !fails.is_empty()
            || infos.is_empty() && fails.is_empty();
        if !missing {
            return Ok((infos, fails));
        }
        if started.elapsed().as_secs_f64() >= seconds {
            return Err(CommandError::error("timed out waiting for the condition"));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// Waits until the condition holds; returns the object, or `None` after the timeout.
fn wait_one(
    call: &Invocation<'_>,
    info: &Info,
    condition: &WaitCondition,
    seconds: f64,
) -> Result<Option<Value>> {
    if condition.holds(&info.object)? {
        return Ok(Some(info.object.clone()));
    }
    if seconds <= 0.0 {
        return Ok(None);
    }
    let uid = &info.object["metadata"]["uid"];
    let mut met = None;
    call.watch_object(info, Some(seconds), |object| {
        let there = object.filter(|object| object["metadata"]["uid"] == *uid);
        met = match (condition, there) {
            (WaitCondition::Delete, None) => Some(info.object.clone()),
            (WaitCondition::Delete, Some(_)) | (_, None) => None,
            (condition, Some(object)) => condition.holds(object)?.then(|| object.clone()),
        };
        Ok(met.is_none())
    })?;
    Ok(met)
}
