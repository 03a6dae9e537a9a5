//! `transcode`: converts an object between JSON, YAML, KYAML and protobuf; also reads values as etcd stores them.

use std::{
    ffi::OsString,
    io::{Read, Write},
    process::ExitCode,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Parser, ValueEnum};
use object::{Value, from_json_strict, to_json, yaml};
use schema::{ResourceDefinition, protobuf};

use super::{exit, parse};

/// Maximum size of the input in bytes; larger than any object that a store accepts.
const MAX_INPUT_BYTES: u64 = 64 << 20;
/// Prefix of a value encoded as protobuf, and of one that is encrypted.
const PROTOBUF: &[u8] = b"k8s\0";
const ENCRYPTED: &[u8] = b"k8s:enc:";

#[derive(Parser)]
pub(super) struct Arguments {
    /// The form to write.
    #[arg(long)]
    to: Encoding,
}

#[derive(Clone, Copy, ValueEnum)]
enum Encoding {
    Json,
    Yaml,
    Kyaml,
    Protobuf,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("transcode", args) {
        Ok(Arguments { to }) => exit("transcode", transcode(to)),
        Err(code) => code,
    }
}

fn transcode(to: Encoding) -> Result<()> {
    let mut input = Vec::new();
    std::io::stdin().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input)?;
    ensure!(input.len() as u64 <= MAX_INPUT_BYTES, "more than 64 MiB is no object");
    let (kind, object) = read(&input)?;
    let output = match to {
        Encoding::Json => [to_json(&object), b"\n".to_vec()].concat(),
        Encoding::Yaml => yaml::to_yaml(&object).into_bytes(),
        Encoding::Kyaml => yaml::to_kyaml(&object).into_bytes(),
        Encoding::Protobuf => {
            let message = protobuf::encode(&kind.schema, &object);
            protobuf::encode_envelope(&kind.names.api_version(), kind.names.kind, &message)
        }
    };
    std::io::stdout().write_all(&output)?;
    Ok(())
}

/// Decodes an object, and finds the definition of its kind.
fn read(input: &[u8]) -> Result<(ResourceDefinition, Value)> {
    ensure!(
        !input.starts_with(ENCRYPTED),
        "the value is encrypted: only the API server can read it"
    );
    if input.starts_with(PROTOBUF) {
        let opened =
            protobuf::decode_envelope(input).map_err(|error| anyhow!("protobuf: {error}"))?;
        let kind = find(opened.api_version, opened.kind)?;
        let mut object = protobuf::decode(&kind.schema, opened.message)
            .map_err(|error| anyhow!("protobuf: {error}"))?;
        object["apiVersion"] = opened.api_version.into();
        object["kind"] = opened.kind.into();
        return Ok((kind, object));
    }
    let mut object = if input.trim_ascii_start().starts_with(b"{") {
        let mut twice = Vec::new();
        let object = from_json_strict(input, None, &mut twice)?;
        let twice: Vec<_> = twice.iter().map(object::StrictError::path).collect();
        ensure!(twice.is_empty(), "{}", twice.join(", "));
        object
    } else {
        yaml::from_yaml(std::str::from_utf8(input).context("neither text nor protobuf")?)?
    };
    let word = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let kind = find(&word("apiVersion"), &word("kind"))?;
    let mut unknown = schema::UnknownFields::default();
    kind.coerce(&mut object, &mut unknown).map_err(|error| anyhow!(error))?;
    ensure!(unknown.is_empty(), "{}", unknown.join(", "));
    Ok((kind, object))
}

fn find(api_version: &str, kind: &str) -> Result<ResourceDefinition> {
    ensure!(!kind.is_empty(), "Object 'Kind' is missing");
    let is = |known: &ResourceDefinition| {
        known.names.kind == kind && known.names.api_version() == api_version
    };
    match api::builtin_resources().into_iter().find(is) {
        Some(found) => Ok(found),
        None => bail!("no kind \"{kind}\" is registered for version \"{api_version}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - image: i\n    name: c\n";

    #[test]
    fn all_forms_hold_the_same() {
        let (kind, pod) = read(POD.as_bytes()).expect("a pod");
        for form in [to_json(&pod), yaml::to_kyaml(&pod).into_bytes()] {
            assert_eq!(to_json(&read(&form).expect("the same pod").1), to_json(&pod));
        }
        assert_eq!(yaml::to_yaml(&pod), POD);
        // Go's protobuf encoder also writes empty fields.
        let seal = |pod: &Value| {
            protobuf::encode_envelope("v1", "Pod", &protobuf::encode(&kind.schema, pod))
        };
        let (_, opened) = read(&seal(&pod)).expect("the same pod");
        assert_eq!(opened["spec"]["containers"].items()[0]["name"].as_str(), Some("c"));
        assert_eq!(seal(&opened), seal(&pod));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let error = |input: &[u8]| read(input).expect_err("wrong").to_string();
        assert!(error(b"kind: Boat\napiVersion: v1").contains("no kind \"Boat\""));
        assert!(error(b"a: 1").contains("'Kind' is missing"));
        assert!(error(b"{\"kind\":\"Pod\",").contains("JSON") || !error(b"{\"kind\":").is_empty());
        assert!(error(b"k8s\0\xff\xff").contains("protobuf"));
        assert!(error(b"k8s:enc:aescbc:v1:k:").contains("encrypted"));
        assert!(error(b"kind: Pod\napiVersion: v1\nspec: {nonsense: 1}").contains("nonsense"));
    }
}
