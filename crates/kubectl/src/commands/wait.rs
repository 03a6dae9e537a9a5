//! `wait`: until objects are as they should be.

use object::Value;

use super::{ALL, ALL_NAMESPACES, Command, FIELD_SELECTOR, FILES, SELECTOR};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    print::{self, Output, jsonpath},
    select::{How, Info},
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
            Flag::new("timeout", Kind::Duration).default("30s"),
            Flag::bool("local"),
        ],
    ],
    run,
);

/// What is waited for.
enum For {
    Delete,
    Create,
    Condition { kind: String, status: String },
    Path { template: jsonpath::Template, value: Option<String> },
}

impl For {
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
            let (path, value) = match path.rfind("}=") {
                Some(at) => {
                    (&path[..=at], Some(path[at + 2..].trim_matches(['\'', '"']).to_owned()))
                }
                None => (path, None),
            };
            if value.as_deref() == Some("") {
                return Err(Fail::error(
                    "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
                ));
            }
            let template = jsonpath::Template::relaxed(path).map_err(Fail::error)?;
            return Ok(Self::Path { template, value });
        }
        Err(Fail::error(format!("unrecognized condition: {}", object::quote::quote(text))))
    }

    /// Whether an object fulfils it.
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
            Self::Path { template, value } => {
                let found: Vec<Value> =
                    template.find(object).unwrap_or_default().into_iter().flatten().collect();
                let Some(wanted) = value else { return Ok(!found.is_empty()) };
                match &found[..] {
                    [] => Ok(false),
                    [Value::List(_) | Value::Object(_) | Value::Map(_)] => Err(Fail::error(
                        "jsonpath leads to a nested object or list which is not supported",
                    )),
                    [one] => Ok(jsonpath::text(one).trim() == wanted.trim()),
                    _ => Err(Fail::error("given jsonpath expression matches more than one value")),
                }
            }
        }
    }
}

fn run(call: &Call<'_>) -> Result {
    let condition = For::parse(call.flags.text("for"))?;
    if call.flags.on("local") {
        return Err(Fail::error("--local is not supported"));
    }
    let output = Output::of(call, false)?;
    let timeout = call.flags.duration("timeout");
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    let seconds = if timeout < 0 { 7.0 * 24.0 * 3600.0 } else { timeout as f64 / 1e9 };
    let started = std::time::Instant::now();
    let (infos, mut fails) = match condition {
        For::Create => wait_created(call, seconds, started)?,
        _ => call.select(
            call.words(),
            How {
                fetch: true,
                local: true,
                ignore_missing: matches!(condition, For::Delete),
                ..How::default()
            },
        )?,
    };
    if infos.is_empty() {
        Fail::collect(fails)?;
        return match condition {
            For::Delete => Ok(()),
            _ => Err(Fail::error("no matching resources found")),
        };
    }
    for info in infos {
        let left = seconds - started.elapsed().as_secs_f64();
        if timeout > 0 && left <= 0.0 {
            fails.push(Fail::Plain(format!(
                "timed out waiting for the condition on {}/{}",
                info.resource.plural, info.name
            )));
            continue;
        }
        match wait_one(call, &info, &condition, left) {
            Ok(Some(object)) => output.print(call, &object, "condition met")?,
            Ok(None) => fails.push(Fail::Plain(format!(
                "timed out waiting for the condition on {}/{}",
                info.resource.plural, info.name
            ))),
            Err(fail) => fails.push(fail),
        }
    }
    match Fail::collect(fails) {
        Err(Fail::Plain(says)) => Err(Fail::error(says)),
        other => other,
    }
}

fn wait_created(
    call: &Call<'_>,
    seconds: f64,
    started: std::time::Instant,
) -> Result<(Vec<Info>, Vec<Fail>)> {
    loop {
        let (infos, fails) =
            call.select(call.words(), How { fetch: true, local: true, ..How::default() })?;
        let missing = fails.iter().all(Fail::is_not_found) && !fails.is_empty()
            || infos.is_empty() && fails.is_empty();
        if !missing {
            return Ok((infos, fails));
        }
        if started.elapsed().as_secs_f64() >= seconds {
            return Err(Fail::error("timed out waiting for the condition"));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// The object when the condition holds; `None` when time is up first.
fn wait_one(call: &Call<'_>, info: &Info, condition: &For, seconds: f64) -> Result<Option<Value>> {
    if condition.holds(&info.object)? {
        return Ok(Some(info.object.clone()));
    }
    if seconds <= 0.0 {
        return Ok(None);
    }
    let uid = &info.object["metadata"]["uid"];
    let mut met = None;
    call.follow(info, Some(seconds), |object| {
        let there = object.filter(|object| object["metadata"]["uid"] == *uid);
        met = match (condition, there) {
            (For::Delete, None) => Some(info.object.clone()),
            (For::Delete, Some(_)) | (_, None) => None,
            (condition, Some(object)) => condition.holds(object)?.then(|| object.clone()),
        };
        Ok(met.is_none())
    })?;
    Ok(met)
}
