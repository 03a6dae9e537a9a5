//! `/tiphys/why`: the provenance of writes, from which `tiphys why` shows the chain of causes.

use std::sync::Arc;

use object::Value;
use server::{EndpointHandler, Request, ResponseFuture, Server, WriteProvenance, object_reply};

/// Maximum number of entries in a response; the newest ones are returned.
const MOST: usize = 1000;

#[derive(Debug)]
pub(super) struct ProvenanceHandler;

impl EndpointHandler for ProvenanceHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let uid = request.query.get("uid").unwrap_or_default();
            let notes = server.registry.engine().provenance_after(0);
            let told = notes.iter().filter_map(|note| {
                let content = WriteProvenance::from_bytes(&note.note)?;
                if !uid.is_empty() && content.uid != uid {
                    return None;
                }
                let mut entry = content.to_tree();
                entry["revision"] = note.revision.into();
                entry["key"] = note.key.clone().into();
                Some(entry)
            });
            let mut told: Vec<Value> = told.collect();
            let from = told.len().saturating_sub(MOST);
            let told: Value = told.drain(from..).collect();
            let mut answer = Value::object();
            answer["kind"] = "History".into();
            answer["apiVersion"] = "tiphys/v1".into();
            answer["items"] = told;
            Ok(object_reply(200, &answer))
        })
    }
}
