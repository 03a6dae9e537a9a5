//! `events`: prints events, the newest last.

use object::{Value, quote::quote};

use super::{ALL_NAMESPACES, CHUNKS, Command};
use crate::{
    describe::event_age,
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat, table, tabwriter::TABLE, terminal},
    resources::escape,
    server::JSON,
};

pub(crate) const COMMAND: Command = Command::new(
    "events",
    &[
        ALL_NAMESPACES,
        CHUNKS,
        print::FLAGS,
        &[
            Flag::text("for"),
            Flag::new("types", FlagType::StringSlice),
            Flag::bool("no-headers"),
            Flag::bool("watch").short('w'),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let types = call.flags.all("types");
    if types
        .iter()
        .any(|kind| !kind.eq_ignore_ascii_case("Normal") && !kind.eq_ignore_ascii_case("Warning"))
    {
        return Err(CommandError::error("valid --types are Normal or Warning"));
    }
    let output = OutputFormat::of(call, false)?;
    let everywhere = call.flags.is_true("all-namespaces");
    let path = if everywhere {
        "/api/v1/events".to_owned()
    } else {
        format!("/api/v1/namespaces/{}/events", call.namespace()?)
    };
    let selector = selector(call)?;
    if call.flags.is_true("watch") {
        return watch(call, &output, &format!("{path}?watch=true{selector}"));
    }
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let list = call.server()?.get(&format!("{path}?limit=500{selector}{next}"))?;
        all.extend(list["items"].items().iter().filter(|event| is_wanted(call, event)).cloned());
        match list["metadata"]["continue"].as_str() {
            Some(more) if !more.is_empty() => next = format!("&continue={}", escape(more)),
            _ => break,
        }
    }
    if all.is_empty() {
        if everywhere {
            call.print_err("No events found.");
        } else {
            call.print_err(&format!("No events found in {} namespace.", call.namespace()?));
        }
        return Ok(());
    }
    let when = |event: &Value| {
        let series = event["series"]["lastObservedTime"].as_str();
        let time = series.or(event["lastTimestamp"].as_str()).or(event["eventTime"].as_str());
        time.unwrap_or_default().to_owned()
    };
    all.sort_by_key(when);
    if !output.is_human() {
        return print_list(call, output, all);
    }
    let mut text = header(call);
    all.iter().for_each(|event| text += &line(call, event));
    call.print(&table::align(&text));
    Ok(())
}

/// The query for the events of one object; empty for those of all.
fn selector(call: &Invocation<'_>) -> Result<String> {
    let about = call.flags.text("for");
    if about.is_empty() {
        return Ok(String::new());
    }
    let Some((word, name)) = about.split_once('/') else {
        return Err(CommandError::error("--for must be in resource/name form"));
    };
    if name.contains('/') {
        return Err(CommandError::error(
            "arguments in resource/name form may not have more than one slash",
        ));
    }
    let resource = call.resources()?.find(word).map_err(|_| {
        CommandError::Raw(format!("the server doesn't have a resource type {}", quote(word)))
    })?;
    if name.is_empty() {
        return Ok(String::new());
    }
    let selector = format!(
        "involvedObject.kind={},involvedObject.apiVersion={},involvedObject.name={name}",
        resource.kind,
        resource.api_version()
    );
    Ok(format!("&fieldSelector={}", escape(&selector)))
}

/// Prints existing events, then new ones as they arrive.
fn watch(call: &Invocation<'_>, output: &OutputFormat, path: &str) -> Result {
    let (mut widths, mut header) = (Vec::new(), header(call));
    call.server()?.watch(path, JSON, call.timeout()?, |kind, event| {
        // Events expire after an hour; their deletion is not printed.
        if kind == "DELETED" || kind == "BOOKMARK" || !is_wanted(call, event) {
            return Ok(true);
        }
        if output.is_human() {
            let text = std::mem::take(&mut header) + &line(call, event);
            call.print(&TABLE.align_with_widths(&text, &mut widths));
        } else {
            output.print(call, event, "")?;
        }
        Ok(true)
    })?;
    Ok(())
}

fn is_wanted(call: &Invocation<'_>, event: &Value) -> bool {
    let types = call.flags.all("types");
    let kind = event["type"].as_str().unwrap_or_default();
    types.is_empty() || types.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))
}

fn print_list(call: &Invocation<'_>, output: OutputFormat, mut items: Vec<Value>) -> Result {
    for item in &mut items {
        item["kind"] = "Event".into();
        item["apiVersion"] = "v1".into();
    }
    let mut list = Value::object();
    list["apiVersion"] = "v1".into();
    list["kind"] = "EventList".into();
    list["metadata"] = Value::object();
    list["items"] = Value::List(items.into());
    match output {
        OutputFormat::Name => Ok(()),
        output => output.print_declared(call, &list, ""),
    }
}

fn header(call: &Invocation<'_>) -> String {
    let namespace = if call.flags.is_true("all-namespaces") { "NAMESPACE\t" } else { "" };
    if call.flags.is_true("no-headers") {
        return String::new();
    }
    format!("{namespace}LAST SEEN\tTYPE\tREASON\tOBJECT\tMESSAGE\n")
}

fn line(call: &Invocation<'_>, event: &Value) -> String {
    let field = |value: &Value| terminal::escape(value.as_str().unwrap_or_default()).into_owned();
    let mut text = String::new();
    if call.flags.is_true("all-namespaces") {
        text += &format!("{}\t", field(&event["metadata"]["namespace"]));
    }
    let about = &event["involvedObject"];
    text += &format!(
        "{}\t{}\t{}\t{}/{}\t{}\n",
        event_age(event, call.now()),
        field(&event["type"]),
        field(&event["reason"]),
        field(&about["kind"]),
        field(&about["name"]),
        field(&event["message"]).trim()
    );
    text
}
