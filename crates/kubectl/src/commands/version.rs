//! `version`: prints the versions of client and server.

use object::{Value, yaml};

use super::{Command, create::tree};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::json,
};

pub(crate) const COMMAND: Command =
    Command::new("version", &[&[Flag::bool("client"), Flag::text("output").short('o')]], run);

const VERSION: &str = "v1.37.1";

/// Fails if the server has another version, for `--match-server-version`.
pub(crate) fn check_match(call: &Invocation<'_>) -> Result {
    let server = call.server()?.get("/version")?;
    match server["gitVersion"].as_str().unwrap_or_default() {
        VERSION => Ok(()),
        other => Err(CommandError::error(format!(
            "server version ({other}) differs from client version ({VERSION})!"
        ))),
    }
}

fn run(call: &Invocation<'_>) -> Result {
    let format = call.flags.text("output");
    let unset = format.is_empty() && !call.flags.is_set("output");
    if !unset && !matches!(format, "json" | "yaml") {
        return Err(CommandError::error("--output must be 'yaml' or 'json'"));
    }
    if !call.args().is_empty() {
        return Err(CommandError::error(format!("extra arguments: [{}]", call.args().join(" "))));
    }
    let mut all = Value::object();
    let mut client = tree("{major: '1', minor: '37', gitTreeState: clean, compiler: rustc}");
    client["gitVersion"] = VERSION.into();
    client["gitCommit"] = "unknown".into();
    client["buildDate"] = "1970-01-01T00:00:00Z".into();
    client["goVersion"] = "none".into();
    client["platform"] = format!("{}/{}", std::env::consts::OS, arch()).as_str().into();
    all["clientVersion"] = client;
    all["kustomizeVersion"] = "v5.8.1".into();
    let server = if call.flags.is_true("client") {
        Ok(Value::Null)
    } else {
        call.server().and_then(|server| server.get("/version"))
    };
    if let Ok(server) = &server
        && !server.is_null()
    {
        all["serverVersion"] = server.clone();
    }
    match format {
        "json" => call.print(&ordered(&all)),
        "yaml" => call.print(&(yaml::to_yaml(&all) + "\n")),
        _ => {
            let mut text = format!("Client Version: {VERSION}\nKustomize Version: v5.8.1\n");
            if let Some(version) = all["serverVersion"]["gitVersion"].as_str() {
                text += &format!("Server Version: {version}\n");
            }
            call.print(&text);
        }
    }
    server.map(drop)
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// JSON indented by two spaces, with the fields of a version in upstream's order.
fn ordered(all: &Value) -> String {
    const ORDER: &[&str] = &[
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let version = |version: &Value| {
        let lines: Vec<String> = ORDER
            .iter()
            .filter(|name| !version[**name].is_null())
            .map(|name| format!("    \"{name}\": {}", json::compact(&version[*name])))
            .collect();
        format!("{{\n{}\n  }}", lines.join(",\n"))
    };
    let mut parts = vec![format!("  \"clientVersion\": {}", version(&all["clientVersion"]))];
    parts.push(format!("  \"kustomizeVersion\": {}", json::compact(&all["kustomizeVersion"])));
    if !all["serverVersion"].is_null() {
        parts.push(format!("  \"serverVersion\": {}", version(&all["serverVersion"])));
    }
    format!("{{\n{}\n}}\n", parts.join(",\n"))
}
