//! `create configmap` and `create secret`.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::{Value, names, quote::quote};

use crate::{
    commands::{
        Command,
        create::{WRITES, begin, make},
    },
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::json,
    select::go_io_error,
};

const SOURCES: &[Flag] = &[
    Flag::new("from-file", FlagType::StringSlice),
    Flag::new("from-literal", FlagType::StringArray),
    Flag::new("from-env-file", FlagType::StringSlice),
    Flag::bool("append-hash"),
];

pub(super) const CONFIG_MAP: Command =
    Command::new("configmap", &[WRITES, SOURCES], config_map).aliases(&["cm"]);

pub(super) const SECRET: Command = Command::group(
    "secret",
    &[
        Command::new("generic", &[WRITES, SOURCES, &[Flag::text("type")]], generic),
        Command::new(
            "docker-registry",
            &[
                WRITES,
                SOURCES,
                &[
                    Flag::text("docker-username"),
                    Flag::text("docker-password"),
                    Flag::text("docker-email"),
                    Flag::text("docker-server").default("https://index.docker.io/v1/"),
                ],
            ],
            docker,
        ),
        Command::new(
            "tls",
            &[WRITES, &[Flag::text("cert"), Flag::text("key"), Flag::bool("append-hash")]],
            tls,
        ),
    ],
);

fn config_map(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "ConfigMap", true)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for (key, data) in sources(call)? {
        let wrong = names::config_map_key(&key);
        if !wrong.is_empty() {
            return Err(CommandError::error(format!(
                "{} is not a valid key name for a ConfigMap: {}",
                quote(&key),
                wrong.join(",")
            )));
        }
        for field in ["data", "binaryData"] {
            if !object[field][key.as_str()].is_null() {
                let field = if field == "data" { "Data" } else { "BinaryData" };
                return Err(CommandError::error(format!(
                    "cannot add key {}, another key by that name already exists in {field} for ConfigMap {}",
                    quote(&key),
                    quote(&name)
                )));
            }
        }
        match String::from_utf8(data) {
            Ok(text) => object["data"][key.as_str()] = text.as_str().into(),
            Err(bytes) => {
                object["binaryData"][key.as_str()] =
                    BASE64_STANDARD.encode(bytes.as_bytes()).as_str().into();
            }
        }
    }
    make(call, object, "configmaps", "failed to create configmap: ")
}

fn generic(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "Secret", true)?;
    let kind = call.flags.text("type");
    if !kind.is_empty() {
        object["type"] = kind.into();
    }
    for (key, data) in sources(call)? {
        add(&mut object, &key, &data)?;
    }
    make(call, object, "secrets", "failed to create secret ")
}

fn docker(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "Secret", true)?;
    object["type"] = "kubernetes.io/dockerconfigjson".into();
    let text = |name: &str| call.flags.text(name);
    if call.flags.all("from-file").is_empty() {
        let (user, password, server) =
            (text("docker-username"), text("docker-password"), text("docker-server"));
        if user.is_empty() || password.is_empty() || server.is_empty() {
            return Err(CommandError::error(
                "either --from-file or the combination of --docker-username, --docker-password and --docker-server is required",
            ));
        }
        let email = match text("docker-email") {
            "" => String::new(),
            email => format!("\"email\":{},", json::compact(&email.into())),
        };
        let entry = |name: &str| json::compact(&name.into());
        let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let config = format!(
            "{{\"auths\":{{{}:{{\"username\":{},\"password\":{},{email}\"auth\":\"{auth}\"}}}}}}",
            entry(server),
            entry(user),
            entry(password)
        );
        add(&mut object, ".dockerconfigjson", config.as_bytes())?;
    }
    let named = |data: &[u8]| {
        let files = call.flags.all("from-file").iter();
        files.clone().any(|file| file.contains('=')) || files.count() > 1 || data.is_empty()
    };
    for (key, data) in sources(call)? {
        // A single file without a key in the flag is the Docker configuration itself.
        let key = if named(&data) { key.as_str() } else { ".dockerconfigjson" };
        add(&mut object, key, &data)?;
    }
    make(call, object, "secrets", "failed to create secret ")
}

fn tls(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "Secret", true)?;
    let (cert, key) = (call.flags.text("cert"), call.flags.text("key"));
    if cert.is_empty() || key.is_empty() {
        return Err(CommandError::error("key and cert must be specified"));
    }
    let read = |file: &str| {
        fs::read(file).map_err(|error| {
            CommandError::error(format!(
                "Cannot read file {file}, open {file}: {}",
                go_io_error(&error)
            ))
        })
    };
    let (cert, key) = (read(cert)?, read(key)?);
    for (text, what) in [(&cert, "CERTIFICATE"), (&key, "PRIVATE KEY")] {
        if !String::from_utf8_lossy(text).contains(what) {
            return Err(CommandError::error(format!(
                "tls: failed to find any PEM data in {} input",
                if what == "CERTIFICATE" { "certificate" } else { "key" }
            )));
        }
    }
    add(&mut object, "tls.crt", &cert)?;
    add(&mut object, "tls.key", &key)?;
    object["type"] = "kubernetes.io/tls".into();
    make(call, object, "secrets", "failed to create secret ")
}

fn add(secret: &mut Value, key: &str, data: &[u8]) -> Result {
    let wrong = names::config_map_key(key);
    if !wrong.is_empty() {
        return Err(CommandError::error(format!(
            "{} is not valid key name for a Secret {}",
            quote(key),
            wrong.join(";")
        )));
    }
    if !secret["data"][key].is_null() {
        return Err(CommandError::error(format!(
            "cannot add key {key}, another key by that name already exists"
        )));
    }
    secret["data"][key] = BASE64_STANDARD.encode(data).as_str().into();
    Ok(())
}

/// Keys and values from files, literals and env files.
fn sources(call: &Invocation<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let given = |flag: &str| !call.flags.all(flag).is_empty();
    if given("from-env-file") && (given("from-file") || given("from-literal")) {
        return Err(CommandError::error(
            "from-env-file cannot be combined with from-file or from-literal",
        ));
    }
    let mut all = Vec::new();
    for literal in call.flags.all("from-literal") {
        match literal.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                all.push((key.to_owned(), value.as_bytes().to_vec()));
            }
            _ => {
                return Err(CommandError::error(format!(
                    "invalid literal source {literal}, expected key=value"
                )));
            }
        }
    }
    for source in call.flags.all("from-file") {
        file_source(source, &mut all)?;
    }
    for file in call.flags.all("from-env-file") {
        if Path::new(file).is_dir() {
            return Err(CommandError::error("env config file cannot be a directory"));
        }
        env_file(call, file, &mut all)?;
    }
    Ok(all)
}

fn file_source(source: &str, all: &mut Vec<(String, Vec<u8>)>) -> Result {
    let (key, path) = match source.split_once('=') {
        None => (
            Path::new(source).file_name().map_or(source, |name| name.to_str().unwrap_or(source)),
            source,
        ),
        Some((_, rest)) if rest.contains('=') => {
            return Err(CommandError::error("key names or file paths cannot contain '='"));
        }
        Some(("", path)) => {
            return Err(CommandError::error(format!("key name for file path {path} missing")));
        }
        Some((key, "")) => {
            return Err(CommandError::error(format!("file path for key name {key} missing")));
        }
        Some(pair) => pair,
    };
    let failed = |error: std::io::Error| {
        CommandError::error(format!("error reading {path}: {}", go_io_error(&error)))
    };
    let about = fs::metadata(path).map_err(failed)?;
    if !about.is_dir() {
        all.push((key.to_owned(), fs::read(path).map_err(failed)?));
        return Ok(());
    }
    if source.contains('=') {
        return Err(CommandError::error("cannot give a key name for a directory path"));
    }
    let mut entries: Vec<_> = fs::read_dir(path)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            all.push((name, fs::read(entry.path()).map_err(failed)?));
        }
    }
    Ok(())
}

fn env_file(call: &Invocation<'_>, file: &str, all: &mut Vec<(String, Vec<u8>)>) -> Result {
    let text = fs::read_to_string(file).map_err(|error| {
        CommandError::error(format!("error reading {file}: {}", go_io_error(&error)))
    })?;
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim_start) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) =
            line.split_once('=').map_or((line, None), |(key, value)| (key, Some(value)));
        let wrong = names::env_var_name(key);
        if !wrong.is_empty() {
            return Err(CommandError::error(format!(
                "{} is not a valid key name: {}",
                quote(key),
                wrong.join(";")
            )));
        }
        let value = match (value, key) {
            (Some(value), _) => value.to_owned(),
            (None, "HOME") => call.environment.home.clone(),
            (None, "PATH") => call.environment.path.clone(),
            (None, _) => String::new(),
        };
        all.push((key.to_owned(), value.into_bytes()));
    }
    Ok(())
}
