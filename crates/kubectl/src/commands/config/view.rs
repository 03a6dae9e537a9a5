//! `config view`: prints the merged kubeconfig, without its secrets.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::{Value, yaml};

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    kubeconfig::{self, LISTS},
    print::OutputFormat,
    select::go_io_error,
};

pub(super) fn run(call: &Invocation<'_>) -> Result {
    if !call.flags.is_true("merge") && call.flags.text("kubeconfig").is_empty() {
        return Err(CommandError::error("if merge==false a precise file must be specified"));
    }
    let mut config = call.files()?.merged(call.flags.is_true("flatten"));
    if call.flags.is_true("minify") {
        minify(call, &mut config)?;
    }
    if call.flags.is_true("flatten") {
        embed(&mut config)?;
    }
    if !call.flags.is_true("raw") && !call.flags.is_true("flatten") {
        change(&mut config, &hide);
    }
    for (list, _) in LISTS {
        if config[*list].items().is_empty() {
            *config.get_mut(list) = Value::Null;
        }
    }
    match OutputFormat::of(call, false)? {
        OutputFormat::Human { .. } | OutputFormat::Yaml => call.print(&yaml::to_yaml(&config)),
        output => output.print_declared(call, &config, "")?,
    }
    Ok(())
}

fn minify(call: &Invocation<'_>, config: &mut Value) -> Result {
    let name = match call.flags.text("context") {
        "" => config["current-context"].as_str().unwrap_or_default().to_owned(),
        given => given.to_owned(),
    };
    if name.is_empty() {
        return Err(CommandError::error("current-context must exist in order to minify"));
    }
    let Some(context) = kubeconfig::entry(config, "contexts", "context", &name).cloned() else {
        return Err(CommandError::error(format!("cannot locate context {name}")));
    };
    let keep = [
        ("contexts", name.clone()),
        ("clusters", text(&context["cluster"])),
        ("users", text(&context["user"])),
    ];
    for (list, kept) in keep {
        let entries = config[list]
            .items()
            .iter()
            .filter(|entry| entry["name"].as_str() == Some(&kept))
            .cloned();
        let entries: Value = Value::List(entries.collect());
        config[list] = entries;
    }
    config["current-context"] = name.as_str().into();
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Calls `how` with the content of each cluster, context and user.
fn change(config: &mut Value, how: &dyn Fn(&mut Value)) {
    for (list, of) in LISTS {
        let mut entries = config[*list].items().to_vec();
        for entry in &mut entries {
            how(&mut entry[*of]);
        }
        config[*list] = Value::List(entries.into());
    }
}

fn hide(entry: &mut Value) {
    for name in ["certificate-authority-data", "client-certificate-data", "client-key-data"] {
        if !entry[name].is_null() {
            entry[name] = "DATA+OMITTED".into();
        }
    }
    for name in ["token", "password"] {
        if !entry[name].is_null() {
            entry[name] = "REDACTED".into();
        }
    }
}

/// Embeds the files that the kubeconfig refers to.
fn embed(config: &mut Value) -> Result {
    let failed = std::cell::RefCell::new(None);
    change(config, &|entry| {
        for name in ["certificate-authority", "client-certificate", "client-key"] {
            let file = text(&entry[name]);
            if file.is_empty() {
                continue;
            }
            match std::fs::read(&file) {
                Ok(bytes) => {
                    entry[&*format!("{name}-data")] = BASE64_STANDARD.encode(bytes).as_str().into();
                    entry.remove(name);
                }
                Err(error) => {
                    *failed.borrow_mut() = Some(format!("open {file}: {}", go_io_error(&error)));
                }
            }
        }
    });
    match failed.into_inner() {
        None => Ok(()),
        Some(says) => Err(CommandError::error(says)),
    }
}
