//! `logs`: prints the logs of containers.

use std::borrow::Cow;

use object::{Value, quote::quote};

use super::{Command, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    resources::escape,
    streams::{container_of, pod_of},
};

pub(crate) const COMMAND: Command = Command::new(
    "logs",
    &[
        SELECTOR,
        &[
            Flag::text("container").short('c'),
            Flag::bool("follow").short('f'),
            Flag::bool("previous").short('p'),
            Flag::bool("timestamps"),
            Flag::bool("prefix"),
            Flag::bool("all-containers"),
            Flag::bool("all-pods"),
            Flag::bool("ignore-errors"),
            Flag::new("tail", FlagType::Int64).default("-1"),
            Flag::new("since", FlagType::Duration),
            Flag::text("since-time"),
            Flag::new("limit-bytes", FlagType::Int64),
            Flag::new("max-log-requests", FlagType::Int32).default("5"),
            Flag::new("pod-running-timeout", FlagType::Duration).default("20s"),
            Flag::bool("insecure-skip-tls-verify-backend"),
        ],
    ],
    run,
);

/// A container whose log is printed.
struct LogSource {
    pod: String,
    namespace: String,
    container: String,
}

fn run(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    let selecting = !flags.text("selector").is_empty();
    let words = call.args();
    let usage = "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument for the logs command";
    if words.len() > 2 || words.is_empty() && !selecting {
        return Err(call.usage(usage));
    }
    if selecting && words.len() == 1 {
        return Err(call.usage("only a selector (-l) or a POD name is allowed"));
    }
    let named = words.get(1).map_or(flags.text("container"), String::as_str);
    if flags.is_true("all-containers") && !named.is_empty() {
        return Err(CommandError::error(format!(
            "--all-containers=true should not be specified with container name {named}"
        )));
    }
    if flags.int("tail") < -1 {
        return Err(CommandError::error("--tail must be greater than or equal to -1"));
    }
    if flags.is_set("since") && flags.is_set("since-time") {
        return Err(CommandError::error(
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ));
    }
    check_limits(call)?;
    let pods = pods(call)?;
    if pods.is_empty() {
        call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
        return Ok(());
    }
    let mut sources = Vec::new();
    for pod in &pods {
        sources.extend(sources_of(call, pod, named)?);
    }
    let most = flags.int("max-log-requests");
    if flags.is_true("follow")
        && i64::try_from(sources.len()).unwrap_or(i64::MAX) > most
        && sources.len() > 1
    {
        return Err(CommandError::error(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {most}, use --max-log-requests to increase the limit",
            sources.len()
        )));
    }
    let query = query(call, selecting);
    if flags.is_true("follow") && sources.len() > 1 {
        return follow(call, &sources, &query);
    }
    for source in &sources {
        match show(call, source, &query) {
            Err(fail) if flags.is_true("ignore-errors") => {
                call.print_err(&format!("error: {}", fail.message()));
            }
            other => other?,
        }
    }
    Ok(())
}

fn check_limits(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    if flags.int("limit-bytes") < 0 {
        return Err(CommandError::error("--limit-bytes must be greater than 0"));
    }
    if flags.duration("since") < 0 {
        return Err(CommandError::error("--since must be greater than 0"));
    }
    let time = flags.text("since-time");
    if !time.is_empty() && time.parse::<jiff::Timestamp>().is_err() {
        // Go names the first part of the layout that does not fit.
        let part = if time.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "2006" };
        let rest = if part.is_empty() {
            String::new()
        } else {
            format!(": cannot parse {} as {}", quote(time), quote(part))
        };
        return Err(CommandError::error(format!(
            "parsing time {} as \"2006-01-02T15:04:05Z07:00\"{rest}",
            quote(time)
        )));
    }
    Ok(())
}

fn pods(call: &Invocation<'_>) -> Result<Vec<Value>> {
    let namespace = call.namespace()?;
    if !call.flags.text("selector").is_empty() {
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods?labelSelector={}",
            escape(call.flags.text("selector"))
        );
        return Ok(call.server()?.get(&path)?["items"].items().to_vec());
    }
    let word = &call.args()[0];
    if call.flags.is_true("all-pods") {
        return crate::streams::pods_of(call, word);
    }
    match pod_of(call, word) {
        Err(CommandError::Server { status, .. }) if status.has_reason("NotFound") => {
            Err(CommandError::error(format!(
                "error from server (NotFound): {} in namespace {}",
                status.message(),
                quote(&namespace)
            )))
        }
        Err(CommandError::Error(says)) if says.starts_with("cannot attach to ") => {
            Err(CommandError::error(says.replace("cannot attach to", "cannot get the logs from")))
        }
        other => Ok(vec![other?]),
    }
}

fn sources_of(call: &Invocation<'_>, pod: &Value, named: &str) -> Result<Vec<LogSource>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let source = |container: String| LogSource {
        pod: text(&pod["metadata"]["name"]),
        namespace: text(&pod["metadata"]["namespace"]),
        container,
    };
    if call.flags.is_true("all-containers") {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let all = lists
            .iter()
            .flat_map(|list| pod["spec"][*list].items())
            .map(|c| source(text(&c["name"])));
        return Ok(all.collect());
    }
    Ok(vec![source(container_of(call, pod, named, false)?)])
}

fn query(call: &Invocation<'_>, selecting: bool) -> String {
    let flags = &call.flags;
    let mut query = Vec::new();
    for name in ["follow", "previous", "timestamps"] {
        if flags.is_true(name) {
            query.push(format!("{name}=true"));
        }
    }
    if flags.is_true("insecure-skip-tls-verify-backend") {
        query.push("insecureSkipTLSVerifyBackend=true".to_owned());
    }
    let tail = if selecting && !flags.is_set("tail") { 10 } else { flags.int("tail") };
    if tail >= 0 {
        query.push(format!("tailLines={tail}"));
    }
    if flags.int("limit-bytes") > 0 {
        query.push(format!("limitBytes={}", flags.int("limit-bytes")));
    }
    if flags.is_set("since") {
        let seconds = flags.duration("since").div_euclid(1_000_000_000)
            + i64::from(flags.duration("since") % 1_000_000_000 > 0);
        query.push(format!("sinceSeconds={seconds}"));
    }
    if flags.is_set("since-time") {
        query.push(format!("sinceTime={}", escape(flags.text("since-time"))));
    }
    query.join("&")
}

fn path(source: &LogSource, query: &str) -> String {
    let LogSource { pod, namespace, container } = source;
    let more = if query.is_empty() { String::new() } else { format!("&{query}") };
    format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}{more}")
}

fn show(call: &Invocation<'_>, source: &LogSource, query: &str) -> Result {
    let prefix = prefix(call, source);
    let mut at_start = true;
    call.server()?.stream(&path(source, query), |bytes| {
        call.out_bytes(&with_prefix(bytes, &prefix, &mut at_start));
        Ok(true)
    })
}

fn prefix(call: &Invocation<'_>, source: &LogSource) -> String {
    let wanted = call.flags.is_true("prefix") || call.flags.is_true("all-pods");
    if wanted { format!("[pod/{}/{}] ", source.pod, source.container) } else { String::new() }
}

/// Inserts the prefix at the beginning of every line.
fn with_prefix<'a>(bytes: &'a [u8], prefix: &str, at_start: &mut bool) -> Cow<'a, [u8]> {
    if prefix.is_empty() {
        return bytes.into();
    }
    let mut out = Vec::with_capacity(bytes.len() + prefix.len());
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if *at_start {
            out.extend_from_slice(prefix.as_bytes());
        }
        out.extend_from_slice(line);
        *at_start = line.ends_with(b"\n");
    }
    out.into()
}

/// Follows several logs at once, and prints lines as they arrive.
fn follow(call: &Invocation<'_>, sources: &[LogSource], query: &str) -> Result {
    let server = call.server()?;
    server.wait(async {
        let work = sources.iter().map(|source| {
            let (prefix, path) = (prefix(call, source), path(source, query));
            async move {
                let mut answer = server.open(&path).await?;
                let mut at_start = true;
                while let Some(chunk) = answer.chunk().await.map_err(CommandError::from)? {
                    call.out_bytes(&with_prefix(&chunk, &prefix, &mut at_start));
                }
                Ok::<(), CommandError>(())
            }
        });
        let done: Vec<Result> = futures_util::future::join_all(work).await;
        CommandError::collect(done.into_iter().filter_map(std::result::Result::err).collect())
    })
}
