//! The OpenAPI documents: made when first asked for, then kept.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH},
};
use object::{Status, StatusDetails, Value, to_json};
use schema::Definition;

use crate::{
    Query, Reply, Server,
    codec::hex,
    object_reply,
    respond::{raw, status_reply},
};

/// A document whose address names its content never changes.
const FOR_EVER: &str = "public, immutable";

#[derive(Debug, Default)]
pub(crate) struct Documents {
    v2: OnceLock<Document>,
    v3: OnceLock<Vec<Document>>,
}

#[derive(Debug)]
struct Document {
    /// Below `/openapi/v3/`.
    name: String,
    hash: String,
    bytes: Bytes,
}

impl Documents {
    pub(crate) fn answer(
        &self,
        server: &Server,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Option<Reply> {
        match path.trim_end_matches('/') {
            "/openapi/v2" => {
                if !takes_json(headers) {
                    return Some(status_reply(&not_acceptable()));
                }
                let make =
                    || Document::new(String::new(), &schema::openapi::v2(&definitions(server)));
                Some(self.v2.get_or_init(make).reply(headers))
            }
            "/openapi/v3" => Some(object_reply(200, &self.index(server))),
            path => {
                let name = path.strip_prefix("/openapi/v3/")?;
                let found = self.documents(server).iter().find(|document| document.name == name)?;
                if !takes_json(headers) {
                    return Some(status_reply(&not_acceptable()));
                }
                let mut reply = found.reply(headers);
                if query.get("hash") == Some(&found.hash) {
                    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
                }
                Some(reply)
            }
        }
    }

    /// Which documents there are; the hash lets clients keep them for ever.
    fn index(&self, server: &Server) -> Value {
        let mut paths = Value::object();
        for Document { name, hash, .. } in self.documents(server) {
            paths[name.as_str()]["serverRelativeURL"] =
                format!("/openapi/v3/{name}?hash={hash}").into();
        }
        let mut index = Value::object();
        index["paths"] = paths;
        index
    }

    fn documents(&self, server: &Server) -> &[Document] {
        self.v3.get_or_init(|| {
            let all = definitions(server);
            let mut names: Vec<(String, &str, &str)> = Vec::new();
            for definition in &all {
                let (group, version) = (definition.names.group, definition.names.version);
                let name = match group {
                    "" => format!("api/{version}"),
                    group => format!("apis/{group}/{version}"),
                };
                if !names.iter().any(|(own, ..)| *own == name) {
                    names.push((name, group, version));
                }
            }
            let document = |(name, group, version): (String, &str, &str)| {
                Document::new(name, &schema::openapi::v3(&all, group, version))
            };
            names.into_iter().map(document).collect()
        })
    }
}

impl Document {
    fn new(name: String, document: &Value) -> Self {
        let bytes = Bytes::from(to_json(document));
        Self { name, hash: hash(&bytes), bytes }
    }

    /// The document, unless the client has it.
    fn reply(&self, headers: &HeaderMap) -> Reply {
        let tag = format!("\"{}\"", self.hash);
        let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
        let body = if known { Bytes::new() } else { self.bytes.clone() };
        let mut reply = raw(200, "application/json", body);
        if known {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            reply.headers_mut().insert(ETAG, tag);
        }
        reply
    }
}

/// The documents are written in JSON alone.
fn takes_json(headers: &HeaderMap) -> bool {
    let mut said =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    said.peek().is_none()
        || said.flat_map(|value| value.split(',')).any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            matches!(media_type, "" | "*/*" | "application/*" | "application/json")
        })
}

fn not_acceptable() -> Status {
    let why = "the OpenAPI documents are served as application/json only";
    Status::failure(406, "NotAcceptable", why).with_details(StatusDetails::new())
}

fn definitions(server: &Server) -> Vec<Definition> {
    let all = server.registry.kinds().all();
    all.iter().map(|served| Definition::clone(&Arc::clone(&served.definition))).collect()
}

fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    hex(digest.as_ref()).to_uppercase()
}
