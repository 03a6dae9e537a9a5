//! `api-resources` and `api-versions`: print the resources and API versions that the server serves.

use object::{Value, yaml};

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{json, table},
    resources::Resource,
};

pub(crate) const RESOURCES: Command = Command::new(
    "api-resources",
    &[&[
        Flag::text("output").short('o'),
        Flag::text("api-group"),
        Flag::new("verbs", FlagType::StringSlice),
        Flag::new("categories", FlagType::StringSlice),
        Flag::bool("namespaced").default("true"),
        Flag::bool("no-headers"),
        Flag::bool("cached"),
        Flag::text("sort-by"),
    ]],
    resources,
);
pub(crate) const VERSIONS: Command = Command::new("api-versions", &[], versions);

fn resources(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    let (format, sort) = (flags.text("output"), flags.text("sort-by"));
    if !matches!(sort, "" | "name" | "kind") {
        return Err(CommandError::error("--sort-by accepts only name or kind"));
    }
    if !matches!(format, "" | "wide" | "name" | "json" | "yaml" | "kyaml") {
        return Err(CommandError::error(format!(
            "unable to match a printer suitable for the output format {}, allowed formats are: json,kyaml,name,wide,yaml",
            object::quote::quote(format)
        )));
    }
    if !call.args().is_empty() {
        return Err(call.usage(format!("unexpected arguments: [{}]", call.args().join(" "))));
    }
    let all = call.resources()?;
    let shown = |resource: &&Resource| {
        let has = |flag: &str, list: &[String]| {
            flags.all(flag).iter().all(|wanted| list.contains(wanted))
        };
        resource.preferred
            && !resource.verbs.is_empty()
            && (!flags.is_set("api-group") || resource.group == flags.text("api-group"))
            && (!flags.is_set("namespaced") || resource.namespaced == flags.is_true("namespaced"))
            && has("verbs", &resource.verbs)
            && has("categories", &resource.categories)
    };
    let mut found: Vec<&Resource> = all.all.iter().filter(shown).collect();
    found.sort_by(|a, b| match sort {
        "kind" => (&a.kind, &a.group).cmp(&(&b.kind, &b.group)),
        "name" => (&a.plural, &a.group).cmp(&(&b.plural, &b.group)),
        _ => (&a.group, &a.plural).cmp(&(&b.group, &b.plural)),
    });
    match format {
        "name" => call.print(&found.iter().map(|r| r.qualified() + "\n").collect::<String>()),
        "json" => call.print(&(json::declared(&as_list(&found)) + "\n")),
        "yaml" => call.print(&yaml::to_yaml(&as_list(&found))),
        "kyaml" => call.print(&crate::print::kyaml::declared(&as_list(&found))),
        _ => {
            let wide = format == "wide";
            let mut text = String::new();
            if !flags.is_true("no-headers") {
                text += "NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND";
                text += if wide { "\tVERBS\tCATEGORIES\n" } else { "\n" };
            }
            for r in found {
                text += &format!(
                    "{}\t{}\t{}\t{}\t{}",
                    r.plural,
                    r.short_names.join(","),
                    r.api_version(),
                    r.namespaced,
                    r.kind
                );
                text += &if wide {
                    format!("\t{}\t{}\n", r.verbs.join(","), r.categories.join(","))
                } else {
                    "\n".to_owned()
                };
            }
            call.print(&table::align(&text));
        }
    }
    Ok(())
}

fn as_list(found: &[&Resource]) -> Value {
    let texts =
        |list: &[String]| Value::List(list.iter().map(|text| text.as_str().into()).collect());
    let items = found.iter().map(|r| {
        let mut item = Value::object();
        item["name"] = r.plural.as_str().into();
        item["singularName"] = r.singular.as_str().into();
        item["namespaced"] = r.namespaced.into();
        if !r.group.is_empty() {
            item["group"] = r.group.as_str().into();
        }
        item["version"] = r.version.as_str().into();
        item["kind"] = r.kind.as_str().into();
        item["verbs"] = texts(&r.verbs);
        if !r.short_names.is_empty() {
            item["shortNames"] = texts(&r.short_names);
        }
        if !r.categories.is_empty() {
            item["categories"] = texts(&r.categories);
        }
        item
    });
    let mut list = Value::object();
    list["apiVersion"] = "v1".into();
    list["kind"] = "APIResourceList".into();
    list["groupVersion"] = "".into();
    list["resources"] = Value::List(items.collect());
    list
}

fn versions(call: &Invocation<'_>) -> Result {
    if !call.args().is_empty() {
        return Err(call.usage(format!("unexpected arguments: [{}]", call.args().join(" "))));
    }
    let mut all: Vec<String> = call.resources()?.all.iter().map(Resource::api_version).collect();
    all.sort();
    all.dedup();
    call.print(&(all.join("\n") + "\n"));
    Ok(())
}
