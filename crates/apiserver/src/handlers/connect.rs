//! Admission of connections (exec, attach, portforward, proxy): the options in the query become an
//! object such as PodExecOptions.

use std::sync::Arc;

use object::{Status, Value};
use server::{Operation, Query, Request, Server};

use super::{asking, request_context, served};

/// Options of connections by subresource: booleans, strings and lists.
const EXEC: Fields = (&["stdin", "stdout", "stderr", "tty"], &["container"], &["command"]);
const ATTACH: Fields = (&["stdin", "stdout", "stderr", "tty"], &["container"], &[]);
const FORWARD: Fields = (&[], &[], &["ports"]);
const PROXY: Fields = (&[], &["path"], &[]);

/// Names of boolean, string and list options.
type Fields = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// Runs the admission plugins for a connection. Afterwards the query contains only the options that
/// they saw: kubelets accept further names for some options, which the plugins have not seen.
pub(super) async fn admit(server: &Arc<Server>, request: &mut Request) -> Result<(), Status> {
    let info = request.info.clone();
    let (kind, fields) = match (&*info.resource, &*info.subresource) {
        ("pods", "exec") => ("PodExecOptions", EXEC),
        ("pods", "attach") => ("PodAttachOptions", ATTACH),
        ("pods", "portforward") => ("PodPortForwardOptions", FORWARD),
        ("pods", "proxy") => ("PodProxyOptions", PROXY),
        ("services", "proxy") => ("ServiceProxyOptions", PROXY),
        ("nodes", "proxy") => ("NodeProxyOptions", PROXY),
        _ => return Ok(()),
    };
    let mut asked = options(&request.query, fields);
    asked["kind"] = kind.into();
    asked["apiVersion"] = "v1".into();
    if info.subresource == "proxy" && !info.rest.is_empty() {
        asked["path"] = format!("/{}", info.rest.trim_start_matches('/')).into();
    }
    let (served, mut call) = (served(server, request)?, request_context(request));
    let asking = asking(&info, Operation::Connect, asked);
    let wanted = server.registry.admit_subresource(&mut call, &served, asking, |_| Ok(())).await?;
    if info.subresource != "proxy" {
        let path = request.head.uri.path();
        let uri = format!("{path}?{}", said(&wanted, fields));
        request.head.uri =
            uri.parse().map_err(|_| Status::bad_request("the options cannot be passed on"))?;
        request.query = Query::parse(request.head.uri.query().unwrap_or_default());
    }
    Ok(())
}

fn options(query: &Query, (flags, texts, lists): Fields) -> Value {
    let mut options = Value::object();
    for name in flags {
        if query.flag(name) {
            options[*name] = true.into();
        }
    }
    for name in texts {
        if let Some(text) = query.get(name).filter(|text| !text.is_empty()) {
            options[*name] = text.into();
        }
    }
    for name in lists {
        let all = query.all(name);
        if *name == "ports" {
            let ports: Vec<i64> = all
                .iter()
                .flat_map(|text| text.split(','))
                .filter_map(|n| n.parse().ok())
                .collect();
            if !ports.is_empty() {
                options[*name] = ports.into_iter().collect();
            }
        } else if !all.is_empty() {
            options[*name] = all.into_iter().collect();
        }
    }
    options
}

/// Encodes the options as a query.
fn said(options: &Value, (flags, texts, lists): Fields) -> String {
    let mut parts = Vec::new();
    for name in flags.iter().filter(|name| options.get(name).as_bool() == Some(true)) {
        parts.push(format!("{name}=true"));
    }
    for name in texts.iter().chain(lists) {
        let own = options.get(name);
        let all = if own.items().is_empty() { std::slice::from_ref(own) } else { own.items() };
        for value in all {
            match value {
                Value::Text(text) => parts.push(format!("{name}={}", escaped(text))),
                Value::Int(n) => parts.push(format!("{name}={n}")),
                _ => {}
            }
        }
    }
    parts.join("&")
}

fn escaped(text: &str) -> String {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-._~".contains(&c);
    let each = text.bytes().map(|c| match c {
        c if plain(c) => char::from(c).to_string(),
        c => format!("%{c:02X}"),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_written() {
        let query =
            Query::parse("stdin=true&tty=false&container=c&command=sh&command=-c&command=a%20b");
        let read = options(&query, EXEC);
        assert_eq!(read["stdin"].as_bool(), Some(true));
        assert!(read.get("tty").is_null());
        assert_eq!(read["command"].items().len(), 3);
        let text = said(&read, EXEC);
        assert_eq!(text, "stdin=true&container=c&command=sh&command=-c&command=a%20b");
        assert_eq!(options(&Query::parse(&text), EXEC), read);
        let ports = options(&Query::parse("ports=80,81"), FORWARD);
        assert_eq!(ports["ports"].items().len(), 2);
    }
}
