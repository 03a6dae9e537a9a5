//! `completion`: completion scripts for shells, derived from the declared flags.

use std::{ffi::OsString, fmt::Write as _, process::ExitCode};

use clap::{Arg, Command, Parser, ValueEnum};

use super::{for_users, parse};

#[derive(Parser)]
pub(super) struct Arguments {
    /// The shell to print completions for. Load them with `source <(tiphys completion bash)`.
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { shell } = match parse("completion", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let all: Vec<Words> = for_users().map(Words::of).collect();
    print!(
        "{}",
        match shell {
            Shell::Bash => bash(&all),
            Shell::Zsh => format!(
                "#compdef tiphys\nautoload -U +X bashcompinit && bashcompinit\n{}",
                bash(&all)
            ),
            Shell::Fish => fish(&all),
        }
    );
    ExitCode::SUCCESS
}

/// A command, and the words and flags that can follow it.
struct Words {
    name: &'static str,
    about: &'static str,
    /// Names of subcommands and possible values of positional arguments.
    words: Vec<String>,
    /// Flags: name, help text, and whether the flag takes a value.
    flags: Vec<(String, String, bool)>,
}

impl Words {
    fn of(command: &'static super::Command) -> Self {
        let (mut words, mut flags) = (Vec::new(), Vec::new());
        if let Some(declared) = command.declared() {
            collect(&declared, &mut words, &mut flags);
        }
        Self { name: command.name, about: command.summary, words, flags }
    }
}

fn collect(command: &Command, words: &mut Vec<String>, flags: &mut Vec<(String, String, bool)>) {
    let shown = |arg: &&Arg| !arg.is_hide_set();
    for arg in command.get_arguments().filter(shown) {
        let Some(long) = arg.get_long() else {
            let values = arg.get_possible_values();
            words.extend(values.iter().map(|value| value.get_name().to_owned()));
            continue;
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let takes_value = arg.get_action().takes_values();
        if !flags.iter().any(|(name, ..)| name == long) {
            flags.push((long.to_owned(), help, takes_value));
        }
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        words.push(inner.get_name().to_owned());
        collect(inner, words, flags);
    }
}

fn bash(all: &[Words]) -> String {
    let names: Vec<&str> = all.iter().map(|command| command.name).collect();
    let mut text = String::from(
        "_tiphys() {\n    local current=\"${COMP_WORDS[COMP_CWORD]}\" words\n    \
         if [ \"$COMP_CWORD\" -eq 1 ]; then\n",
    );
    let _ = writeln!(text, "        words=\"help {}\"", names.join(" "));
    text.push_str("    else\n        case \"${COMP_WORDS[1]}\" in\n");
    for command in all {
        let flags = command.flags.iter().map(|(name, ..)| format!("--{name}"));
        let words: Vec<String> = command.words.iter().cloned().chain(flags).collect();
        let _ = writeln!(text, "        {}) words=\"{}\" ;;", command.name, words.join(" "));
    }
    text.push_str(
        "        *) words=\"\" ;;\n        esac\n    fi\n    \
         COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n\
         complete -o default -F _tiphys tiphys\n",
    );
    text
}

fn fish(all: &[Words]) -> String {
    let quoted = |text: &str| text.replace('\\', "").replace('\'', "’").replace('\n', " ");
    let mut text = String::new();
    for command in all {
        let (name, about) = (command.name, quoted(command.about));
        let _ =
            writeln!(text, "complete -c tiphys -n __fish_use_subcommand -f -a {name} -d '{about}'");
        let inside = format!("complete -c tiphys -n '__fish_seen_subcommand_from {name}'");
        for word in &command.words {
            let _ = writeln!(text, "{inside} -a {word}");
        }
        for (flag, help, takes_value) in &command.flags {
            let value = if *takes_value { " -r" } else { "" };
            let _ = writeln!(text, "{inside} -l {flag}{value} -d '{}'", quoted(help));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        let all: Vec<Words> = for_users().map(Words::of).collect();
        let script = format!(
            "{}\nCOMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tiphys; \
             echo \"${{COMPREPLY[*]}}\"",
            bash(&all)
        );
        let out = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn bash_completes_commands_subcommands_and_flags() {
        assert_eq!(completed("tiphys stat"), "status");
        assert_eq!(completed("tiphys up --por"), "--port");
        assert_eq!(completed("tiphys snapshot re"), "restore");
        assert_eq!(completed("tiphys completion fi"), "fish");
        assert_eq!(completed("tiphys nonsense --p"), "");
    }

    #[test]
    fn fish_knows_what_flags_take_values() {
        let all: Vec<Words> = for_users().map(Words::of).collect();
        let text = fish(&all);
        let line = |flag: &str| {
            let flag = format!("from up' -l {flag} ");
            text.lines().find(|line| line.contains(&flag)).unwrap_or_default().to_owned()
        };
        assert!(line("port").contains(" -r -d '"), "{}", line("port"));
        assert!(line("demo").contains("-l demo -d '"), "{}", line("demo"));
        assert!(text.lines().all(|line| line.matches('\'').count() % 2 == 0), "quotes are closed");
    }
}
