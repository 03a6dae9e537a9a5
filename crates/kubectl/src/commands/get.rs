//! `get`: prints objects.

use object::{Value, quantity::Quantity, quote::quote};

use super::{ALL_NAMESPACES, CHUNKS, Command, FIELD_SELECTOR, FILES, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat, json, jsonpath::Template, table},
    resources::Resource,
    select::{BuilderOptions, Target, target},
    server::JSON,
};

pub(crate) const COMMAND: Command = Command::new(
    "get",
    &[
        FILES,
        SELECTOR,
        FIELD_SELECTOR,
        ALL_NAMESPACES,
        CHUNKS,
        print::FLAGS,
        &[
            Flag::bool("watch").short('w'),
            Flag::bool("watch-only"),
            Flag::bool("output-watch-events"),
            Flag::bool("ignore-not-found"),
            Flag::bool("no-headers"),
            Flag::bool("show-labels"),
            Flag::bool("show-kind"),
            Flag::new("label-columns", FlagType::StringSlice).short('L'),
            Flag::text("sort-by"),
            Flag::text("raw"),
            Flag::text("subresource"),
            Flag::bool("server-print").default("true"),
        ],
    ],
    run,
);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn run(call: &Invocation<'_>) -> Result {
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        check_raw(call, raw)?;
        return raw_get(call, raw);
    }
    if call.args().is_empty() && !call.has_files() {
        call.print_err("You must specify the type of resource to get. Use \"kubectl api-resources\" for a complete list of supported resources.\n");
        return Err(call.usage("Required resource not specified.\nUse \"kubectl explain <resource>\" for a detailed description of that resource (e.g. kubectl explain pods)."));
    }
    let output = OutputFormat::of(call, true)?;
    check(call)?;
    if call.flags.is_true("watch") || call.flags.is_true("watch-only") {
        return super::get_watch(call, &output);
    }
    if output.is_human() { tables(call, &output) } else { objects(call, &output) }
}

fn check_raw(call: &Invocation<'_>, raw: &str) -> Result {
    let filters = !call.flags.text("selector").is_empty()
        || call.flags.is_true("watch")
        || call.flags.is_true("watch-only");
    Err(CommandError::error(if !call.args().is_empty() {
        "arguments may not be passed when --raw is specified".to_owned()
    } else if filters {
        "--raw may not be specified with other flags that filter the server request or alter the output".to_owned()
    } else if !call.flags.text("output").is_empty() {
        "--raw and --output are mutually exclusive".to_owned()
    } else if !raw.starts_with('/') && !raw.contains("://") {
        format!("--raw must be a valid URL path: parse {}: invalid URI for request", quote(raw))
    } else {
        return Ok(());
    }))
}

fn check(call: &Invocation<'_>) -> Result {
    let format = call.flags.text("output");
    let not_with = |flag: &str| {
        Err(CommandError::error(format!("--{flag} option cannot be used with {format} printer")))
    };
    if call.flags.is_true("show-labels") && !matches!(format, "" | "wide") {
        return not_with("show-labels");
    }
    if !call.flags.all("label-columns").is_empty() && format.starts_with("custom-columns") {
        return not_with("label-columns");
    }
    let watches = call.flags.is_true("watch") || call.flags.is_true("watch-only");
    if call.flags.is_true("output-watch-events") && !watches {
        return Err(CommandError::error(
            "--output-watch-events option can only be used with --watch or --watch-only",
        ));
    }
    Ok(())
}

fn raw_get(call: &Invocation<'_>, path: &str) -> Result {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let bytes = call.server()?.bytes(hyper::Method::GET, &path, JSON, None)?;
    call.out_bytes(&bytes);
    Ok(())
}

/// A request for one object or a list, with its resource and URL path.
pub(crate) struct GetRequest {
    pub(crate) resource: Resource,
    pub(crate) path: String,
    /// Whether it is for one object.
    pub(crate) single: bool,
}

/// The requests for the objects that the arguments select.
pub(crate) fn parts(call: &Invocation<'_>) -> Result<(Vec<GetRequest>, Vec<CommandError>)> {
    let sub = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    let mut parts = Vec::new();
    if call.has_files() {
        let (infos, fails) = call.select(
            call.args(),
            BuilderOptions {
                default_namespace: true,
                aggregates_unread: true,
                ..BuilderOptions::default()
            },
        )?;
        for info in infos {
            let path = info.path() + &sub;
            parts.push(GetRequest { resource: info.resource, path, single: true });
        }
        return Ok((parts, fails));
    }
    let selecting =
        !(call.flags.text("selector").is_empty() && call.flags.text("field-selector").is_empty());
    match target(call.args())? {
        Target::Named(_) if selecting => {
            return Err(CommandError::error(
                if call.args().iter().all(|word| word.contains('/')) {
                    "selectors and the all flag cannot be used when passing resource/name arguments"
                } else {
                    "name cannot be provided when a selector is specified"
                },
            ));
        }
        Target::Named(named) => {
            for (word, name) in named {
                let resource = call.resources()?.find(&word)?.clone();
                if call.flags.is_true("all-namespaces") {
                    return Err(CommandError::error(
                        "a resource cannot be retrieved by name across all namespaces",
                    ));
                }
                let path = resource.path(&call.namespace()?, &name) + &sub;
                parts.push(GetRequest { resource, path, single: true });
            }
        }
        Target::All(types) => {
            if !sub.is_empty() {
                return Err(CommandError::error(
                    "subresource cannot be used when bulk resources are specified",
                ));
            }
            let namespace = if call.flags.is_true("all-namespaces") {
                String::new()
            } else {
                call.namespace()?
            };
            for resource in call.types(&types)? {
                let path = resource.path(&namespace, "");
                parts.push(GetRequest { resource, path, single: false });
            }
        }
    }
    Ok((parts, Vec::new()))
}

fn tables(call: &Invocation<'_>, output: &OutputFormat) -> Result {
    let (parts, mut fails) = parts(call)?;
    let sort = call.flags.text("sort-by").to_owned();
    let include = if sort.is_empty() { "" } else { "Object" };
    let mut found: Vec<(Resource, Value)> = Vec::new();
    for part in parts {
        match fetch_table(call, &part, include) {
            Ok(table) => found.push((part.resource, table)),
            Err(fail) if fail.is_not_found() && call.flags.is_true("ignore-not-found") => {}
            Err(fail) => fails.push(call.explain(&part.resource, fail)),
        }
    }
    if !sort.is_empty() && found.len() > 1 {
        // Several tables are sorted as objects, which have none of the fields of their rows.
        let mut tables: Vec<Value> = found.iter().map(|(_, table)| table.clone()).collect();
        sort_values(&mut tables, &sort, |table| table)?;
    } else if !sort.is_empty() {
        for (_, table) in &mut found {
            if sort_rows(table, &sort).is_err() {
                table["rows"] = Value::Null; // upstream prints nothing then
            }
        }
    }
    let kinds: std::collections::BTreeSet<String> =
        found.iter().map(|(r, _)| r.qualified()).collect();
    let wide = matches!(output, OutputFormat::Human { wide: true });
    let mut text = String::new();
    let mut at = 0;
    while at < found.len() {
        let resource = found[at].0.clone();
        let group = found[at..].iter().take_while(|(other, _)| *other == resource).count();
        let options =
            options(call, &resource, wide, kinds.len() > 1 || call.flags.is_true("show-kind"));
        let mut lines = String::new();
        for (_, table) in &found[at..at + group] {
            let headers = lines.is_empty() && !options.no_headers;
            lines += &render(table, &options, headers);
        }
        if !lines.is_empty() {
            if !text.is_empty() && !options.no_headers {
                text.push('\n');
            }
            text += &table::align(&lines);
        }
        at += group;
    }
    if text.is_empty() && fails.is_empty() && !call.flags.is_true("ignore-not-found") {
        let namespaced =
            !call.flags.is_true("all-namespaces") && found.iter().all(|(r, _)| r.namespaced);
        if namespaced {
            call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
        } else {
            call.print_err("No resources found");
        }
    }
    call.print(&text);
    CommandError::collect(fails)
}

/// The options of a table, from the flags.
pub(crate) fn options(
    call: &Invocation<'_>,
    resource: &Resource,
    wide: bool,
    with_kind: bool,
) -> table::Options {
    table::Options {
        wide,
        no_headers: call.flags.is_true("no-headers"),
        with_namespace: call.flags.is_true("all-namespaces") && resource.namespaced,
        with_kind: with_kind.then(|| resource.kind_name()),
        show_labels: call.flags.is_true("show-labels"),
        label_columns: call.flags.all("label-columns").to_vec(),
        event: None,
    }
}

/// Formats a table of the server, or one built from any other object.
pub(crate) fn render(table: &Value, options: &table::Options, headers: bool) -> String {
    if table["kind"].as_str() == Some("Table") {
        return table::text(table, table["columnDefinitions"].items(), options, headers);
    }
    let objects = match &table["items"] {
        Value::List(items) => items.to_vec(),
        _ => vec![table.clone()],
    };
    let made = plain_table(&objects);
    table::text(&made, made["columnDefinitions"].items(), options, headers)
}

/// Builds a table with name and age from objects that the server did not send as a table.
fn plain_table(objects: &[Value]) -> Value {
    let column = |name: &str, format: &str| {
        let mut column = Value::object();
        column["name"] = name.into();
        column["type"] = "string".into();
        column["format"] = format.into();
        column
    };
    let mut table = Value::object();
    table["columnDefinitions"] =
        Value::List([column("Name", "name"), column("Age", "")].into_iter().collect());
    let now = object::Clock::now(&object::SystemClock);
    let rows = objects.iter().map(|object| {
        let meta = &object["metadata"];
        let age =
            print::age::age_since(meta["creationTimestamp"].as_str().unwrap_or_default(), now);
        let mut row = Value::object();
        row["cells"] =
            Value::List([meta["name"].clone(), age.as_str().into()].into_iter().collect());
        row["object"] = object.clone();
        row
    });
    table["rows"] = Value::List(rows.collect());
    table
}

fn fetch_table(call: &Invocation<'_>, part: &GetRequest, include: &str) -> Result<Value> {
    let accept = if call.flags.is_true("server-print") { TABLE } else { JSON };
    let with = |query: String| match include {
        "" => query,
        include if query.is_empty() => format!("?includeObject={include}"),
        include => format!("{query}&includeObject={include}"),
    };
    if part.single {
        return call.server()?.get_as(&(part.path.clone() + &with(String::new())), accept);
    }
    let mut table =
        call.server()?.get_as(&(part.path.clone() + &with(call.list_query(""))), accept)?;
    let field = if table["kind"].as_str() == Some("Table") { "rows" } else { "items" };
    loop {
        let next = table["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            return Ok(table);
        }
        let more =
            call.server()?.get_as(&(part.path.clone() + &with(call.list_query(&next))), accept)?;
        let mut rows = table[field].items().to_vec();
        rows.extend(more[field].items().iter().cloned());
        table["metadata"] = more["metadata"].clone();
        table[field] = Value::List(rows.into());
    }
}

pub(crate) const TABLE_ACCEPT: &str = TABLE;

fn objects(call: &Invocation<'_>, output: &OutputFormat) -> Result {
    let (parts, mut fails) = parts(call)?;
    let (mut found, mut single) = (Vec::new(), parts.len() == 1);
    for part in parts {
        single &= part.single;
        if part.single {
            match call.server()?.get(&part.path) {
                Ok(object) => found.push(object),
                Err(fail) if fail.is_not_found() && call.flags.is_true("ignore-not-found") => {}
                Err(fail) => fails.push(fail),
            }
            continue;
        }
        match call.list(&part.resource) {
            Ok(list) => {
                let kind = list["kind"].as_str().unwrap_or_default();
                let kind = kind.strip_suffix("List").unwrap_or(kind).to_owned();
                for item in list["items"].items() {
                    let mut item = item.clone();
                    if item["kind"].is_null() {
                        item["kind"] = kind.as_str().into();
                        item["apiVersion"] = list["apiVersion"].clone();
                    }
                    found.push(item);
                }
            }
            Err(fail) if fail.is_not_found() && call.flags.is_true("ignore-not-found") => {}
            Err(fail) => fails.push(fail),
        }
    }
    let sort = call.flags.text("sort-by");
    if !sort.is_empty() {
        sort_values(&mut found, sort, |value| value)?;
    }
    if single && found.is_empty() {
        return CommandError::collect(fails);
    }
    match output {
        OutputFormat::Name => {
            for object in &found {
                output.print(call, object, "")?;
            }
        }
        _ if single && found.len() == 1 => output.print(call, &found[0], "")?,
        _ if found.is_empty() && !fails.is_empty() => {}
        OutputFormat::Columns { .. }
            if found.is_empty() && call.flags.is_true("ignore-not-found") => {}
        _ => output.print(call, &print::list(found), "")?,
    }
    CommandError::collect(fails)
}

fn sort_rows(table: &mut Value, path: &str) -> Result {
    let field = if table["kind"].as_str() == Some("Table") { "rows" } else { "items" };
    let mut rows = table[field].items().to_vec();
    sort_values(&mut rows, path, |row| if field == "rows" { &row["object"] } else { row })?;
    table[field] = Value::List(rows.into());
    Ok(())
}

/// Sorts by the field at `path` of the object that `of` returns.
pub(crate) fn sort_values(
    values: &mut Vec<Value>,
    path: &str,
    of: impl Fn(&Value) -> &Value,
) -> Result {
    let template = Template::parse_relaxed(path).map_err(CommandError::error)?;
    let mut keyed = Vec::new();
    for value in values.iter() {
        let found = template.find_results(of(value)).unwrap_or_default();
        keyed
            .push((found.into_iter().flatten().next().filter(|key| !key.is_null()), value.clone()));
    }
    if !keyed.is_empty() && keyed.iter().all(|(key, _)| key.is_none()) {
        let shown = if path.starts_with('{') {
            path.to_owned()
        } else {
            format!("{{.{}}}", path.trim_start_matches('.'))
        };
        return Err(CommandError::error(format!(
            "couldn't find any field with path {} in the list of objects",
            quote(&shown)
        )));
    }
    keyed.reverse(); // values without the field come first, in reverse order
    let without = keyed.iter().filter(|(key, _)| key.is_none()).cloned().collect::<Vec<_>>();
    keyed.retain(|(key, _)| key.is_some());
    keyed.reverse();
    keyed.sort_by(|a, b| compare(a.0.as_ref(), b.0.as_ref()));
    keyed.splice(0..0, without);
    *values = keyed.into_iter().map(|(_, value)| value).collect();
    Ok(())
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(Value::Text(a)), Some(Value::Text(b))) => {
            match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                _ => natural(a, b),
            }
        }
        (Some(Value::Int(a)), Some(Value::Int(b))) => a.cmp(b),
        (Some(a), Some(b)) => json::compact(a).cmp(&json::compact(b)),
    }
}

/// Compares texts in natural order: digits compare as numbers.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
            let number = |text: &[u8]| {
                text.iter().fold(0u128, |n, b| n.saturating_mul(10) + u128::from(b - b'0'))
            };
            let (m, n) = (digits(a), digits(b));
            let order = number(&a[..m]).cmp(&number(&b[..n])).then(m.cmp(&n));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[m..], &b[n..]);
        } else if x != y {
            return x.cmp(y);
        } else {
            (a, b) = (&a[1..], &b[1..]);
        }
    }
    a.len().cmp(&b.len())
}
