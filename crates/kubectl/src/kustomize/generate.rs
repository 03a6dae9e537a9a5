//! ConfigMap and Secret generators.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::{Value, names};

use super::{Resource, add, read, read::Kustomization};
use crate::{
    error::{CommandError, Result},
    print::json,
};

/// Length of the lines of a Secret's base64 data.
const WIDTH: usize = 70;

/// Adds the generated ConfigMaps and Secrets.
pub(super) fn run(
    kustomization: &Kustomization,
    all: &mut Vec<Resource>,
    chain: &[PathBuf],
) -> Result {
    for (field, kind) in [("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")] {
        for args in kustomization.tree[field].items() {
            let made = one(kustomization, args, kind, chain)?;
            let text = |name: &str| args[name].as_str().unwrap_or_default();
            let same = |other: &&mut Resource| {
                other.kind() == kind
                    && other.names().iter().any(|(_, name)| name == made.name())
                    && (text("namespace").is_empty()
                        || other.text("namespace") == text("namespace"))
            };
            match text("behavior") {
                "" | "create" | "unspecified" => add(all, made)?,
                behavior @ ("merge" | "replace") => {
                    let Some(there) = all.iter_mut().find(same) else {
                        return Err(CommandError::error(format!(
                            "merging from generator: id resid.ResId{{Kind: \"{kind}\", Name: \"{}\"}} does not exist; cannot merge or replace",
                            made.name()
                        )));
                    };
                    if behavior == "replace" {
                        there.object.remove("data");
                        there.object.remove("binaryData");
                    }
                    for field in ["data", "binaryData"] {
                        for (name, value) in made.object[field].entries() {
                            there.object[field][name] = value.clone();
                        }
                    }
                    for field in ["labels", "annotations"] {
                        for (name, value) in made.object["metadata"][field].entries() {
                            there.object["metadata"][field][name] = value.clone();
                        }
                    }
                    there.hashed |= made.hashed;
                }
                other => {
                    return Err(CommandError::error(format!(
                        "unknown behavior {other} of a generator"
                    )));
                }
            }
        }
    }
    Ok(())
}

fn one(
    kustomization: &Kustomization,
    args: &Value,
    kind: &str,
    chain: &[PathBuf],
) -> Result<Resource> {
    let text = |name: &str| args[name].as_str().unwrap_or_default();
    let mut object = Value::object();
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = text("name").into();
    if !text("namespace").is_empty() {
        object["metadata"]["namespace"] = text("namespace").into();
    }
    if text("name").is_empty() {
        return Err(CommandError::error(format!("{kind} generator: name is missing")));
    }
    if kind == "Secret" {
        object["type"] = if text("type").is_empty() { "Opaque" } else { text("type") }.into();
    }
    for (key, bytes) in pairs(kustomization, args)? {
        let wrong = names::config_map_key(&key);
        if !wrong.is_empty() {
            return Err(CommandError::error(format!(
                "{key:?} is not a valid key name: {}",
                wrong[0]
            )));
        }
        let encoded = || wrapped(&BASE64_STANDARD.encode(&bytes));
        match std::str::from_utf8(&bytes) {
            Ok(plain) if kind == "ConfigMap" => object["data"][key.as_str()] = plain.into(),
            Err(_) if kind == "ConfigMap" => {
                object["binaryData"][key.as_str()] = encoded().into();
            }
            _ => object["data"][key.as_str()] = encoded().into(),
        }
    }
    let mut hashed = true;
    for options in [&kustomization.tree["generatorOptions"], &args["options"]] {
        for field in ["labels", "annotations"] {
            for (name, value) in options[field].entries() {
                object["metadata"][field][name] = value.clone();
            }
        }
        if let Some(off) = options["disableNameSuffixHash"].as_bool() {
            hashed = !off;
        }
        if options["immutable"].as_bool() == Some(true) {
            object["immutable"] = true.into();
        }
    }
    Ok(Resource { hashed, ..Resource::new(object, chain) })
}

/// Wraps long texts into lines, as kustomize does in Secrets.
fn wrapped(text: &str) -> String {
    if text.len() <= WIDTH {
        return text.to_owned();
    }
    let lines: Vec<&str> =
        (0..text.len()).step_by(WIDTH).map(|at| &text[at..text.len().min(at + WIDTH)]).collect();
    lines.join("\n") + "\n"
}

/// The keys and values of the object.
fn pairs(kustomization: &Kustomization, args: &Value) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let texts = |name: &str| args[name].items().iter().filter_map(Value::as_str);
    let root = &kustomization.root;
    let mut envs: Vec<&str> = texts("envs").collect();
    envs.extend(args["env"].as_str());
    for file in envs {
        let text = read::inside(root, file).map_err(|why| {
            CommandError::error(format!("loading KV pairs: env source files: {file}: {why}"))
        })?;
        for line in text.lines() {
            let line = line.trim_start_matches('\u{feff}').trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(CommandError::error(format!(
                    "loading KV pairs: env source files: {line} is no key=value"
                )));
            };
            all.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    for literal in texts("literals") {
        let Some((key, value)) = literal.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CommandError::error(format!(
                "loading KV pairs: literal source {literal}: invalid literal source {literal}, expected key=value"
            )));
        };
        let quoted =
            |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        all.push((key.to_owned(), value.as_bytes().to_vec()));
    }
    for file in texts("files") {
        let (key, path) = match file.split_once('=') {
            Some((key, path)) => (key.to_owned(), path),
            None => (file.rsplit('/').next().unwrap_or_default().to_owned(), file),
        };
        let bytes = read::bytes_inside(root, path).map_err(|why| {
            CommandError::error(format!("loading KV pairs: file sources: {file}: {why}"))
        })?;
        all.push((key, bytes));
    }
    Ok(all)
}

/// The ten-character hash suffix for the content of an object. `none` is hashed for missing data.
pub(crate) fn hash(object: &Value, name: &str, none: &Value) -> String {
    let mut told = Value::object();
    let or_empty = |value: &Value| if value.is_null() { none.clone() } else { value.clone() };
    told["kind"] = object["kind"].clone();
    told["name"] = name.into();
    *told.get_mut("data") = or_empty(&object["data"]);
    if object["kind"].as_str() == Some("Secret") {
        told["type"] = object["type"].as_str().unwrap_or_default().into();
    }
    for field in ["binaryData", "stringData"] {
        if object[field].is_object() {
            told[field] = object[field].clone();
        }
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, json::compact(&told).as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let letter = |c: char| match c {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    hex.chars().take(10).map(letter).collect()
}

#[test]
fn hashes_stand_for_contents() {
    let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
    let map = read("{kind: ConfigMap, metadata: {name: big-conf}, data: {a: '1'}}");
    assert_eq!(hash(&map, "", &"".into()), "h29d89cmmt");
    let secret = read("{kind: Secret, data: {a: MQ==}}");
    assert_eq!(hash(&secret, "s1", &Value::Null), "6729ffk25f");
}
