//! `get --watch`: prints objects, and again when they change.

use object::Value;

use super::get::{self, GetRequest, TABLE_ACCEPT};
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    print::{OutputFormat, tabwriter::TABLE},
    resources::escape,
    server::JSON,
};

/// Prints objects, then watches them.
pub(crate) fn watch(call: &Invocation<'_>, output: &OutputFormat) -> Result {
    let (mut parts, fails) = get::parts(call)?;
    CommandError::collect(fails)?;
    if parts.len() != 1 {
        let same = parts.iter().all(|part| part.single && part.resource == parts[0].resource);
        return Err(CommandError::error(if same && !parts.is_empty() {
            "you may only watch a single resource or type of resource at a time"
        } else {
            "you may only specify a single resource type"
        }));
    }
    let part = parts.remove(0);
    let accept = if output.is_human() { TABLE_ACCEPT } else { JSON };
    let query = if part.single { String::new() } else { call.list_query("") };
    let first = match call.server()?.get_as(&(part.path.clone() + &query), accept) {
        Err(fail) if fail.is_not_found() && call.flags.is_true("ignore-not-found") => return Ok(()),
        other => other?,
    };
    if call.flags.is_set("sort-by") {
        call.print_err(
            "warning: --watch requested, --sort-by will be ignored for watch events received",
        );
    }
    let mut shown = WatchPrinter::new(call, output, &part);
    if !call.flags.is_true("watch-only") {
        shown.put(&first, "ADDED")?;
    }
    let path = watch_path(call, &part, &first);
    let mut skip = part.single; // such a watch starts with the object that was just printed
    call.server()?.watch(&path, accept, call.timeout()?, |kind, object| {
        if !std::mem::take(&mut skip) {
            shown.put(object, kind)?;
        }
        Ok(true)
    })?;
    Ok(())
}

fn watch_path(call: &Invocation<'_>, part: &GetRequest, first: &Value) -> String {
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if part.single {
        let (collection, name) = part.path.rsplit_once('/').expect("a path has slashes");
        let selector = escape(&format!("metadata.name={name}"));
        return format!("{collection}?watch=true&resourceVersion=0&fieldSelector={selector}");
    }
    let query = call.list_query("");
    let query: Vec<&str> = query
        .trim_start_matches('?')
        .split('&')
        .filter(|part| !part.starts_with("limit=") && !part.is_empty())
        .collect();
    let more = if query.is_empty() { String::new() } else { format!("&{}", query.join("&")) };
    format!("{}?watch=true&resourceVersion={revision}{more}", part.path)
}

/// Prints the events of a watch, with the column widths of earlier rows.
struct WatchPrinter<'a> {
    call: &'a Invocation<'a>,
    output: &'a OutputFormat,
    options: crate::print::table::Options,
    columns: Vec<Value>,
    widths: Vec<usize>,
}

impl<'a> WatchPrinter<'a> {
    fn new(call: &'a Invocation<'a>, output: &'a OutputFormat, part: &GetRequest) -> Self {
        let wide = matches!(output, OutputFormat::Human { wide: true });
        let options = get::options(call, &part.resource, wide, call.flags.is_true("show-kind"));
        Self { call, output, options, columns: Vec::new(), widths: Vec::new() }
    }

    fn put(&mut self, object: &Value, event: &str) -> Result {
        if !self.output.is_human() {
            let items = match &object["items"] {
                Value::List(items) => items.to_vec(),
                _ => vec![object.clone()],
            };
            for mut item in items {
                if item["kind"].is_null() {
                    let kind = object["kind"].as_str().unwrap_or_default();
                    item["kind"] = kind.strip_suffix("List").unwrap_or(kind).into();
                    item["apiVersion"] = object["apiVersion"].clone();
                }
                if self.call.flags.is_true("output-watch-events") {
                    let mut wrapped = Value::object();
                    wrapped["type"] = event.into();
                    wrapped["object"] = item;
                    item = wrapped;
                }
                self.output.print(self.call, &item, "")?;
            }
            return Ok(());
        }
        if self.call.flags.is_true("output-watch-events") {
            self.options.event = Some(event.to_owned());
        }
        let first = self.widths.is_empty() && self.columns.is_empty();
        if !object["columnDefinitions"].items().is_empty() {
            self.columns = object["columnDefinitions"].items().to_vec();
        }
        let headers = first && !self.options.no_headers;
        let text = crate::print::table::text(object, &self.columns, &self.options, headers);
        if text.is_empty() && first {
            self.columns.clear();
        }
        self.call.print(&TABLE.align_with_widths(&text, &mut self.widths));
        Ok(())
    }
}
