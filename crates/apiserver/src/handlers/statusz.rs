//! `/statusz` and `/flagz`: the state and the flags of this process, as text, and as an object if
//! the client accepts one.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE, WARNING},
};
use object::{Status, Time, Value, yaml::to_yaml};
use server::{
    EndpointHandler, Reply, Request, ResponseFuture, Server, object_reply, plain_reply, text_reply,
};

const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const PATHS: [&str; 7] =
    ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];
const UNSTABLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                        formatting compatibility guarantees and is for debugging purposes only.";

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
            let up = server.registry.clock().now() - self.since;
            let version = server.config.version.trim_start_matches('v');
            let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
            let Some(form) = ZpageFormat::asked(&request.head.headers, "Statusz")? else {
                let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
                return Ok(plain_reply(format!(
                    "\napiserver statusz\n{UNSTABLE}\n\nStarted= {}\n\
                     Up= {hours} hr {minutes:02} min {seconds:02} sec\n\
                     Binary version= {version}\nEmulation version= {minor}\nPaths= {}\n",
                    Time::format(self.since),
                    PATHS.join(" ")
                )));
            };
            let mut status = form.object("Statusz");
            status["startTime"] = Time::format(self.since).into();
            status["uptimeSeconds"] = up.into();
            status["binaryVersion"] = version.into();
            status["emulationVersion"] = minor.into();
            status["paths"] = PATHS.into_iter().collect();
            Ok(form.reply(&status, "Statusz"))
        })
    }
}

impl EndpointHandler for Flagz {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            if request.info.path != "/flagz" {
                return Ok(text_reply(404, "404 page not found"));
            }
            let Some(form) = ZpageFormat::asked(&request.head.headers, "Flagz")? else {
                let mut text = format!("\napiserver flagz\n{UNSTABLE}\n");
                for (name, value) in &self.flags {
                    let _ = writeln!(text, "{name}: {value}");
                }
                return Ok(plain_reply(text));
            };
            let mut object = form.object("Flagz");
            for (name, value) in &self.flags {
                object["flags"][name.as_str()] = value.as_str().into();
            }
            Ok(form.reply(&object, "Flagz"))
        })
    }
}

/// The encoding and version of the response object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZpageFormat {
    yaml: bool,
    version: &'static str,
}

impl ZpageFormat {
    /// The format that the Accept header asks for; `None` means text.
    fn asked(headers: &HeaderMap, kind: &str) -> Result<Option<Self>, Status> {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accept.trim().is_empty() {
            return Ok(None);
        }
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if matches!(media_type, "text/plain" | "text/*" | "*/*") {
                return Ok(None);
            }
            let said: Vec<&str> = parts.collect();
            let has = |part: &str| said.contains(&part);
            let fits = has(&format!("as={kind}")) && has(&format!("g={GROUP}"));
            let version = VERSIONS.into_iter().find(|version| has(&format!("v={version}")));
            match (media_type, version) {
                ("application/json" | "application/yaml", Some(version)) if fits => {
                    return Ok(Some(Self { yaml: media_type == "application/yaml", version }));
                }
                _ => {}
            }
        }
        let only = "only the following media types are accepted: application/json, \
                    application/yaml, text/plain";
        Err(Status::failure(406, "NotAcceptable", only))
    }

    fn object(self, kind: &str) -> Value {
        let mut object = Value::object();
        object["kind"] = kind.into();
        object["apiVersion"] = format!("{GROUP}/{}", self.version).into();
        object["metadata"]["name"] = "apiserver".into();
        object
    }

    fn reply(self, object: &Value, kind: &str) -> Reply {
        let (mut reply, form) = match self.yaml {
            true => (plain_reply(to_yaml(object)), "yaml"),
            false => (object_reply(200, object), "json"),
        };
        let form = format!("application/{form};g={GROUP};v={};as={kind}", self.version);
        let headers = reply.headers_mut();
        headers.extend(HeaderValue::from_str(&form).ok().map(|form| (CONTENT_TYPE, form)));
        if self.version == "v1alpha1" {
            let said = format!(
                "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                kind.to_lowercase()
            );
            headers.extend(HeaderValue::from_str(&said).ok().map(|said| (WARNING, said)));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_unless_an_object_is_asked_for() {
        let asked = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header"));
            ZpageFormat::asked(&headers, "Flagz").map_err(|status| status.code())
        };
        assert_eq!(asked("*/*"), Ok(None));
        assert_eq!(asked("text/plain"), Ok(None));
        let form = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
        assert_eq!(asked(form), Ok(Some(ZpageFormat { yaml: false, version: "v1beta1" })));
        assert_eq!(asked("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"), Err(406));
        assert_eq!(asked("application/json"), Err(406));
    }
}
