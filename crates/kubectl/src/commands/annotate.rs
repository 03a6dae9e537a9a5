//! `label` and `annotate`: set and remove labels and annotations.

use object::{Value, names, quote::quote};

use super::{
    ALL, ALL_NAMESPACES, Command, DRY_RUN, DryRun, FIELD_MANAGER, FIELD_SELECTOR, FILES, SELECTOR,
    write_query,
};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
    server::PatchType,
};

const FLAGS: &[&[Flag]] = &[
    FILES,
    SELECTOR,
    FIELD_SELECTOR,
    ALL,
    ALL_NAMESPACES,
    DRY_RUN,
    FIELD_MANAGER,
    record::FLAGS,
    print::FLAGS,
    &[
        Flag::bool("overwrite"),
        Flag::bool("list"),
        Flag::bool("local"),
        Flag::text("resource-version"),
    ],
];

pub(crate) const LABEL: Command = Command::new("label", FLAGS, |call| run(call, &LABELS));
pub(crate) const ANNOTATE: Command =
    Command::new("annotate", FLAGS, |call| run(call, &ANNOTATIONS));

/// The field of the metadata that is changed: labels or annotations.
struct MetadataField {
    field: &'static str,
    noun: &'static str,
    done: &'static str,
    undone: &'static str,
}

const LABELS: MetadataField =
    MetadataField { field: "labels", noun: "label", done: "labeled", undone: "unlabeled" };
const ANNOTATIONS: MetadataField = MetadataField {
    field: "annotations",
    noun: "annotation",
    done: "annotated",
    undone: "annotated",
};

fn run(call: &Invocation<'_>, what: &MetadataField) -> Result {
    let is_change = |word: &String| {
        !word.is_empty()
            && (word.find('=').is_some_and(|at| at > 0) || word.ends_with('-') && word.len() > 1)
    };
    let split = call.args().iter().position(is_change).unwrap_or(call.args().len());
    let (words, changes) = call.args().split_at(split);
    if words.is_empty() && !call.has_files() {
        return Err(CommandError::error(
            "one or more resources must be specified as <resource> <name> or <resource>/<name>",
        ));
    }
    let list = call.flags.is_true("list");
    if changes.is_empty() && !list {
        return Err(CommandError::error(format!("at least one {} update is required", what.noun)));
    }
    if list && call.flags.is_set("output") {
        return Err(CommandError::error("--list and --output may not be specified together"));
    }
    if let Some(word) = changes.iter().find(|word| !is_change(word)) {
        return Err(CommandError::error(format!(
            "all resources must be specified before {} changes: {word}",
            what.noun
        )));
    }
    let (put, remove) = read(changes, what)?;
    let local = call.flags.is_true("local");
    if local && !call.has_files() {
        let file = if what.noun == "label" { "pod" } else { "rsrc" };
        return Err(CommandError::error(format!(
            "can only use local files by -f {file}.yaml or --filename={file}.json when --local=true is set"
        )));
    }
    let dry_run = if local { DryRun::Client } else { DryRun::of(call)? };
    let output = OutputFormat::of(call, false)?;
    let query = write_query(
        call,
        dry_run,
        &format!("kubectl-{}", if what.field == "labels" { "label" } else { "annotate" }),
    )?;
    let (infos, mut fails) = call.select(
        words,
        BuilderOptions { fetch: !local, default_namespace: true, ..BuilderOptions::default() },
    )?;
    if infos.len() > 1 && !call.flags.text("resource-version").is_empty() {
        return Err(CommandError::error(
            "--resource-version may only be used with a single resource",
        ));
    }
    let selects = ["selector", "field-selector"].iter().any(|flag| call.flags.is_set(flag))
        || ["all", "all-namespaces"].iter().any(|flag| call.flags.is_true(flag));
    let many = infos.len() > 1 || selects;
    for info in infos {
        let change = Change { what, many, put: &put, remove: &remove, query: &query, dry_run };
        if let Err(fail) = one(call, &info, &change, &output) {
            fails.push(fail);
        }
    }
    CommandError::collect(fails)
}

/// Pairs to set, and keys to remove.
type Changes<'a> = (Vec<(&'a str, &'a str)>, Vec<&'a str>);

fn read<'a>(changes: &'a [String], what: &MetadataField) -> Result<Changes<'a>> {
    let (mut put, mut remove) = (Vec::new(), Vec::new());
    for change in changes {
        if let Some((name, value)) = change.split_once('=') {
            if what.field == "labels" {
                if value.contains('=') {
                    return Err(CommandError::error(format!("invalid label spec: {change}")));
                }
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    return Err(CommandError::error(format!(
                        "invalid label value: {}: {}",
                        quote(change),
                        wrong.join(";")
                    )));
                }
            }
            put.push((name, value));
        } else if let Some(name) = change.strip_suffix('-') {
            remove.push(name);
        } else {
            return Err(CommandError::error(format!(
                "all resources must be specified before {} changes: {change}",
                what.noun
            )));
        }
    }
    let both: Vec<&str> =
        remove.iter().copied().filter(|name| put.iter().any(|(other, _)| other == name)).collect();
    match (both.as_slice(), what.noun) {
        ([], _) => Ok((put, remove)),
        (_, "label") => {
            Err(CommandError::error("can not both modify and remove a label in the same command"))
        }
        (both, _) => Err(CommandError::error(format!(
            "can not both modify and remove the following annotation(s) in the same command: {}",
            both.join(", ")
        ))),
    }
}

/// The changes of the labels or annotations of an object.
struct Change<'a> {
    what: &'a MetadataField,
    /// Whether more than one object is changed.
    many: bool,
    put: &'a [(&'a str, &'a str)],
    remove: &'a [&'a str],
    query: &'a str,
    dry_run: DryRun,
}

fn one(call: &Invocation<'_>, info: &Info, change: &Change<'_>, output: &OutputFormat) -> Result {
    let Change { what, many, put, remove, query, dry_run } = *change;
    let there = info.object["metadata"][what.field].clone();
    if !call.flags.is_true("overwrite") {
        for (name, value) in put {
            let old = &there[*name];
            if !old.is_null() && old.as_str() != Some(value) {
                let old = old.as_str().unwrap_or_default();
                return Err(CommandError::error(match what.noun {
                    "label" => {
                        format!("'{name}' already has a value ({old}), and --overwrite is false")
                    }
                    _ => format!(
                        "--overwrite is false but found the following declared annotation(s): '{name}' already has a value ({old})"
                    ),
                }));
            }
        }
    }
    let mut wanted = there.clone();
    let mut patch = Value::object();
    for (name, value) in put {
        wanted[*name] = (*value).into();
        patch["metadata"][what.field][*name] = (*value).into();
    }
    for name in remove {
        if there[*name].is_null() && what.noun == "label" && dry_run != DryRun::Client {
            call.print(&format!("label {} not found.\n", quote(name)));
        }
        wanted.remove(name);
        *patch["metadata"][what.field].get_mut(name) = Value::Null;
    }
    ChangeCause::of(call).annotate(&mut patch);
    let version = call.flags.text("resource-version");
    if !version.is_empty() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    let changed = wanted != there && !(wanted.entries().len() == 0 && there.entries().len() == 0);
    let mut object = info.object.clone();
    let no_change = !changed && version.is_empty();
    if dry_run == DryRun::Client {
        object["metadata"][what.field] = wanted;
    } else if !no_change || what.noun == "annotation" {
        object = call.server()?.patch(&(info.path() + query), PatchType::Merge, &patch)?;
    }
    if call.flags.is_true("list") {
        if many {
            call.print(&format!(
                "Listing {} for {}.{}/{}:\n",
                what.field, info.resource.kind, info.resource.group, info.name
            ));
        }
        let indent = if many { " " } else { "" };
        for (name, value) in object["metadata"][what.field].entries() {
            call.print(&format!("{indent}{name}={}\n", value.as_str().unwrap_or_default()));
        }
        return Ok(());
    }
    let done = match (what.noun, put.is_empty()) {
        ("label", _) if no_change => "not labeled",
        (_, true) => what.undone,
        _ => what.done,
    };
    let suffix = if call.flags.is_true("local") { "" } else { dry_run.suffix() };
    output.print(call, &object, &format!("{done}{suffix}"))
}

#[test]
fn resources_come_before_changes() {
    let words = ["a=b".to_owned(), "pod/c".to_owned()];
    for (what, noun) in [(&LABELS, "label"), (&ANNOTATIONS, "annotation")] {
        let said = read(&words, what).err().map(|fail| fail.message());
        let expected = format!("all resources must be specified before {noun} changes: pod/c");
        assert_eq!(said, Some(expected));
    }
}
