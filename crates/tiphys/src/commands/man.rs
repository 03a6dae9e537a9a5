//! `man`: writes man pages, derived from the declared flags.

use std::{ffi::OsString, fmt::Write as _, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{Arg, Command, Parser};

use super::{exit, for_users, parse};

#[derive(Parser)]
pub(super) struct Arguments {
    /// The folder to write tiphys.1, tiphys-up.1 and so on to.
    folder: PathBuf,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("man", args) {
        Ok(Arguments { folder }) => exit("man", write(&folder)),
        Err(code) => code,
    }
}

fn write(folder: &std::path::Path) -> Result<()> {
    let about = |path: &std::path::Path| format!("cannot write {}", path.display());
    fs::create_dir_all(folder).with_context(|| about(folder))?;
    let mut pages = vec![("tiphys".to_owned(), overview())];
    for command in for_users() {
        if let Some(declared) = command.declared() {
            pages.push((format!("tiphys-{}", command.name), page(&declared)));
        }
    }
    for (name, text) in pages {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, text).with_context(|| about(&path))?;
    }
    Ok(())
}

fn overview() -> String {
    let mut text = header("tiphys", "a complete Kubernetes in one executable");
    text.push_str(".SH SYNOPSIS\n.B tiphys\nCOMMAND [FLAGS]\n.SH COMMANDS\n");
    for command in for_users() {
        let _ = writeln!(text, ".TP\n.B {}\n{}", escaped(command.name), escaped(command.summary));
    }
    text
}

fn page(command: &Command) -> String {
    let name = format!("tiphys-{}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = header(&name, &about);
    let _ = writeln!(text, ".SH SYNOPSIS\n.B tiphys {}", escaped(command.get_name()));
    text.push_str("[FLAGS]\n");
    options(&mut text, command, "OPTIONS");
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let title = inner.get_name().to_uppercase();
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, ".SH {}\n{}", escaped(&title), escaped(&about));
        options(&mut text, inner, "");
    }
    text
}

fn options(text: &mut String, command: &Command, title: &str) {
    let mut args: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    args.retain(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
    if args.is_empty() {
        return;
    }
    if !title.is_empty() {
        let _ = writeln!(text, ".SH {title}");
    }
    for arg in args {
        let values = arg.get_value_names().unwrap_or_default().join(" ");
        let takes_value = arg.get_action().takes_values();
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long}"),
            (None, Some(long)) => format!("--{long}"),
            _ => values.clone(),
        };
        let value =
            if takes_value && name != values { format!(" {values}") } else { String::new() };
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let mut help = help.unwrap_or_default();
        let usual: Vec<_> =
            arg.get_default_values().iter().map(|own| own.to_string_lossy()).collect();
        if takes_value && !usual.is_empty() && usual != [""] {
            help.push_str(&format!(" Default: {}.", usual.join(",")));
        }
        let _ =
            writeln!(text, ".TP\n.B {}\n{}", escaped(&format!("{name}{value}")), escaped(&help));
    }
}

fn header(name: &str, about: &str) -> String {
    let title = name.to_uppercase();
    format!(
        ".TH {} 1 \"\" \"tiphys {}\"\n.SH NAME\n{} \\- {}\n",
        escaped(&title),
        env!("CARGO_PKG_VERSION"),
        escaped(name),
        escaped(about)
    )
}

/// Escapes a text so that roff prints it unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_with_flags_has_a_page_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("tiphys.1").contains(".B snapshot\n"));
        let up = read("tiphys-up.1");
        assert!(up.starts_with(".TH TIPHYS\\-UP 1 "), "{up}");
        assert!(up.contains(".B \\-\\-port PORT\nThe port of the API server"), "{up}");
        assert!(read("tiphys-snapshot.1").contains(".SH RESTORE\n"));
        assert!(read("tiphys-kubelet.1").contains("Default: 110."));
    }

    #[test]
    fn text_is_never_taken_for_a_request() {
        assert_eq!(escaped(".x\n'y-z\\"), "\\&.x\n\\&'y\\-z\\e");
    }
}
