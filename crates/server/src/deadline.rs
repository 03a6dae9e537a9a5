//! The deadline of a request: how long it may take until its response begins.

use std::time::Duration;

use object::Status;

use crate::{Query, request::RequestInfo};

/// Subresources that stream for as long as both sides want, whatever resource has them.
pub(crate) const STREAMING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Whether a request is long-running, and so has no deadline.
pub(crate) fn is_long_running(info: &RequestInfo) -> bool {
    matches!(&*info.verb, "watch" | "proxy")
        || info.is_resource && STREAMING.contains(&&*info.subresource)
        || !info.is_resource && info.path.starts_with("/debug/pprof/")
}

/// How long this request may take; `None` for long-running requests. The `timeout` parameter can
/// shorten the limit `longest`, not extend it.
pub(crate) fn of(
    info: &RequestInfo,
    query: &Query,
    longest: Duration,
) -> Result<Option<Duration>, Status> {
    if is_long_running(info) {
        return Ok(None);
    }
    let asked = match query.get("timeout").filter(|text| !text.is_empty()) {
        None => 0,
        Some(text) => object::Duration::parse_nanos(text).map_err(|why| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        })?,
    };
    let asked = u64::try_from(asked).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
    Ok(Some(asked.map_or(longest, |asked| asked.min(longest))))
}

/// Checks that the `timeout` parameter is a valid duration.
pub(crate) fn check(info: &RequestInfo, query: &Query) -> Result<(), Status> {
    of(info, query, Duration::MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn within(method: &str, uri: &str) -> Result<Option<u64>, String> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = Query::parse(query);
        let info = RequestInfo::of(&method.parse::<Method>().unwrap(), path, &query);
        let allowed = of(&info, &query, Duration::from_mins(1));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        allowed.map(|time| time.map(millis)).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn a_client_asks_for_less_time_and_not_for_more() {
        let pods = "/api/v1/namespaces/a/pods";
        for (query, right) in [("", 60_000), ("?timeout=2s", 2_000), ("?timeout=5m", 60_000)] {
            assert_eq!(within("GET", &format!("{pods}{query}")), Ok(Some(right)), "{query}");
        }
        for none in ["?timeout=0", "?timeout=", "?timeout=-1s"] {
            assert_eq!(within("POST", &format!("{pods}{none}")), Ok(Some(60_000)), "{none}");
        }
        assert_eq!(
            within("GET", &format!("{pods}?timeout=soon")),
            Err("invalid timeout specified in the request URL - time: invalid duration \"soon\""
                .to_owned())
        );
    }

    #[test]
    fn what_runs_long_is_not_ended() {
        for (method, uri) in [
            ("GET", "/api/v1/pods?watch=true&timeout=1s"),
            ("GET", "/api/v1/watch/pods"),
            ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true"),
            ("POST", "/api/v1/namespaces/a/pods/p/exec"),
            ("GET", "/api/v1/namespaces/a/services/s/proxy/x?timeout=soon"),
        ] {
            assert_eq!(within(method, uri), Ok(None), "{uri}");
        }
    }
}
