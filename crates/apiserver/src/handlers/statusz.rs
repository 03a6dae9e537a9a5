//! `/statusz` and `/flagz` of the API server.

use std::{collections::BTreeMap, sync::Arc};

use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE, WARNING},
};
use server::{EndpointHandler, Reply, Request, ResponseFuture, Server, plain_reply, text_reply};

use crate::zpages::{ProcessState, Zpage, flagz, statusz};

const COMPONENT: &str = "apiserver";
const PATHS: [&str; 7] =
    ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

/// The handler of `/statusz`.
#[derive(Debug)]
pub(super) struct Statusz {
    /// Start time, in seconds since 1970.
    pub(super) since: i64,
}

/// The handler of `/flagz`.
#[derive(Debug)]
pub(super) struct Flagz {
    pub(super) flags: BTreeMap<String, String>,
}

impl EndpointHandler for Statusz {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            if request.info.path != "/statusz" {
                return Ok(text_reply(404, "404 page not found"));
            }
            let process = ProcessState {
                since: self.since,
                now: server.registry.clock().now(),
                version: &server.config.version,
                paths: &PATHS,
            };
            statusz(COMPONENT, accepted(&request.head.headers), &process).map(reply)
        })
    }
}

impl EndpointHandler for Flagz {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            if request.info.path != "/flagz" {
                return Ok(text_reply(404, "404 page not found"));
            }
            flagz(COMPONENT, accepted(&request.head.headers), &self.flags).map(reply)
        })
    }
}

fn accepted(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn reply(page: Zpage) -> Reply {
    let mut reply = plain_reply(page.body);
    let headers = reply.headers_mut();
    let form = HeaderValue::from_str(&page.content_type);
    headers.extend(form.ok().map(|form| (CONTENT_TYPE, form)));
    let warning = page.warning.and_then(|warning| HeaderValue::from_str(&warning).ok());
    headers.extend(warning.map(|warning| (WARNING, warning)));
    reply
}
