//! The user's preferences in the file `kuberc`: aliases for command lines, and default values of flags.

use std::{fs, path::PathBuf};

use object::{Value, quote::quote, yaml};

use crate::{
    commands::{COMMANDS, Command},
    error::{CommandError, Result},
    flags::Flag,
    invocation::{Environment, GLOBAL_FLAGS},
    select::go_io_error,
};

/// The location of the kuberc file.
#[derive(Debug)]
pub(crate) struct KubercLocation {
    pub(crate) path: PathBuf,
    /// Whether a flag or the environment named the file.
    pub(crate) named: bool,
}

/// The kuberc file to use; `None` if preferences are turned off.
pub(crate) fn place(environment: &Environment, flag: &str) -> Result<Option<KubercLocation>> {
    if environment.kuberc == "off" {
        if flag.is_empty() {
            return Ok(None);
        }
        return Err(CommandError::error(
            "disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive",
        ));
    }
    let named = if flag.is_empty() { environment.kuberc.as_str() } else { flag };
    Ok(Some(if named.is_empty() {
        KubercLocation { path: PathBuf::from(&environment.home).join(".kube/kuberc"), named: false }
    } else {
        KubercLocation { path: named.into(), named: true }
    }))
}

/// Reads a kuberc file; `None` if it does not exist.
pub(crate) fn read(place: &KubercLocation) -> std::result::Result<Option<Value>, String> {
    let text = match fs::read_to_string(&place.path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!("open {}: {}", place.path.display(), go_io_error(&error)));
        }
    };
    let tree = yaml::from_yaml(&text).map_err(|error| error.to_string())?;
    if tree["kind"].as_str() != Some("Preference") {
        return Err(format!(
            "no kind {} is registered for the internal version of group \"kubectl.config.k8s.io\"",
            quote(tree["kind"].as_str().unwrap_or_default())
        ));
    }
    Ok(Some(tree))
}

/// Applies aliases and defaults to a command line.
pub(crate) fn apply(environment: &Environment, args: &[String]) -> Result<Vec<String>> {
    let mut args = args.to_vec();
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let mut flag = String::new();
    for (at, arg) in args[..end].iter().enumerate() {
        if arg == "--kuberc" {
            let next = args[..end].get(at + 1).cloned();
            flag = next.ok_or_else(|| CommandError::error("kuberc file is not found"))?;
        } else if let Some(path) = arg.strip_prefix("--kuberc=") {
            path.clone_into(&mut flag);
        }
    }
    let Some(place) = place(environment, &flag)? else { return Ok(args) };
    let tree = match read(&place) {
        Ok(Some(tree)) => tree,
        Ok(None) if place.named => {
            return Err(CommandError::error(format!(
                "kuberc error kuberc: open {}: no such file or directory",
                place.path.display()
            )));
        }
        Ok(None) => return Ok(args),
        Err(why) if place.named => {
            return Err(CommandError::error(format!("kuberc error kuberc: {why}")));
        }
        Err(why) => {
            let path = place.path.display();
            eprint(&format!("kuberc: no preferences loaded from {path}: {why}"));
            return Ok(args);
        }
    };
    let policy = tree["credentialPluginPolicy"].as_str().unwrap_or_default();
    if !matches!(policy, "" | "AllowAll") {
        return Err(CommandError::error(format!(
            "kuberc: the credentialPluginPolicy {policy} is not supported"
        )));
    }
    aliases(&tree, &mut args)?;
    defaults(&tree, &mut args)?;
    Ok(args)
}

fn eprint(text: &str) {
    crate::stdio::write(&mut std::io::stderr(), text.as_bytes());
}

/// The command at a path of words, and the number of words that name it.
fn find(words: &[&str]) -> Option<(&'static Command, usize)> {
    let (mut known, mut found) = (COMMANDS, None);
    for (at, word) in words.iter().enumerate() {
        let next = known.iter().find(|command| {
            command.name == *word || command.aliases.iter().any(|alias| alias == word)
        });
        let Some(command) = next else { break };
        found = Some((command, at + 1));
        known = command.subcommands;
    }
    found
}

fn plain_words(args: &[String]) -> Vec<&str> {
    let before = args.iter().take_while(|arg| *arg != "--");
    before.filter(|arg| !arg.starts_with('-')).map(String::as_str).collect()
}

/// Replaces an alias by its command line.
fn aliases(tree: &Value, args: &mut Vec<String>) -> Result {
    let words = plain_words(args);
    let Some(name) = words.first().map(|name| (*name).to_owned()) else { return Ok(()) };
    if find(&[&name]).is_some() {
        return Ok(());
    }
    let named = |alias: &&Value| alias["name"].as_str() == Some(&name);
    let Some(alias) = tree["aliases"].items().iter().find(named) else { return Ok(()) };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = text(&alias["command"]);
    let line: Vec<&str> = line.split_whitespace().collect();
    let Some((command, _)) = find(&line).filter(|(_, used)| *used == line.len()) else {
        return Err(CommandError::error(format!(
            "command {} not found to set alias {}: []",
            quote(&line.join(" ")),
            quote(&name)
        )));
    };
    let wrong =
        |flag: &str| CommandError::error(format!("invalid alias flag {flag} in alias kubectl"));
    let options = options(&alias["options"], command, args, &wrong)?;
    let Some(at) = args.iter().position(|arg| *arg == name) else { return Ok(()) };
    let more = alias["prependArgs"].items().iter().map(text);
    let new: Vec<String> = line.iter().map(|word| (*word).to_owned()).chain(more).collect();
    args.splice(at..=at, new);
    args.splice(0..0, options);
    args.extend(alias["appendArgs"].items().iter().map(text));
    Ok(())
}

/// Adds the default flags of a command.
fn defaults(tree: &Value, args: &mut Vec<String>) -> Result {
    let words = plain_words(args);
    let Some((command, _)) = find(&words) else { return Ok(()) };
    let mut new = Vec::new();
    for entry in tree["defaults"].items() {
        let line = entry["command"].as_str().unwrap_or_default();
        let parts: Vec<&str> = line.split_whitespace().collect();
        let Some((wanted, _)) = find(&parts).filter(|(_, used)| *used == parts.len()) else {
            eprint(&format!("Warning: command {} not found to set kuberc override\n", quote(line)));
            continue;
        };
        if wanted.name == command.name {
            let wrong =
                |flag: &str| CommandError::error(format!("invalid flag {flag} for command {line}"));
            new.extend(options(&entry["options"], command, args, &wrong)?);
        }
    }
    args.splice(0..0, new);
    Ok(())
}

/// The default flags that are not given on the command line.
fn options(
    wanted: &Value,
    command: &Command,
    args: &[String],
    wrong: &dyn Fn(&str) -> CommandError,
) -> Result<Vec<String>> {
    let mut new = Vec::new();
    for option in wanted.items() {
        let name = option["name"].as_str().unwrap_or_default();
        let mut flags = command.flags.iter().copied().flatten().chain(GLOBAL_FLAGS);
        let flag = flags.find(|flag| flag.name == name).ok_or_else(|| wrong(name))?;
        if !given(flag, args) {
            new.push(format!("--{name}={}", option["default"].as_str().unwrap_or_default()));
        }
    }
    Ok(new)
}

fn given(flag: &Flag, args: &[String]) -> bool {
    let long = format!("--{}", flag.name);
    args.iter().take_while(|arg| *arg != "--").any(|arg| {
        *arg == long
            || arg.strip_prefix(&long).is_some_and(|rest| rest.starts_with('='))
            || flag.short.is_some_and(|short| {
                !arg.starts_with("--") && arg.starts_with('-') && arg.contains(short)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tree: &str, args: &str) -> String {
        let tree = yaml::from_yaml(tree).expect("YAML");
        let mut args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        aliases(&tree, &mut args).expect("fine");
        defaults(&tree, &mut args).expect("fine");
        args.join(" ")
    }

    #[test]
    fn names_stand_for_lines() {
        let tree = "aliases: [{name: pw, command: get, prependArgs: [pods], appendArgs: [-A], options: [{name: output, default: wide}]}]";
        assert_eq!(line(tree, "pw x"), "--output=wide get pods x -A");
        assert_eq!(line(tree, "pw -oyaml"), "get pods -oyaml -A");
    }

    #[test]
    fn flags_have_other_values() {
        let tree = "defaults: [{command: delete, options: [{name: wait, default: 'false'}]}]";
        assert_eq!(line(tree, "delete pod x"), "--wait=false delete pod x");
        assert_eq!(line(tree, "delete pod x --wait"), "delete pod x --wait");
        assert_eq!(line(tree, "get pod x"), "get pod x");
    }
}
