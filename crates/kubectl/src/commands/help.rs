//! Help texts: the content of `help/commands.txt` and `help/flags.txt`, with usage, aliases and flags from the
//! declarations of the commands.

use super::{COMMANDS, Command};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::{GLOBAL_FLAGS, Invocation},
};

/// A line `PATH | ARGUMENTS | SUMMARY` for each command. The lines below it are indented text, `# ` a comment on the
/// example that follows, `$ ` an example.
const TEXTS: &str = include_str!("help/commands.txt");
/// A line `NAME: DESCRIPTION` for each flag, or `COMMAND --NAME: …` where the flag differs for a command.
const FLAGS: &str = include_str!("help/flags.txt");

/// The help text of one command.
#[derive(Debug, Default)]
struct Text {
    arguments: &'static str,
    short: &'static str,
    long: Vec<&'static str>,
    examples: Vec<&'static str>,
}

impl Text {
    fn find(path: &str) -> Option<Self> {
        let mut lines = TEXTS.lines().skip_while(|line| {
            line.split_once(" | ").is_none_or(|(name, _)| name != path) || is_below(line)
        });
        let (_, head) = lines.next()?.split_once(" | ")?;
        let (arguments, short) = head.rsplit_once("| ")?;
        let mut text = Self { arguments: arguments.trim(), short, ..Self::default() };
        for line in lines.take_while(|line| is_below(line)) {
            match line.strip_prefix("  ") {
                Some(long) => text.long.push(long),
                None => text.examples.push(line),
            }
        }
        Some(text)
    }
}

/// Whether a line belongs to the command above it.
fn is_below(line: &str) -> bool {
    line.starts_with("  ") || line.starts_with("# ") || line.starts_with("$ ")
}

/// The description of a flag.
fn description(path: &str, flag: &Flag) -> Option<&'static str> {
    let own = format!("{path} --{}: ", flag.name);
    let general = format!("{}: ", flag.name);
    FLAGS
        .lines()
        .find_map(|line| line.strip_prefix(own.as_str()))
        .or_else(|| FLAGS.lines().find_map(|line| line.strip_prefix(general.as_str())))
}

/// The help of one command.
pub(super) fn of(path: &str, command: &Command) -> String {
    let text = Text::find(path).unwrap_or_default();
    let mut out = format!("{}.\n\n", text.short);
    for line in &text.long {
        out += &format!("{line}\n\n");
    }
    if !command.aliases.is_empty() {
        let names: Vec<&str> =
            std::iter::once(command.name).chain(command.aliases.iter().copied()).collect();
        out += &format!("Aliases:\n{}\n\n", names.join(", "));
    }
    if !text.examples.is_empty() {
        out += "Examples:\n";
        for line in &text.examples {
            out += &format!("  {}\n", line.strip_prefix("$ ").unwrap_or(line));
        }
        out.push('\n');
    }
    if !command.subcommands.is_empty() {
        out += "Available Commands:\n";
        out += &list(path, command.subcommands);
        out.push('\n');
    }
    let flags: Vec<&Flag> = command.flags.iter().copied().flatten().collect();
    if !flags.is_empty() {
        out += "Options:\n";
        out += &options(path, &flags);
    }
    out += &format!("Usage:\n  kubectl {path}");
    if !text.arguments.is_empty() {
        out += &format!(" {}", text.arguments);
    }
    out += " [options]\n\n";
    if !command.subcommands.is_empty() {
        out += &format!(
            "Use \"kubectl {path} <command> --help\" for more information about a given command.\n"
        );
    }
    out + "Use \"kubectl options\" for a list of global command-line options (applies to all commands).\n"
}

/// The help of kubectl itself.
pub(super) fn overview() -> String {
    let mut out = "kubectl controls a Kubernetes cluster.\n\nAvailable Commands:\n".to_owned();
    out += &list("", COMMANDS);
    out + "\nUsage:\n  kubectl [flags] [options]\n\nUse \"kubectl <command> --help\" for more information about a given command.\nUse \"kubectl options\" for a list of global command-line options (applies to all commands).\n"
}

/// The flags that every command accepts.
pub(super) fn global() -> String {
    let flags: Vec<&Flag> = GLOBAL_FLAGS.iter().filter(|flag| flag.name != "help").collect();
    format!("The following options can be passed to any command:\n\n{}", options("", &flags))
}

/// `help [COMMAND...]`.
pub(super) fn run(call: &Invocation<'_>) -> Result {
    let (mut known, mut found, mut path) = (COMMANDS, None, Vec::new());
    for word in call.args() {
        let Some(command) =
            known.iter().find(|c| c.name == word || c.aliases.contains(&word.as_str()))
        else {
            return Err(CommandError::error(format!(
                "unknown command {} for \"kubectl\"",
                object::quote::quote(&call.args().join(" "))
            )));
        };
        path.push(command.name);
        (known, found) = (command.subcommands, Some(command));
    }
    call.print(&found.map_or_else(overview, |command| of(&path.join(" "), command)));
    Ok(())
}

/// Commands and their summaries, one per line.
fn list(path: &str, commands: &[Command]) -> String {
    let width = commands.iter().map(|command| command.name.len()).max().unwrap_or_default();
    let line = |command: &Command| {
        let full = format!("{path} {}", command.name);
        let text = Text::find(full.trim_start()).unwrap_or_default();
        format!("  {:<width$}   {}\n", command.name, text.short)
    };
    commands.iter().map(line).collect()
}

fn options(path: &str, flags: &[&Flag]) -> String {
    let mut flags = flags.to_vec();
    flags.sort_by_key(|flag| flag.name);
    flags.dedup_by_key(|flag| flag.name);
    let line = |flag: &&Flag| {
        let short = flag.short.map_or(String::new(), |c| format!("-{c}, "));
        let default = match flag.kind {
            FlagType::StringSlice | FlagType::StringArray => "[]".to_owned(),
            FlagType::Text => format!("'{}'", flag.default),
            _ => flag.default.to_owned(),
        };
        let description = description(path, flag).unwrap_or_default();
        format!("    {short}--{}={default}:\n\t{description}\n\n", flag.name)
    };
    flags.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(path: &str, commands: &[Command], see: &mut dyn FnMut(&str, &Command)) {
        for command in commands {
            let path = format!("{path} {}", command.name);
            see(path.trim_start(), command);
            each(&path, command.subcommands, see);
        }
    }

    #[test]
    fn every_command_and_flag_has_a_text() {
        let mut missing = Vec::new();
        each("", COMMANDS, &mut |path, command| {
            match Text::find(path) {
                Some(text) if text.short.is_empty() => missing.push(path.to_owned()),
                Some(text) => {
                    let only_leads = !command.subcommands.is_empty() && command.flags.is_empty();
                    let go_io_error = matches!(path, "options" | "alpha");
                    if text.examples.is_empty() && !only_leads && !go_io_error {
                        missing.push(format!("example of {path}"));
                    }
                }
                None => missing.push(path.to_owned()),
            }
            for flag in command.flags.iter().copied().flatten() {
                if description(path, flag).is_none() {
                    missing.push(format!("{path} --{}", flag.name));
                }
            }
        });
        let global = GLOBAL_FLAGS.iter().filter(|flag| description("", flag).is_none());
        missing.extend(global.map(|flag| flag.name.to_owned()));
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_text_is_used() {
        let (mut paths, mut flags) = (Vec::new(), Vec::new());
        flags.extend(GLOBAL_FLAGS.iter().map(|flag| flag.name.to_owned()));
        each("", COMMANDS, &mut |path, command| {
            paths.push(path.to_owned());
            for flag in command.flags.iter().copied().flatten() {
                flags.push(flag.name.to_owned());
                flags.push(format!("{path} --{}", flag.name));
            }
        });
        for line in TEXTS.lines().filter(|line| !is_below(line)) {
            let path = line.split_once(" | ").expect("a path").0;
            assert!(paths.iter().any(|other| other == path), "{path}");
        }
        for line in FLAGS.lines() {
            let name = line.split_once(": ").expect("a name").0;
            assert!(flags.iter().any(|other| other == name), "{name}");
        }
    }

    #[test]
    fn examples_are_command_lines_of_kubectl() {
        for line in TEXTS.lines().filter(|line| line.starts_with("$ ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| word.ends_with("kubectl")).expect("kubectl");
            let name = words.get(at + 1).copied().unwrap_or_default();
            assert!(COMMANDS.iter().any(|command| command.name == name), "{line}");
        }
    }

    #[test]
    fn help_shows_all_parts() {
        let get = COMMANDS.iter().find(|command| command.name == "get").expect("get");
        let text = of("get", get);
        for part in [
            "Show one or many objects.\n\n",
            "Examples:\n  # List the pods of the namespace\n  kubectl get pods\n",
            "    -A, --all-namespaces=false:\n\tSelect objects in all namespaces",
            "Usage:\n  kubectl get (TYPE",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(overview().contains("  rollout "));
        assert!(global().contains("    -n, --namespace='':\n\tNamespace to use\n"));
    }
}
