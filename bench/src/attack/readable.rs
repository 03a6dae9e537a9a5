//! Checks that stored objects can be read in all representations: JSON, protobuf and Table.

use anyhow::Result;
use object::from_json;
use schema::protobuf;

use super::{
    judge::{Fault, message},
    kinds::Kind,
    request::{Caller, Request},
    wire,
    world::World,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);
const FORMS: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
];

/// Lists all objects of a kind in every representation, and decodes them as components do.
pub(crate) async fn check(world: &World, kind: &Kind) -> Result<Vec<Fault>> {
    if !kind.definition.verbs.contains(&"list") {
        return Ok(Vec::new());
    }
    read(world, kind, &kind.collection("a").replace("/namespaces/a/", "/"), items).await
}

/// Reads one object in every representation. It may have been deleted.
pub(crate) async fn check_object(world: &World, kind: &Kind, path: &str) -> Result<Vec<Fault>> {
    read(world, kind, path, item).await
}

async fn read(
    world: &World,
    kind: &Kind,
    path: &str,
    decode: fn(&Kind, &[u8]) -> Result<(), String>,
) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for form in FORMS {
        let request = Request::new(Caller::Admin, "GET", path).header("accept", *form);
        let answer = world.send(&request, PATIENCE).await?;
        let wrong = match answer.code {
            404..=406 => None, // not served with these features, deleted, or not in this representation
            200 if answer.media_type.contains("protobuf") => decode(kind, &answer.body).err(),
            200 => from_json(&answer.body).err().map(|error| error.to_string()),
            code => Some(format!("{code} {}", message(&answer))),
        };
        if let Some(wrong) = wrong {
            let names = kind.definition.names;
            let key = format!("unreadable: {} as {form}", names.plural);
            faults.push(Fault::new(key, format!("{path} cannot be read as {form}: {wrong}")));
        }
    }
    Ok(faults)
}

fn item(kind: &Kind, body: &[u8]) -> Result<(), String> {
    let opened = protobuf::decode_envelope(body).map_err(|error| format!("{error:?}"))?;
    protobuf::decode(&kind.definition.schema, opened.message)
        .map(drop)
        .map_err(|error| format!("{error:?}"))
}

fn items(kind: &Kind, body: &[u8]) -> Result<(), String> {
    let opened = protobuf::decode_envelope(body).map_err(|error| format!("{error:?}"))?;
    for (tag, item) in wire::delimited_fields(opened.message) {
        if tag == 2 {
            protobuf::decode(&kind.definition.schema, item)
                .map_err(|error| format!("{error:?}"))?;
        }
    }
    Ok(())
}
