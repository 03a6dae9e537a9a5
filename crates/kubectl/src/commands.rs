//! The commands, and how one is found.

mod annotate;
mod api;
mod apply;
mod attach;
mod auth;
mod autoscale;
mod certificate;
mod cluster_info;
mod complete;
mod completion;
mod config;
mod cp;
mod create;
mod debug;
mod delete;
mod describe;
mod diff;
mod drain;
mod edit;
mod events;
mod exec;
mod explain;
mod expose;
mod generate;
mod get;
mod get_watch;
mod kuberc;
mod kustomize;
mod logs;
mod patch;
pub(crate) mod plugin;
mod port_forward;
mod proxy;
mod prune;
mod replace;
mod rollout;
mod run;
mod scale;
mod set;
mod taint;
mod top;
mod version;
mod wait;

use self::get_watch::watch as get_watch;
use crate::{
    error::{CommandError, Result},
    flags::{self, Flag},
    invocation::{Environment, GLOBAL_FLAGS, Invocation},
    select::Info,
};

/// A command: what it is called, what it takes, what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) flags: &'static [&'static [Flag]],
    pub(crate) run: fn(&Invocation<'_>) -> Result,
    pub(crate) subcommands: &'static [Command],
    /// The exit code of failures, where 1 means something else.
    pub(crate) failure_exit_code: u8,
}

impl Command {
    pub(crate) const fn new(
        name: &'static str,
        flags: &'static [&'static [Flag]],
        run: fn(&Invocation<'_>) -> Result,
    ) -> Self {
        Self { name, aliases: &[], flags, run, subcommands: &[], failure_exit_code: 1 }
    }

    pub(crate) const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(crate) const fn failure(self, failure: u8) -> Self {
        Self { failure_exit_code: failure, ..self }
    }

    pub(crate) const fn inner(self, inner: &'static [Command]) -> Self {
        Self { subcommands: inner, ..self }
    }

    /// A command that only leads to others.
    pub(crate) const fn group(name: &'static str, inner: &'static [Command]) -> Self {
        Self {
            name,
            aliases: &[],
            flags: &[],
            run: require_subcommand,
            subcommands: inner,
            failure_exit_code: 1,
        }
    }
}

/// Every command there is.
pub(crate) const COMMANDS: &[Command] = &[
    get::COMMAND,
    describe::COMMAND,
    create::COMMAND,
    apply::COMMAND,
    replace::COMMAND,
    patch::COMMAND,
    edit::COMMAND,
    delete::COMMAND,
    diff::COMMAND,
    kustomize::COMMAND,
    annotate::LABEL,
    annotate::ANNOTATE,
    scale::COMMAND,
    autoscale::COMMAND,
    set::COMMAND,
    rollout::COMMAND,
    run::COMMAND,
    expose::COMMAND,
    logs::COMMAND,
    exec::COMMAND,
    attach::COMMAND,
    cp::COMMAND,
    debug::COMMAND,
    port_forward::COMMAND,
    proxy::COMMAND,
    wait::COMMAND,
    events::COMMAND,
    explain::COMMAND,
    api::RESOURCES,
    api::VERSIONS,
    auth::COMMAND,
    drain::CORDON,
    drain::UNCORDON,
    drain::DRAIN,
    taint::COMMAND,
    certificate::COMMAND,
    top::COMMAND,
    config::COMMAND,
    cluster_info::COMMAND,
    version::COMMAND,
    completion::COMMAND,
    plugin::COMMAND,
    kuberc::COMMAND,
    Command::new("options", &[], |call| {
        options(call);
        Ok(())
    }),
    Command::new("alpha", &[], |call| {
        call.print_err("No alpha commands are available in this version of kubectl");
        Ok(())
    }),
];

/// Finds the command in `args` and runs it.
pub(crate) fn run(environment: &Environment, args: &[String]) -> Result {
    if let Some(("__complete" | "__completeNoDesc", words)) =
        args.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        complete::run(environment, words);
        return Ok(());
    }
    let args = &crate::preferences::apply(environment, args)?;
    let mut rest = args.clone();
    let (mut known, mut path): (&[Command], Vec<&str>) = (COMMANDS, Vec::new());
    let mut found: Option<&Command> = None;
    while let Some(at) = next_word(&rest, found) {
        let Some(command) =
            known.iter().find(|c| c.name == rest[at] || c.aliases.contains(&rest[at].as_str()))
        else {
            break;
        };
        rest.remove(at);
        path.push(command.name);
        (known, found) = (command.subcommands, Some(command));
        if known.is_empty() {
            break;
        }
    }
    let line = path.join(" ");
    let Some(command) = found else {
        let given = flags::parse("", &[GLOBAL_FLAGS], &rest)?;
        return if let Some(word) = given.args.first() {
            plugin::run(environment, args, &[])?;
            Err(CommandError::Raw(format!(
                "error: unknown command {} for \"kubectl\"",
                object::quote::quote(word)
            )))
        } else {
            let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            let text = format!(
                "kubectl controls the Kubernetes cluster manager.\n\nCommands: {}\n",
                names.join(", ")
            );
            crate::stdio::write(&mut std::io::stdout(), text.as_bytes());
            Ok(())
        };
    };
    if command.name == "create" && next_word(&rest, found).is_some() {
        plugin::run(environment, args, &["create"])?;
    }
    let mut all: Vec<&[Flag]> = command.flags.to_vec();
    all.push(GLOBAL_FLAGS);
    let given = flags::parse(&line, &all, &rest)
        .map_err(|fail| fail.with_code(command.failure_exit_code))?;
    let call = Invocation::new(environment, line, given);
    call.flags.deprecations.iter().for_each(|note| call.print_err(note));
    if call.flags.is_true("help") {
        help(&call, command);
        return Ok(());
    }
    (command.run)(&call).map_err(|fail| fail.with_code(command.failure_exit_code))
}

/// The first word that is no flag and no flag's value.
fn next_word(args: &[String], command: Option<&Command>) -> Option<usize> {
    let own = command.map_or(&[][..], |command| command.flags);
    let takes_value = |name: &str| {
        let mut all = GLOBAL_FLAGS.iter().chain(own.iter().copied().flatten());
        all.any(|flag| {
            let same = name.strip_prefix("--").map_or_else(
                || name.strip_prefix('-').map(str::to_owned) == flag.short.map(String::from),
                |long| long == flag.name,
            );
            same && flag.no_opt_default.is_none()
        })
    };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if arg == "--" {
            return None;
        }
        if !arg.starts_with('-') || arg == "-" {
            return Some(at);
        }
        at += if takes_value(arg) { 2 } else { 1 };
    }
    None
}

fn help(call: &Invocation<'_>, command: &Command) {
    let mut text = format!("Usage:\n  kubectl {} [flags] [options]\n", call.command);
    if !command.subcommands.is_empty() {
        text += "\nAvailable Commands:\n";
        for inner in command.subcommands {
            text += &format!("  {}\n", inner.name);
        }
    }
    let own: Vec<&Flag> = command.flags.iter().copied().flatten().collect();
    if !own.is_empty() {
        text += "\nOptions:\n";
    }
    for flag in own {
        text += &flag_line(flag);
    }
    call.print(&text);
}

/// The flags that every command takes.
fn options(call: &Invocation<'_>) {
    let mut text = "The following options can be passed to any command:\n\n".to_owned();
    for flag in GLOBAL_FLAGS.iter().filter(|flag| flag.name != "help") {
        text += &flag_line(flag);
    }
    call.print(&text);
}

fn flag_line(flag: &Flag) -> String {
    let short = flag.short.map_or(String::from("    "), |c| format!("-{c}, "));
    let default = if flag.default.is_empty() { "''" } else { flag.default };
    format!("    {short}--{}={default}\n", flag.name)
}

fn require_subcommand(call: &Invocation<'_>) -> Result {
    if let Some(word) = call.args().first() {
        Err(call.usage(format!("unknown command {}", object::quote::quote(word))))
    } else {
        call.print_err(&format!("Usage:\n  kubectl {} [flags] [options]", call.command));
        Err(CommandError::Code(1))
    }
}

/// Flags that name files.
pub(crate) const FILES: &[Flag] = &[
    Flag::new("filename", flags::FlagType::StringSlice).short('f'),
    Flag::text("kustomize").short('k'),
    Flag::bool("recursive").short('R'),
];

pub(crate) const SELECTOR: &[Flag] = &[Flag::text("selector").short('l')];
pub(crate) const FIELD_SELECTOR: &[Flag] = &[Flag::text("field-selector")];
pub(crate) const ALL: &[Flag] = &[Flag::bool("all")];
pub(crate) const ALL_NAMESPACES: &[Flag] = &[Flag::bool("all-namespaces").short('A')];
pub(crate) const DRY_RUN: &[Flag] = &[Flag::text("dry-run").default("none").bare("unchanged")];
pub(crate) const FIELD_MANAGER: &[Flag] = &[Flag::text("field-manager")];
pub(crate) const VALIDATE: &[Flag] = &[Flag::text("validate").default("strict").bare("strict")];
pub(crate) const CHUNKS: &[Flag] =
    &[Flag::new("chunk-size", flags::FlagType::Int64).default("500")];

/// What `--dry-run` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DryRun {
    No,
    Client,
    Server,
}

impl DryRun {
    pub(crate) fn of(call: &Invocation<'_>) -> Result<Self> {
        match call.flags.text("dry-run") {
            "" | "none" | "false" => Ok(Self::No),
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            "unchanged" | "true" => {
                call.log_warning(
                    "--dry-run is deprecated and can be replaced with --dry-run=client.",
                );
                Ok(Self::Client)
            }
            other => Err(CommandError::error(format!(
                "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
            ))),
        }
    }

    /// What is added to the words about something done.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Does something with one object after the other; what fails is told at the end.
pub(crate) fn for_each_object(
    infos: &[Info],
    mut fails: Vec<CommandError>,
    one: impl Fn(&Info) -> Result,
) -> Result {
    fails.extend(infos.iter().filter_map(|info| one(info).err()));
    CommandError::collect(fails)
}

/// The query of a write.
pub(crate) fn write_query(call: &Invocation<'_>, dry_run: DryRun, manager: &str) -> Result<String> {
    let mut query = Vec::new();
    if dry_run == DryRun::Server {
        query.push("dryRun=All".to_owned());
    }
    let given = call.flags.text("field-manager");
    let manager = if given.is_empty() { manager } else { given };
    query.push(format!("fieldManager={}", crate::resources::escape(manager)));
    if !call.flags.text("validate").is_empty() {
        query.push(format!("fieldValidation={}", validation(call)?));
    }
    Ok(format!("?{}", query.join("&")))
}

fn validation(call: &Invocation<'_>) -> Result<&'static str> {
    match call.flags.text("validate") {
        "strict" | "true" => Ok("Strict"),
        "warn" => Ok("Warn"),
        "ignore" | "false" => Ok("Ignore"),
        other => Err(CommandError::error(format!(
            "invalid - validate option {}; must be one of: strict (or true), warn, ignore (or false)",
            object::quote::quote(other)
        ))),
    }
}
