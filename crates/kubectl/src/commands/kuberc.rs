//! `kuberc`: shows and changes the user's preferences.

use object::{Value, quote::quote, yaml};

use super::Command;
use crate::{
    commands::create::tree,
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    preferences::{self, KubercLocation},
    print::{self, OutputFormat},
    select::go_io_error,
    workload::{items_mut, list, push},
};

pub(crate) const COMMAND: Command = Command::group(
    "kuberc",
    &[
        Command::new("view", &[print::FLAGS], view),
        Command::new(
            "set",
            &[&[
                Flag::text("section").required(),
                Flag::text("command"),
                Flag::text("name"),
                Flag::text("policy"),
                Flag::new("option", FlagType::StringArray),
                Flag::new("prependarg", FlagType::StringArray),
                Flag::new("appendarg", FlagType::StringArray),
                Flag::new("allowlist-entry", FlagType::StringArray),
                Flag::bool("overwrite"),
            ]],
            set,
        ),
    ],
);

fn place(call: &Invocation<'_>) -> Result<KubercLocation> {
    preferences::place(call.environment, call.flags.text("kuberc"))?.ok_or_else(|| {
        CommandError::error("KUBERC is disabled via KUBERC=off environment variable")
    })
}

fn view(call: &Invocation<'_>) -> Result {
    let place = place(call)?;
    let read = preferences::read(&place)
        .map_err(|why| CommandError::error(format!("error reading kuberc file: {why}")))?;
    let Some(mut tree) = read else {
        return Err(CommandError::error(format!(
            "kuberc file not found at {}",
            place.path.display()
        )));
    };
    for section in ["aliases", "defaults"] {
        if tree[section].is_null() {
            tree[section] = list(Vec::new());
        }
    }
    match OutputFormat::of(call, false)? {
        OutputFormat::Human { .. } => call.print(&yaml::to_yaml(&tree)),
        output => output.print(call, &tree, "")?,
    }
    Ok(())
}

fn set(call: &Invocation<'_>) -> Result {
    let place = place(call)?;
    check(call)?;
    let mut tree = preferences::read(&place)
        .map_err(|why| CommandError::error(format!("error reading kuberc file: {why}")))?
        .unwrap_or_else(|| tree("{apiVersion: kubectl.config.k8s.io/v1beta1, kind: Preference}"));
    match call.flags.text("section") {
        "defaults" => put(call, &mut tree, "defaults")?,
        "aliases" => put(call, &mut tree, "aliases")?,
        _ => {
            tree["credentialPluginPolicy"] = call.flags.text("policy").into();
            let mut allowed = Vec::new();
            for entry in call.flags.all("allowlist-entry") {
                let Some((field, value)) = entry.split_once('=') else {
                    return Err(CommandError::error(format!(
                        "invalid allowlist entry {}, expected field=value",
                        quote(entry)
                    )));
                };
                let mut one = Value::object();
                one[field] = value.into();
                allowed.push(one);
            }
            tree.remove("credentialPluginAllowlist");
            if !allowed.is_empty() {
                tree["credentialPluginAllowlist"] = list(allowed);
            }
        }
    }
    save(call, &place, &tree)
}

fn check(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    let wrong = |says: String| Err(CommandError::error(says));
    let (section, policy) = (flags.text("section"), flags.text("policy"));
    if !matches!(section, "defaults" | "aliases" | "credentialplugin") {
        return wrong(format!(
            "--section must be \"defaults\", \"aliases\", or \"credentialplugin\", got: {section}"
        ));
    }
    if section == "aliases" && flags.text("name").is_empty() {
        return wrong("--name is required when --section=aliases".to_owned());
    }
    if section == "defaults" {
        if !flags.text("name").is_empty() {
            return wrong("--name should not be specified when --section=defaults".to_owned());
        }
        if !(flags.all("prependarg").is_empty() && flags.all("appendarg").is_empty()) {
            return wrong(
                "--prependarg and --appendarg are only valid for --section=aliases".to_owned(),
            );
        }
    }
    if section != "credentialplugin" {
        if flags.text("command").is_empty() {
            return wrong(
                "--command is required when --section=aliases or --section=defaults".to_owned(),
            );
        }
        return Ok(());
    }
    let entries = flags.all("allowlist-entry");
    match policy {
        "" => wrong("--policy is required when --section=credentialplugin".to_owned()),
        "AllowAll" | "DenyAll" if !entries.is_empty() => wrong(
            "--allowlist-entry may only be used when --section=credentialplugin and --policy=Allowlist"
                .to_owned(),
        ),
        "Allowlist" if entries.is_empty() => wrong(
            "--allowlist-entry is required when --section=credentialplugin and --policy=Allowlist"
                .to_owned(),
        ),
        "AllowAll" | "DenyAll" | "Allowlist" => Ok(()),
        other => wrong(format!(
            " --policy must be  \"AllowAll\", \"DenyAll\", or \"Allowlist\", got: {other}"
        )),
    }
}

/// Adds an entry to a section, or changes the existing one.
fn put(call: &Invocation<'_>, tree: &mut Value, section: &str) -> Result {
    let flags = &call.flags;
    let mut options = Vec::new();
    for option in flags.all("option") {
        let Some((name, value)) = option.split_once('=') else {
            return Err(CommandError::error(format!(
                "invalid option format {}, expected flag=value",
                quote(option)
            )));
        };
        let mut one = Value::object();
        one["name"] = name.trim_start_matches('-').into();
        one["default"] = value.into();
        options.push(one);
    }
    let (key, value) = if section == "aliases" {
        ("name", flags.text("name"))
    } else {
        ("command", flags.text("command"))
    };
    let mut entry = Value::object();
    entry["command"] = flags.text("command").into();
    entry[key] = value.into();
    if !options.is_empty() {
        entry["options"] = list(options);
    }
    for (flag, field) in [("prependarg", "prependArgs"), ("appendarg", "appendArgs")] {
        if !flags.all(flag).is_empty() {
            entry[field] = list(flags.all(flag).iter().map(|text| text.as_str().into()).collect());
        }
    }
    let there = tree[section].items().iter().position(|old| old[key].as_str() == Some(value));
    let Some(at) = there else {
        push(&mut tree[section], entry);
        return Ok(());
    };
    if !flags.is_true("overwrite") {
        return Err(CommandError::error(match section {
            "aliases" => {
                format!("alias {} already exists, use --overwrite to replace", quote(value))
            }
            _ => format!(
                "defaults for command {} already exist, use --overwrite to replace",
                quote(value)
            ),
        }));
    }
    let old = &mut items_mut(&mut tree[section])[at];
    for (field, value) in entry.entries() {
        old[field] = value.clone();
    }
    Ok(())
}

fn save(call: &Invocation<'_>, place: &KubercLocation, tree: &Value) -> Result {
    let path = place.path.display();
    let failed = |error: std::io::Error| {
        CommandError::error(format!(
            "error writing kuberc file: open {path}: {}",
            go_io_error(&error)
        ))
    };
    if let Some(folder) = place.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(&place.path, yaml::to_yaml(tree)).map_err(failed)?;
    call.print(&format!("Updated {path}\n"));
    Ok(())
}
