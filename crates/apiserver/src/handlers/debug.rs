//! `/debug/`: what the levels of fairness do, and where profiles of Go's runtime are asked
//! for: this server has none, and says so as upstream says it of one that it does not know.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header::LOCATION};
use server::{Handle, Handler, Handling, Request, Server, plain_reply, text_reply};

#[derive(Debug)]
pub(crate) struct Debug {
    /// Whether profiles are served at all.
    pub(crate) profiling: bool,
    pub(crate) fairness: Option<Handler>,
}

impl Handle for Debug {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> Handling<'a> {
        let path = request.info.path.clone();
        if let Some(fairness) = &self.fairness
            && path.starts_with("/debug/api_priority_and_fairness/")
        {
            return fairness.handle(server, request);
        }
        let reply = match path.strip_prefix("/debug/pprof").filter(|_| self.profiling) {
            Some("") => {
                let mut reply = plain_reply(String::new());
                *reply.status_mut() = StatusCode::FOUND;
                reply.headers_mut().insert(LOCATION, HeaderValue::from_static("/debug/pprof/"));
                reply
            }
            Some("/") => plain_reply("/debug/pprof/\n\nTypes of profiles available: none\n".into()),
            Some(name) if name.starts_with('/') => text_reply(404, "Unknown profile"),
            _ => text_reply(404, "404 page not found"),
        };
        Box::pin(async move { Ok(reply) })
    }
}
