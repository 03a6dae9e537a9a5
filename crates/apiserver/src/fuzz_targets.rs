//! Fuzz targets: parsers of untrusted input, without a server.

use http::HeaderMap;
use object::Value;
use server::{RequestInfo, UserInfo};

use crate::{
    ProxyHeaders,
    admission::{ReviewResult, ReviewVersion},
    audit::Policy,
};

/// Whether a webhook's AdmissionReview response can be parsed.
pub fn hook_answer(answer: &Value) -> bool {
    let uid = answer.get("response").get("uid").as_str().unwrap_or_default();
    [true, false].into_iter().any(|mutating| {
        ReviewResult::read(answer, uid, (ReviewVersion::V1, mutating)).is_ok_and(|verdict| {
            verdict.denied_status("hook");
            true
        })
    })
}

/// Whether this is a valid audit policy.
pub fn audit_policy(file: &Value) -> bool {
    Policy::parse(file).is_ok_and(|policy| {
        let info = RequestInfo {
            is_resource: true,
            verb: "get".into(),
            resource: "pods".into(),
            subresource: "log".into(),
            namespace: "default".into(),
            name: "a".into(),
            ..RequestInfo::default()
        };
        policy.level(&UserInfo::new("alice", &["g"]), &info);
        policy.level(
            &UserInfo::anonymous(),
            &RequestInfo { path: "/healthz".into(), ..RequestInfo::default() },
        );
        true
    })
}

/// The user in the headers of a front proxy.
pub fn front_proxy(headers: &HeaderMap) -> Option<UserInfo> {
    let name = |name: &str| vec![name.to_owned()];
    let names = ProxyHeaders {
        names: name("x-remote-user"),
        uids: name("x-remote-uid"),
        groups: name("x-remote-group"),
        extra_prefixes: name("x-remote-extra-"),
    };
    names.user(headers).ok().flatten()
}
