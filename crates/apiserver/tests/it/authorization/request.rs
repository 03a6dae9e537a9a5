//! Random requests, and their authorization attributes according to the documentation of the API's
//! paths.

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use server::{Attributes, UserInfo};

use super::{
    question::{Question, somebody},
    random::Random,
    world::{NAMES, namespaces},
};

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) user: UserInfo,
    /// The authorization attributes.
    attributes: Attributes,
}

impl Asked {
    /// The check when the request impersonates the user: `system:anonymous` is always
    /// unauthenticated; others are authenticated unless their groups say otherwise.
    pub(super) fn question(&self) -> Question {
        let mut user = self.user.clone();
        let (known, unknown) = ("system:authenticated", "system:unauthenticated");
        if user.name == "system:anonymous" {
            user.groups.push(unknown.into());
        } else if !user.in_group(unknown) {
            user.groups.push(known.into());
        }
        Question { user, attributes: self.attributes.clone() }
    }

    /// Sends the request, impersonating its user; returns the message if authorization denied it.
    /// Other errors do not count.
    pub(super) async fn refusal(&self, admin: &Client) -> Option<String> {
        let mut headers = impersonating(&self.user);
        let mut body = Bytes::new();
        if self.method != Method::GET {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            body = Bytes::from_static(b"{}");
        }
        let answer = admin.request(self.method.clone(), &self.path, headers, body).await;
        let answer = answer.unwrap_or_else(|why| panic!("{self:?}: {why}"));
        if answer.status != 403 {
            return None;
        }
        let status = object::from_json(&answer.bytes().await.expect("a body")).expect("a Status");
        let message = status["message"].as_str().unwrap_or_default();
        message.contains(" cannot ").then(|| message.to_owned())
    }
}

pub(super) fn impersonating(user: &UserInfo) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = |text: &str| HeaderValue::from_str(text).expect("a plain name");
    headers.insert("impersonate-user", value(&user.name));
    for group in &user.groups {
        headers.append("impersonate-group", value(group));
    }
    headers
}

/// Group, version, resource, its subresources.
const KINDS: [(&str, &str, &str, &[&str]); 4] = [
    ("", "v1", "pods", &["", "", "log", "status", "eviction"]),
    ("", "v1", "configmaps", &[""]),
    ("", "v1", "secrets", &[""]),
    ("apps", "v1", "deployments", &["", "scale", "status"]),
];

/// A request about a resource. Its body is never valid, since only the authorization matters.
pub(super) fn random_request(random: &mut Random, round: usize) -> Asked {
    let (group, version, resource, subresources) = random.one_of(&KINDS);
    let namespace = random.one_of(&namespaces(round));
    let name = if random.chance(50) { "" } else { random.one_of(&NAMES) };
    let subresource = if name.is_empty() { "" } else { random.one_of(subresources) };
    let methods = [Method::GET, Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let method = random.one_of(&methods);
    let scoped = !name.is_empty() || method != Method::GET || random.chance(80);
    let root = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let mut path = match scoped {
        true => format!("{root}/namespaces/{namespace}/{resource}"),
        false => format!("{root}/{resource}"),
    };
    for part in [name, subresource] {
        if !part.is_empty() {
            path = format!("{path}/{part}");
        }
    }
    let selected = random.one_of(&NAMES);
    let query = match (name.is_empty(), random.below(4)) {
        (true, 0) => format!("?dryRun=All&fieldSelector=metadata.name={selected}"),
        (true, 1) => format!("?dryRun=All&fieldSelector=metadata.name!={selected}"),
        _ => "?dryRun=All".to_owned(),
    };
    let verb = match (&method, name.is_empty()) {
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        (_, true) => "list",
        (_, false) => "get",
    };
    // Only a list can select one object by its name.
    let selects = verb == "list" && query.contains("name=") && !query.contains("!=");
    let attributes = Attributes {
        verb: verb.into(),
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: if scoped { namespace.into() } else { "".into() },
        name: if selects { selected.into() } else { name.into() },
        is_resource: true,
        ..Attributes::default()
    };
    Asked { method, path: path + &query, user: somebody(random, round), attributes }
}
