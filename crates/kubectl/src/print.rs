//! Output formats of objects.

pub(crate) mod age;
pub(crate) mod columns;
pub(crate) mod json;
pub(crate) mod jsonpath;
pub(crate) mod kyaml;
mod order;
pub(crate) mod table;
pub(crate) mod tabwriter;
mod template;
pub(crate) mod terminal;
pub(crate) mod typed;

use std::fs;

use object::{Value, quote::quote, yaml};

use self::{columns::Columns, jsonpath::Template};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    select::go_io_error,
};

/// Flags of commands that print an object.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::text("output").short('o'),
    Flag::text("template"),
    Flag::bool("allow-missing-template-keys").default("true"),
    Flag::bool("show-managed-fields"),
];

/// The value of `-o`.
#[derive(Clone, Debug)]
pub(crate) enum OutputFormat {
    /// A message or a table.
    Human {
        wide: bool,
    },
    Json,
    Yaml,
    Kyaml,
    Name,
    Path {
        template: Template,
        text: String,
        json: bool,
    },
    Columns {
        columns: Columns,
        headers: bool,
    },
    Template {
        template: template::Template,
        text: String,
    },
}

const ALLOWED: &str = "go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,yaml";

impl OutputFormat {
    /// Reads the flags. `tables`: whether `wide` and custom columns are possible.
    pub(crate) fn of(call: &Invocation<'_>, tables: bool) -> Result<Self> {
        let mut given = call.flags.text("output");
        if given.is_empty() && !call.flags.text("template").is_empty() {
            given = "go-template";
        }
        let (format, argument) = given.split_once('=').map_or((given, None), |(f, a)| (f, Some(a)));
        let argument =
            argument.or(Some(call.flags.text("template")).filter(|text| !text.is_empty()));
        let needs = |argument: Option<&str>| match argument {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(CommandError::error("template format specified but no template given")),
        };
        let from_file = |argument: Option<&str>| {
            let file = needs(argument)?;
            fs::read_to_string(&file).map_err(|error| {
                CommandError::error(format!(
                    "error reading --template {file}, open {file}: {}\n",
                    go_io_error(&error)
                ))
            })
        };
        let lower = format.to_lowercase();
        // Formats without an argument are not known with one.
        let format = match lower.as_str() {
            "json" | "yaml" | "kyaml" | "name" | "wide" if given.contains('=') => given,
            "json" | "yaml" | "kyaml" => &lower,
            _ => format,
        };
        Ok(match format {
            "" => Self::Human { wide: false },
            "wide" if tables => Self::Human { wide: true },
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "kyaml" => Self::Kyaml,
            "name" => Self::Name,
            "jsonpath" => Self::path(call, needs(argument)?, false)?,
            "jsonpath-as-json" => Self::path(call, needs(argument)?, true)?,
            "jsonpath-file" => Self::path(call, from_file(argument)?, false)?,
            "custom-columns" if tables => {
                let columns =
                    Columns::parse(argument.unwrap_or_default()).map_err(CommandError::error)?;
                Self::Columns { columns, headers: !call.flags.is_true("no-headers") }
            }
            "custom-columns-file" if tables => {
                let Some(file) = argument.filter(|file| !file.is_empty()) else {
                    return Err(CommandError::error(
                        "custom-columns format specified but no custom columns given",
                    ));
                };
                let text = fs::read_to_string(file).map_err(|error| {
                    CommandError::error(format!(
                        "error reading template {file}, open {file}: {}\n",
                        go_io_error(&error)
                    ))
                })?;
                let columns = Columns::parse_file(&text).map_err(CommandError::error)?;
                Self::Columns { columns, headers: !call.flags.is_true("no-headers") }
            }
            "go-template" | "template" => Self::template(call, needs(argument)?)?,
            "go-template-file" | "templatefile" => Self::template(call, from_file(argument)?)?,
            _ => {
                let allowed = if tables {
                    format!("custom-columns,custom-columns-file,{ALLOWED},wide")
                        .replace("yaml,wide", "wide,yaml")
                } else {
                    ALLOWED.to_owned()
                };
                return Err(CommandError::error(format!(
                    "unable to match a printer suitable for the output format {}, allowed formats are: {allowed}",
                    quote(given)
                )));
            }
        })
    }

    fn path(call: &Invocation<'_>, text: String, json: bool) -> Result<Self> {
        let mut template = Template::parse(&text).map_err(|error| {
            CommandError::error(format!("error parsing jsonpath {text}, {error}"))
        })?;
        template.error_on_missing_key = !call.flags.is_true("allow-missing-template-keys");
        Ok(Self::Path { template, text, json })
    }

    fn template(call: &Invocation<'_>, text: String) -> Result<Self> {
        let mut template = template::Template::parse(&text).map_err(|error| {
            CommandError::error(format!("error parsing template {text}, {error}"))
        })?;
        template.strict = !call.flags.is_true("allow-missing-template-keys");
        Ok(Self::Template { template, text })
    }

    pub(crate) fn is_human(&self) -> bool {
        matches!(self, Self::Human { .. })
    }

    /// Prints one object of a built-in kind, with its fields in the order of their declaration.
    pub(crate) fn print_declared(
        &self,
        call: &Invocation<'_>,
        object: &Value,
        done: &str,
    ) -> Result {
        match self {
            Self::Json => call.print(&(json::declared(&shown(call, object)) + "\n")),
            Self::Kyaml => call.print(&kyaml::declared(&shown(call, object))),
            _ => return self.print(call, object, done),
        }
        Ok(())
    }

    /// Prints one object; `done` is the message for human-readable output.
    pub(crate) fn print(&self, call: &Invocation<'_>, object: &Value, done: &str) -> Result {
        // Only JSON and YAML leave managedFields out; templates get the whole object.
        let shortened;
        let object = if matches!(self, Self::Json | Self::Yaml | Self::Kyaml) {
            shortened = shown(call, object);
            &shortened
        } else {
            object
        };
        match self {
            Self::Human { .. } => call.print(&format!("{} {done}\n", name(object))),
            Self::Name => call.print(&format!("{}\n", name(object))),
            Self::Json => call.print(&(json::indented(object) + "\n")),
            Self::Yaml => call.print_document(&yaml::to_yaml(object)),
            Self::Kyaml => call.print(&yaml::to_kyaml(object)),
            Self::Path { template, text, json } => {
                let rendered = if *json {
                    jsonpath::render_json(template, object)
                } else {
                    template.render(object)
                };
                call.print(&rendered.map_err(|error| {
                    CommandError::error(format!(
                        "error executing jsonpath {}: Error executing template: {error}. Printing more information for debugging the template:\n\ttemplate was:\n\t\t{text}\n\tobject given to jsonpath engine was:\n\t\tmap[string]interface {{}}{{{}}}\n\n\n",
                        quote(text), json::compact(object)
                    ))
                })?);
            }
            Self::Template { template, text } => {
                let rendered = template.render(object);
                call.print(&rendered.map_err(|error| {
                    CommandError::error(format!(
                        "error executing template {}: {error}",
                        quote(text)
                    ))
                })?);
            }
            Self::Columns { columns, headers } => {
                let objects = if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
                    && matches!(object["items"], Value::List(_))
                {
                    object["items"].items().to_vec()
                } else {
                    vec![object.clone()]
                };
                call.print(&columns.render(&objects, *headers).map_err(CommandError::error)?);
            }
        }
        Ok(())
    }
}

/// Wraps objects into a list.
pub(crate) fn list(items: Vec<Value>) -> Value {
    let mut list = Value::object();
    list["apiVersion"] = "v1".into();
    list["kind"] = "List".into();
    list["metadata"]["resourceVersion"] = "".into();
    list["items"] = Value::List(items.into());
    list
}

/// The name of an object in messages: `pod/web`, `deployment.apps/web`.
pub(crate) fn name(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name =
        object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("<unknown>");
    match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// The object without its managedFields, unless they are requested.
fn shown(call: &Invocation<'_>, object: &Value) -> Value {
    let mut object = object.clone();
    if !call.flags.is_true("show-managed-fields") {
        hide(&mut object);
    }
    object
}

fn hide(object: &mut Value) {
    if !object["metadata"]["managedFields"].is_null() {
        object["metadata"].remove("managedFields");
    }
    if matches!(object["items"], Value::List(_)) {
        let mut items = object["items"].items().to_vec();
        items.iter_mut().for_each(hide);
        object["items"] = Value::List(items.into());
    }
}
