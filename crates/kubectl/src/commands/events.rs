//! `events`: what happened, the newest last.

use object::{Value, quote::quote};

use super::{ALL_NAMESPACES, CHUNKS, Command};
use crate::{
    call::Call,
    describe::event_age,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    print::{self, Output, table, terminal},
    resources::escape,
};

pub(crate) const COMMAND: Command = Command::new(
    "events",
    &[
        ALL_NAMESPACES,
        CHUNKS,
        print::FLAGS,
        &[
            Flag::text("for"),
            Flag::new("types", Kind::List),
            Flag::bool("no-headers"),
            Flag::bool("watch").short('w'),
        ],
    ],
    run,
);

#[expect(clippy::too_many_lines, reason = "flags, list, table: one after the other")]
fn run(call: &Call<'_>) -> Result {
    let types = call.flags.all("types");
    if types
        .iter()
        .any(|kind| !kind.eq_ignore_ascii_case("Normal") && !kind.eq_ignore_ascii_case("Warning"))
    {
        return Err(Fail::error("valid --types are Normal or Warning"));
    }
    if call.flags.on("watch") {
        return Err(Fail::error("--watch is not supported: use kubectl get events --watch"));
    }
    let output = Output::of(call, false)?;
    let everywhere = call.flags.on("all-namespaces");
    let path = if everywhere {
        "/api/v1/events".to_owned()
    } else {
        format!("/api/v1/namespaces/{}/events", call.namespace()?)
    };
    let mut query = "?limit=500".to_owned();
    let about = call.flags.text("for");
    if !about.is_empty() {
        let Some((word, name)) = about.split_once('/') else {
            return Err(Fail::error("--for must be in resource/name form"));
        };
        let resource = call.resources()?.find(word).map_err(|_| {
            Fail::error(format!("the server doesn't have a resource type {}", quote(word)))
        })?;
        let selector = format!("involvedObject.kind={},involvedObject.name={name}", resource.kind);
        query += &format!("&fieldSelector={}", escape(&selector));
    }
    let list = call.server()?.get(&(path + &query))?;
    let mut all: Vec<Value> = list["items"].items().to_vec();
    all.retain(|event| {
        types.is_empty()
            || types
                .iter()
                .any(|kind| event["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(kind)))
    });
    if all.is_empty() {
        if everywhere {
            call.say("No events found.");
        } else {
            call.say(&format!("No events found in {} namespace.", call.namespace()?));
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
        let mut items = all;
        for item in &mut items {
            item["kind"] = "Event".into();
            item["apiVersion"] = "v1".into();
        }
        let mut list = Value::object();
        list["apiVersion"] = "v1".into();
        list["kind"] = "EventList".into();
        list["metadata"] = Value::object();
        list["items"] = Value::List(items.into());
        return match output {
            Output::Name => Ok(()),
            output => output.print_declared(call, &list, ""),
        };
    }
    let mut text = String::new();
    if !call.flags.on("no-headers") {
        text += if everywhere { "NAMESPACE\t" } else { "" };
        text += "LAST SEEN\tTYPE\tREASON\tOBJECT\tMESSAGE\n";
    }
    for event in &all {
        let field =
            |value: &Value| terminal::escape(value.as_str().unwrap_or_default()).into_owned();
        if everywhere {
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
    }
    call.out(&table::align(&text));
    Ok(())
}
