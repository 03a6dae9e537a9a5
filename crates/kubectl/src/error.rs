//! The errors of commands, and how they are printed.

use client::Error;
use object::{Status, quote::quote};

/// The error of a command. Each is printed as upstream prints it.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Printed as `error: …`.
    Error(String),
    /// Printed unchanged.
    Raw(String),
    /// Invalid arguments or flags: followed by a hint at the help.
    Usage { says: String, command: String, help: &'static str },
    /// The Status that the server returned, and what the command was doing.
    Server { status: Status, doing: String },
    /// Several errors, each printed on its own, without `error: `.
    Aggregate(Vec<CommandError>),
    /// An error with a specific exit code.
    WithExitCode { fail: Box<CommandError>, code: u8 },
    /// Only an exit code, of a remote process or of `diff`; nothing is printed.
    Code(u8),
}

pub(crate) type Result<T = ()> = std::result::Result<T, CommandError>;

impl CommandError {
    pub(crate) fn error(says: impl Into<String>) -> Self {
        Self::Error(says.into())
    }

    /// An error about arguments, followed by `See 'kubectl x -h' for help and examples`.
    pub(crate) fn usage(command: &str, says: impl Into<String>) -> Self {
        Self::Usage {
            says: says.into(),
            command: command.to_owned(),
            help: "-h' for help and examples",
        }
    }

    /// Combines errors into one result: none, the only one, or an aggregate.
    pub(crate) fn collect(mut all: Vec<CommandError>) -> Result {
        match all.len() {
            0 => Ok(()),
            1 => Err(all.remove(0)),
            _ => Err(Self::Aggregate(all)),
        }
    }

    /// The errors of an aggregate, or the only one.
    pub(crate) fn flatten(self) -> Vec<Self> {
        match self {
            Self::Aggregate(all) => all.into_iter().flat_map(Self::flatten).collect(),
            one => vec![one],
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Server { status, .. } if status.has_reason("NotFound"))
    }

    /// Sets what the command was doing, which is printed before the server's message.
    pub(crate) fn with_action(self, what: impl Into<String>) -> Self {
        match self {
            Self::Server { status, .. } => Self::Server { status, doing: what.into() },
            other => other,
        }
    }

    /// The text for stderr, and the exit code.
    pub(crate) fn report(&self) -> (String, u8) {
        match self {
            Self::Error(says) if says.starts_with("error: ") => (line(says), 1),
            Self::Error(says) => (line(&format!("error: {says}")), 1),
            Self::Raw(says) => (line(says), 1),
            Self::Usage { says, command, help } => (
                format!("error: {says}\nSee 'kubectl {command} {help}\n")
                    .replace("kubectl  ", "kubectl "),
                1,
            ),
            Self::Server { status, doing } => (server(status, doing), 1),
            Self::Aggregate(all) => {
                let report = |fail: &CommandError| match fail {
                    Self::Error(says) | Self::Raw(says) => (format!("{says}\n"), 1),
                    fail => fail.report(),
                };
                let reports: Vec<(String, u8)> = all.iter().map(report).collect();
                let texts: String = reports.iter().map(|report| report.0.as_str()).collect();
                (texts, reports.iter().map(|report| report.1).max().unwrap_or(1))
            }
            Self::WithExitCode { fail, code } => (fail.report().0, *code),
            Self::Code(code) => (String::new(), *code),
        }
    }

    /// Like the error itself, with another exit code; a usage error then gets the command's own help hint.
    pub(crate) fn with_code(self, code: u8) -> Self {
        match self {
            same if code == 1 => same,
            Self::Code(_) => self,
            Self::Usage { says, command, .. } => {
                Self::WithExitCode { fail: Box::new(Self::usage(&command, says)), code }
            }
            fail => Self::WithExitCode { fail: Box::new(fail), code },
        }
    }

    /// The message alone, for use within other messages.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Error(says) | Self::Raw(says) | Self::Usage { says, .. } => says.clone(),
            Self::Server { status, .. } => status.message().to_owned(),
            Self::Aggregate(all) => {
                let texts: Vec<String> = all.iter().map(CommandError::message).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::WithExitCode { fail, .. } => fail.message(),
            Self::Code(code) => format!("exit code {code}"),
        }
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match error {
            Error::Status(status) => Self::Server { status, doing: String::new() },
            Error::Invalid(says) => Self::Error(says),
            other => Self::Error(other.to_string()),
        }
    }
}

fn line(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

fn server(status: &Status, doing: &str) -> String {
    let (reason, message) = (status.reason(), status.message());
    if reason == "Invalid" && doing.is_empty() {
        return invalid(status);
    }
    if reason == "Unauthorized" {
        return format!("error: You must be logged in to the server ({message})\n");
    }
    let context = if doing.is_empty() { String::new() } else { format!("{doing}: ") };
    match reason {
        "" => format!("Error from server: {context}{message}\n"),
        _ => format!("Error from server ({reason}): {context}{message}\n"),
    }
}

/// The message about an invalid object: its errors, one per line if there are several.
pub(crate) fn invalid(status: &Status) -> String {
    let Some(details) = status.details() else {
        return format!("The request is invalid: {}\n", status.message());
    };
    let mut out = match (details.kind(), details.name()) {
        ("", "") => "The request is invalid".to_owned(),
        (kind, name) => format!("The {kind} {} is invalid", quote(name)),
    };
    let mut causes: Vec<String> = Vec::new();
    for cause in details.causes().iter() {
        let text = format!("{}: {}", cause.field(), cause.message());
        if !causes.contains(&text) {
            causes.push(text);
        }
    }
    match causes.len() {
        0 if details.kind().is_empty() && details.name().is_empty() => {
            if !status.message().is_empty() {
                out.push_str(&format!(": {}", status.message()));
            }
        }
        0 => {}
        1 => out.push_str(&format!(": {}", causes[0])),
        _ => {
            out.push_str(": ");
            for cause in causes {
                out.push_str(&format!("\n* {cause}"));
            }
        }
    }
    out.push('\n');
    out
}
