//! The list of commands, and the dispatch of a command line to one of them.

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
mod help;
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
mod suggest;
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

/// A command: its name and aliases, flags, function and subcommands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) flags: &'static [&'static [Flag]],
    pub(crate) run: fn(&Invocation<'_>) -> Result,
    pub(crate) subcommands: &'static [Command],
    /// The exit code of failures, for commands where 1 has another meaning.
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

    /// Sets the aliases.
    pub(crate) const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the exit code of failures.
    pub(crate) const fn failure(self, failure: u8) -> Self {
        Self { failure_exit_code: failure, ..self }
    }

    /// Sets the subcommands.
    pub(crate) const fn inner(self, inner: &'static [Command]) -> Self {
        Self { subcommands: inner, ..self }
    }

    /// A command that only has subcommands.
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

/// All commands.
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
        call.print(&help::global());
        Ok(())
    }),
    Command::new("help", &[], help::run),
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
        if let Some(at) = next_word(&rest, found) {
            if let Some(flag) = args.first().filter(|arg| arg.starts_with('-')) {
                return Err(CommandError::Raw(format!(
                    "Error: flags cannot be placed before plugin name: {flag}"
                )));
            }
            plugin::run(environment, args, &[])?;
            return Err(CommandError::error(format!(
                "unknown command {} for \"kubectl\"{}",
                object::quote::quote(&rest[at]),
                suggest::text(&rest[at])
            )));
        }
        flags::parse("", &[GLOBAL_FLAGS], &rest)?;
        crate::stdio::write(&mut std::io::stdout(), help::overview().as_bytes());
        return Ok(());
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
        call.print(&help::of(&call.command, command));
        return Ok(());
    }
    check_required(&call, &all)?;
    (command.run)(&call).map_err(|fail| fail.with_code(command.failure_exit_code))?;
    match call.warnings() {
        0 => Ok(()),
        _ if !call.flags.is_true("warnings-as-errors") => Ok(()),
        1 => Err(CommandError::error("1 warning received")),
        count => Err(CommandError::error(format!("{count} warnings received"))),
    }
}

/// Fails if a required flag is missing or a global flag has an invalid value.
fn check_required(call: &Invocation<'_>, flags: &[&[Flag]]) -> Result {
    let missing: Vec<String> = flags
        .iter()
        .copied()
        .flatten()
        .filter(|flag| flag.required && !call.flags.is_set(flag.name))
        .map(|flag| object::quote::quote(flag.name))
        .collect();
    if !missing.is_empty() {
        return Err(CommandError::error(format!(
            "required flag(s) {} not set",
            missing.join(", ")
        )));
    }
    if call.flags.is_true("match-server-version") {
        version::check_match(call)?;
    }
    Ok(())
}

/// Index of the first argument that is neither a flag nor a flag's value.
fn next_word(args: &[String], command: Option<&Command>) -> Option<usize> {
    let own = command.map_or(&[][..], |command| command.flags);
    // An unknown flag may have a value as well.
    let takes_value = |name: &str| {
        let mut all = GLOBAL_FLAGS.iter().chain(own.iter().copied().flatten());
        let known = all.find(|flag| {
            name.strip_prefix("--").map_or_else(
                || name.strip_prefix('-').map(str::to_owned) == flag.short.map(String::from),
                |long| long == flag.name,
            )
        });
        match known {
            Some(flag) => flag.no_opt_default.is_none(),
            None => !name.contains('=') && (name.starts_with("--") || name.chars().count() == 2),
        }
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

fn require_subcommand(call: &Invocation<'_>) -> Result {
    if let Some(word) = call.args().first() {
        Err(call.usage(format!("unknown command {}", object::quote::quote(word))))
    } else {
        let command = find(&call.command);
        call.print_err(
            &command.map(|command| help::of(&call.command, command)).unwrap_or_default(),
        );
        Err(CommandError::Code(1))
    }
}

/// The command at `path`, a list of command names separated by spaces.
fn find(path: &str) -> Option<&'static Command> {
    let (mut known, mut found): (&'static [Command], _) = (COMMANDS, None);
    for word in path.split(' ') {
        found = known.iter().find(|command| command.name == word);
        known = found?.subcommands;
    }
    found
}

/// Flags that name manifests.
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

/// The value of `--dry-run`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DryRun {
    No,
    Client,
    Server,
}

impl DryRun {
    /// Parses `--dry-run`.
    pub(crate) fn of(call: &Invocation<'_>) -> Result<Self> {
        match call.flags.text("dry-run") {
            "" | "none" => Ok(Self::No),
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            "unchanged" => {
                call.log_warning(
                    "--dry-run is deprecated and can be replaced with --dry-run=client.",
                );
                Ok(Self::Client)
            }
            bool @ ("1" | "t" | "T" | "TRUE" | "true" | "True") => {
                call.log_warning(&deprecated_bool(bool, "client"));
                Ok(Self::Client)
            }
            bool @ ("0" | "f" | "F" | "FALSE" | "false" | "False") => {
                call.log_warning(&deprecated_bool(bool, "none"));
                Ok(Self::No)
            }
            other => Err(CommandError::error(format!(
                "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
            ))),
        }
    }

    /// The suffix of messages about changes, such as ` (dry run)`.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

fn deprecated_bool(given: &str, instead: &str) -> String {
    format!(
        "--dry-run={given} is deprecated (boolean value) and can be replaced with --dry-run={instead}."
    )
}

/// Calls `one` for each object and collects all failures.
pub(crate) fn for_each_object(
    infos: &[Info],
    mut fails: Vec<CommandError>,
    one: impl Fn(&Info) -> Result,
) -> Result {
    fails.extend(infos.iter().filter_map(|info| one(info).err()));
    CommandError::collect(fails)
}

/// The query parameters of a write.
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
