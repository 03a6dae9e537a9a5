//! OpenAPI documents, generated on first request and cached until the served kinds change.

mod message;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE},
};
use object::{Value, to_json};
use schema::ResourceDefinition;

use crate::{
    Query, RemoteDocument, Reply, Server,
    compress::compressed_once,
    etag::{etag_response, not_acceptable_response, tag},
    respond::raw,
};

/// Cache-Control of a document that was requested by its hash, which never changes.
const FOR_EVER: &str = "public, immutable";

/// Maximum number of paths or definitions taken from one extension API server.
const MOST_OF_OTHERS: usize = 5_000;

/// The cached OpenAPI documents.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocuments {
    /// The OpenAPI v2 document, and its protobuf form.
    v2: Mutex<Option<(Edition, Arc<Document>, Bytes)>>,
    /// The OpenAPI v3 documents, each with the definitions it was generated from, so that only
    /// changed ones are generated again.
    v3: Mutex<(u64, Vec<Made>)>,
    /// The documents of extension API servers.
    others: Mutex<(u64, Vec<Arc<Document>>)>,
}

/// Change counters of the served kinds and of the extension API servers.
type Edition = (u64, u64);

/// A document, with the definitions it was generated from.
type Made = (Vec<Arc<ResourceDefinition>>, Arc<Document>);

/// An encoded OpenAPI document.
#[derive(Debug)]
struct Document {
    /// The path below `/openapi/v3/`.
    name: String,
    hash: String,
    bytes: Bytes,
    /// The document compressed with gzip, once a client has asked for that.
    gzip: OnceLock<Bytes>,
}

impl OpenApiDocuments {
    pub(crate) fn answer(
        &self,
        server: &Server,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Option<Reply> {
        match path {
            "/openapi/v2" => {
                let (document, message) = self.v2(server);
                if asks(headers, message::ASKED) {
                    let (media_type, hash) = (message::MEDIA_TYPE, &document.hash);
                    return Some(etag_response(headers, media_type, hash, &message));
                }
                Some(if takes_json(headers) {
                    document.reply(headers)
                } else {
                    not_acceptable_response()
                })
            }
            "/openapi/v3" => {
                let index = object::to_json(&self.index(server));
                Some(raw(200, "text/plain; charset=utf-8", index))
            }
            path => {
                let name = path.strip_prefix("/openapi/v3/")?;
                let documents = self.documents(server);
                let known = documents.iter().find(|document| document.name == name);
                let Some(found) = known else {
                    let mut nothing = raw(404, "", Bytes::new());
                    nothing.headers_mut().remove(CONTENT_TYPE);
                    return Some(nothing);
                };
                if !takes_json(headers) {
                    return Some(not_acceptable_response());
                }
                let mut reply = found.reply(headers);
                if query.get("hash") == Some(&found.hash) {
                    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
                }
                Some(reply)
            }
        }
    }

    /// The index of `/openapi/v3`. Its URLs contain the hash, so that clients can cache documents
    /// for ever.
    fn index(&self, server: &Server) -> Value {
        let mut paths = Value::object();
        for document in self.documents(server) {
            let Document { name, hash, .. } = &*document;
            paths[name.as_str()]["serverRelativeURL"] =
                format!("/openapi/v3/{name}?hash={hash}").into();
        }
        let mut index = Value::object();
        index["paths"] = paths;
        index
    }

    fn v2(&self, server: &Server) -> (Arc<Document>, Bytes) {
        let others = server.aggregate.as_ref();
        let edition = (
            server.registry.kinds().change_counter(),
            others.map(|others| others.change_counter()).unwrap_or_default(),
        );
        let mut kept = self.v2.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((made, document, message)) if *made == edition => {
                (document.clone(), message.clone())
            }
            _ => {
                let mut tree = schema::openapi::v2(&owned(&definitions(server)));
                for document in others.map(|others| others.documents()).unwrap_or_default() {
                    join(&mut tree, &document);
                }
                let document = Arc::new(Document::new(String::new(), &tree));
                let message = Bytes::from(message::encode(&tree));
                *kept = Some((edition, document.clone(), message.clone()));
                (document, message)
            }
        }
    }

    fn documents(&self, server: &Server) -> Vec<Arc<Document>> {
        let edition = server.registry.kinds().change_counter();
        let mut kept = self.v3.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != edition {
            let all = definitions(server);
            let before = std::mem::take(&mut kept.1);
            *kept = (edition, make(&all, &before));
        }
        let mut all: Vec<_> = kept.1.iter().map(|(_, document)| document.clone()).collect();
        drop(kept);
        all.extend(self.of_others(server));
        all
    }

    fn of_others(&self, server: &Server) -> Vec<Arc<Document>> {
        let Some(others) = &server.aggregate else { return Vec::new() };
        let mut kept = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != others.change_counter() {
            let documents = others.documents().into_iter().map(|document| {
                let name = format!("apis/{}/{}", document.group, document.version);
                let (hash, gzip) = (tag(&document.v3), OnceLock::new());
                Arc::new(Document { name, hash, bytes: document.v3, gzip })
            });
            *kept = (others.change_counter(), documents.collect());
        }
        kept.1.clone()
    }
}

/// Merges the paths and definitions of an extension API server's group. A definition that already
/// exists is kept: only the common ones of every API server have equal names.
fn join(tree: &mut Value, document: &RemoteDocument) {
    let below = format!("/apis/{}/", document.group);
    // The document is not trusted: its size is limited, and entries must be objects.
    let sound = |part: &'static str| {
        let all = document.v2.get(part).entries();
        all.filter(|(_, entry)| entry.is_object()).take(MOST_OF_OTHERS)
    };
    for (path, item) in sound("paths") {
        if path.starts_with(&below) {
            tree["paths"][path] = item.clone();
        }
    }
    for (name, definition) in sound("definitions") {
        if tree.get("definitions").get(name).is_null() {
            tree["definitions"][name] = definition.clone();
        }
    }
}

/// Generates a document for each group and version; reuses those of `before` whose definitions are
/// unchanged.
fn make(all: &[Arc<ResourceDefinition>], before: &[Made]) -> Vec<Made> {
    let mut names: Vec<(String, &str, &str)> = Vec::new();
    for definition in all {
        let (group, version) = (definition.names.group, definition.names.version);
        let name = match group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        if !names.iter().any(|(own, ..)| *own == name) {
            names.push((name, group, version));
        }
    }
    let known = owned(all);
    let plain =
        schema::openapi::non_resource_documents(&known).into_iter().map(|(name, document)| {
            let same = before.iter().find(|made| made.1.name == name);
            let made = || Arc::new(Document::new(name.clone(), &document));
            (Vec::new(), same.map_or_else(made, |(_, document)| document.clone()))
        });
    let made = names.into_iter().map(|(name, group, version)| {
        let is = |definition: &&Arc<ResourceDefinition>| {
            definition.names.group == group && definition.names.version == version
        };
        let of: Vec<_> = all.iter().filter(is).cloned().collect();
        let same = |made: &&Made| {
            made.1.name == name
                && made.0.len() == of.len()
                && made.0.iter().zip(&of).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some((_, document)) = before.iter().find(same) {
            return (of, document.clone());
        }
        let document = schema::openapi::v3(&known, group, version);
        (of, Arc::new(Document::new(name, &document)))
    });
    plain.chain(made).collect()
}

fn owned(definitions: &[Arc<ResourceDefinition>]) -> Vec<ResourceDefinition> {
    definitions.iter().map(|definition| ResourceDefinition::clone(definition)).collect()
}

impl Document {
    fn new(name: String, document: &Value) -> Self {
        let bytes = Bytes::from(to_json(document));
        Self { name, hash: tag(&bytes), bytes, gzip: OnceLock::new() }
    }

    /// Replies with the document, or with 304 if the client has it.
    fn reply(&self, headers: &HeaderMap) -> Reply {
        let whole = |bytes: &Bytes| etag_response(headers, "application/json", &self.hash, bytes);
        compressed_once(&self.gzip, &self.bytes, headers.get(ACCEPT_ENCODING), whole)
    }
}

/// Whether this media type is the first of the Accept header.
fn asks(headers: &HeaderMap, form: &str) -> bool {
    let said = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split([',', ';']).next().is_some_and(|first| first.trim() == form)
}

/// Whether the client accepts JSON.
fn takes_json(headers: &HeaderMap) -> bool {
    let mut said =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    said.peek().is_none()
        || said.flat_map(|value| value.split(',')).any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            matches!(media_type, "" | "*/*" | "application/*" | "application/json")
        })
}

fn definitions(server: &Server) -> Vec<Arc<ResourceDefinition>> {
    let kinds = server.registry.kinds().all().into_iter().map(|served| served.definition);
    kinds.chain(server.subresource_kinds.iter().cloned().map(Arc::new)).collect()
}
