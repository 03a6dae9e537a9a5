//! `/debug/`: the state of API Priority and Fairness, the log level, and the paths of Go's
//! profiles. This server has no profiles, and answers like upstream does for an unknown profile.

use std::{num::IntErrorKind, sync::Arc};

use http::{
    HeaderValue, Method, StatusCode,
    header::{CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS},
};
use object::{Status, quote::quote};
use server::{
    EndpointHandler, HandlerRef, Reply, Request, ResponseFuture, Server, plain_reply, text_reply,
};

/// The page of flags that can be changed while the server runs.
const FLAGS: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n\
    /debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\n\
    full flags configurable<br>\n</body>\n</html>\n";
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The handler of `/debug/`.
#[derive(Debug)]
pub(crate) struct Debug {
    /// Whether the paths of profiles are served at all.
    pub(crate) profiling: bool,
    pub(crate) fairness: Option<HandlerRef>,
}

impl EndpointHandler for Debug {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        let path = request.info.path.clone();
        if let Some(fairness) = &self.fairness
            && path.starts_with("/debug/api_priority_and_fairness/")
        {
            return fairness.handle(server, request);
        }
        if path == "/debug/flags/v" {
            return Box::pin(verbosity(server, request));
        } else if path == "/debug/flags" || path.starts_with("/debug/flags/") {
            let mut page = plain_reply(FLAGS.to_owned());
            page.headers_mut().insert(CONTENT_TYPE, HTML);
            return Box::pin(async move { Ok(page) });
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

/// Changes the log level.
async fn verbosity(server: &Server, request: Request) -> Result<Reply, Status> {
    let said = |code, text: &str| {
        let mut reply = plain_reply(format!("{text}\n"));
        *reply.status_mut() = code;
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Ok(reply)
    };
    if request.head.method != Method::PUT {
        return said(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let body = server::read(request.body, server.config.limits.body).await?;
    let text = String::from_utf8_lossy(&body);
    let level = match text.parse::<u32>() {
        Ok(level) => level,
        Err(error) => {
            let large = matches!(error.kind(), IntErrorKind::PosOverflow);
            let why = if large { "value out of range" } else { "invalid syntax" };
            let why = format!("strconv.ParseUint: parsing {}: {why}", quote(&text));
            return said(StatusCode::BAD_REQUEST, &why);
        }
    };
    match crate::flags::set_verbosity(u8::try_from(level).unwrap_or(u8::MAX)) {
        true => {
            said(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {level}"))
        }
        false => said(StatusCode::BAD_REQUEST, "this process does not let it be changed"),
    }
}
