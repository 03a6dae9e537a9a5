//! Discovery: the groups, versions and resources that the server serves, as the unaggregated lists
//! and as the aggregated document.

use std::collections::HashMap;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, CACHE_CONTROL},
};
use object::{Status, Value};

use crate::{
    RemoteGroup, Reply, Request, ServedResource, Server, cbor,
    etag::{etag_response, tag},
    negotiate::{
        Encoding, EndpointRestrictions, MediaTypeOptions, accepted, negotiate, negotiate_failure,
        not_acceptable,
    },
    object_reply,
    respond::{no_method, text_as},
    served_resources::storage_group_version,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_CBOR: &str =
    "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a discovery request; `None` if the path is not one of discovery.
pub(crate) fn answer(
    server: &Server,
    path: &str,
    request: &Request,
) -> Option<Result<Reply, Status>> {
    let (headers, query) = (&request.head.headers, &request.query);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let kinds = server.registry.kinds().all();
    let others = server.aggregate.as_ref().map(|others| others.groups()).unwrap_or_default();
    let aggregated = wants_aggregated(headers);
    let document = match &*parts {
        ["api"] if aggregated => document(&kinds, &[], str::is_empty),
        ["apis"] if aggregated => document(&kinds, &others, |group| !group.is_empty()),
        ["api"] => versions(server),
        ["apis"] => groups(&kinds, &others),
        ["apis", name] => group(&kinds, &others, name)?,
        ["api", version] => resources(&kinds, "", version)?,
        ["apis", group, version] => resources(&kinds, group, version)?,
        _ => return None,
    };
    // The list of groups and a single group answer any method.
    let routed = parts.first() == Some(&"api") || parts.len() == 3;
    if routed && request.head.method != Method::GET {
        return Some(Err(no_method()));
    } else if aggregated && parts.len() == 1 {
        return Some(Ok(kept(headers, negotiate_failure(headers, query), &document)));
    }
    let form = match negotiate(headers, query, EndpointRestrictions::Part) {
        Ok(form) => form,
        Err(status) if routed => return Some(Err(status)),
        Err(_) if takes_any(headers) => MediaTypeOptions::JSON,
        Err(_) => {
            let accepted = accepted(query);
            let said = format!("only the following media types are accepted: {accepted}");
            return Some(Err(not_acceptable(said)));
        }
    };
    Some(Ok(match form.format {
        Encoding::Yaml | Encoding::Cbor => text_as(200, &document, form),
        _ => object_reply(200, &document),
    }))
}

/// Whether the client accepts `application/*`.
fn takes_any(headers: &HeaderMap) -> bool {
    let all = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut clauses = all.flat_map(|value| value.split(','));
    clauses.any(|clause| clause.split(';').next().unwrap_or_default().trim() == "application/*")
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let first = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let first = first.flat_map(|value| value.split(',')).next().unwrap_or_default();
    let has = |part: &str| first.split(';').any(|own| own.trim() == part);
    has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io") && has("v=v2")
}

/// Groups in discovery order, each with its versions.
fn by_group(kinds: &[ServedResource]) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for served in kinds {
        let names = &served.definition.names;
        match groups.iter_mut().find(|(group, _)| *group == names.group) {
            Some((_, versions)) if versions.contains(&names.version) => {}
            Some((_, versions)) => versions.push(names.version),
            None => groups.push((names.group, vec![names.version])),
        }
    }
    groups
}

fn versions(server: &Server) -> Value {
    let mut address = Value::object();
    address["clientCIDR"] = "0.0.0.0/0".into();
    address["serverAddress"] = server.config.advertise.as_str().into();
    let mut versions = Value::object();
    versions["kind"] = "APIVersions".into();
    versions["versions"] = ["v1"].into_iter().collect();
    versions["serverAddressByClientCIDRs"] = [address].into_iter().collect();
    versions
}

fn groups(kinds: &[ServedResource], others: &[RemoteGroup]) -> Value {
    let groups = by_group(kinds).into_iter().filter(|(group, _)| !group.is_empty());
    let own = groups.map(|(group, versions)| described(group, &versions));
    let others = others.iter().map(|other| {
        let versions: Vec<&str> = other.versions.iter().map(|(name, _)| &**name).collect();
        described(&other.name, &versions)
    });
    let mut list = Value::object();
    list["kind"] = "APIGroupList".into();
    list["apiVersion"] = "v1".into();
    list["groups"] = own.chain(others).collect();
    list
}

fn described(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| {
        let mut entry = Value::object();
        entry["groupVersion"] = format!("{group}/{version}").into();
        entry["version"] = (*version).into();
        entry
    };
    let mut entry = Value::object();
    entry["name"] = group.into();
    entry["versions"] = versions.iter().map(version).collect();
    entry["preferredVersion"] = versions.first().map(version).unwrap_or_default();
    entry
}

fn group(kinds: &[ServedResource], others: &[RemoteGroup], name: &str) -> Option<Value> {
    let groups = by_group(kinds);
    let own = groups.iter().find(|(group, _)| *group == name && !group.is_empty());
    let mut group = if let Some((name, versions)) = own {
        described(name, versions)
    } else {
        let other = others.iter().find(|other| other.name == name)?;
        let versions: Vec<&str> = other.versions.iter().map(|(name, _)| &**name).collect();
        described(name, &versions)
    };
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn resources(kinds: &[ServedResource], group: &str, version: &str) -> Option<Value> {
    let mut found = Vec::new();
    for served in kinds {
        let definition = &served.definition;
        let names = &definition.names;
        if names.group != group || names.version != version {
            continue;
        }
        let mut entry = Value::object();
        entry["name"] = names.plural.into();
        entry["singularName"] = names.singular.into();
        entry["namespaced"] = definition.is_namespaced().into();
        entry["kind"] = names.kind.into();
        entry["verbs"] = definition.verbs.iter().copied().collect();
        if !names.short_names.is_empty() {
            entry["shortNames"] = names.short_names.iter().copied().collect();
        }
        if !names.categories.is_empty() {
            entry["categories"] = names.categories.iter().copied().collect();
        }
        if definition.is_stored() {
            entry["storageVersionHash"] = hash(served).into();
        }
        found.push((names.plural.to_owned(), entry));
        for sub in definition.subresources {
            let mut entry = Value::object();
            let name = format!("{}/{}", names.plural, sub.name);
            entry["name"] = name.as_str().into();
            entry["singularName"] = "".into();
            entry["namespaced"] = definition.is_namespaced().into();
            entry["kind"] = sub.kind.into();
            entry["verbs"] = sub.verbs.iter().copied().collect();
            if let Some((group, version)) = sub.group_version {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            found.push((name, entry));
        }
    }
    if found.is_empty() {
        return None;
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut list = Value::object();
    list["kind"] = "APIResourceList".into();
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    list["groupVersion"] = api_version.into();
    list["resources"] = found.into_iter().map(|(_, entry)| entry).collect();
    Some(list)
}

/// The storage version hash. Clients use it to see whether two servers store a kind in the same
/// version.
fn hash(served: &ServedResource) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let kind = served.internal.names.kind;
    let (group, version) = storage_group_version(&served.definition);
    let text = format!("{group}/{version}/{kind}");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    STANDARD.encode(digest.as_ref().get(..8).unwrap_or_default())
}

/// The aggregated document: all groups that `is` accepts, with their versions and resources.
fn document(kinds: &[ServedResource], others: &[RemoteGroup], is: impl Fn(&str) -> bool) -> Value {
    let groups = by_group(kinds).into_iter().filter(|(group, _)| is(group));
    let items = groups.map(|(group, versions)| {
        let versions = versions.into_iter().map(|version| {
            let of = |served: &&ServedResource| {
                let names = &served.definition.names;
                names.group == group && names.version == version
            };
            let mut entries: Vec<_> = kinds.iter().filter(of).collect();
            entries.sort_by_key(|served| served.definition.names.plural);
            let mut entry = Value::object();
            entry["version"] = version.into();
            entry["freshness"] = "Current".into();
            entry["resources"] = entries.into_iter().map(aggregated).collect();
            entry
        });
        let mut item = Value::object();
        item["metadata"] = Value::object();
        if !group.is_empty() {
            item["metadata"]["name"] = group.into();
        }
        item["versions"] = versions.collect();
        item
    });
    let mut list = Value::object();
    list["kind"] = "APIGroupDiscoveryList".into();
    list["apiVersion"] = "apidiscovery.k8s.io/v2".into();
    list["metadata"] = Value::object();
    list["items"] = items.chain(others.iter().map(remote_group)).collect();
    list
}

/// Replies with a document that clients can cache by its ETag.
fn kept(headers: &HeaderMap, form: MediaTypeOptions, document: &Value) -> Reply {
    let (media_type, bytes) = match form.format {
        Encoding::Cbor => (AGGREGATED_CBOR, cbor::encode_document(None, document)),
        _ => (AGGREGATED, object::to_json(document)),
    };
    let bytes = Bytes::from(bytes);
    let mut reply = etag_response(headers, media_type, &tag(&bytes), &bytes);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    reply
}

fn aggregated(served: &ServedResource) -> Value {
    let definition = &served.definition;
    let names = &definition.names;
    let kind = |group: &str, version: &str, kind: &str| {
        let mut entry = Value::object();
        entry["group"] = group.into();
        entry["version"] = version.into();
        entry["kind"] = kind.into();
        entry
    };
    let mut entry = Value::object();
    entry["resource"] = names.plural.into();
    // Empty group and version: those of the resource.
    entry["responseKind"] = kind("", "", names.kind);
    entry["scope"] = if definition.is_namespaced() { "Namespaced" } else { "Cluster" }.into();
    entry["singularResource"] = names.singular.into();
    entry["verbs"] = definition.verbs.iter().copied().collect();
    if !names.short_names.is_empty() {
        entry["shortNames"] = names.short_names.iter().copied().collect();
    }
    if !names.categories.is_empty() {
        entry["categories"] = names.categories.iter().copied().collect();
    }
    let subresources: Vec<Value> = definition
        .subresources
        .iter()
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or_default();
            let mut entry = Value::object();
            entry["subresource"] = sub.name.into();
            entry["responseKind"] = kind(group, version, sub.kind);
            entry["verbs"] = sub.verbs.iter().copied().collect();
            entry
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into_iter().collect();
    }
    entry
}

/// An aggregated group, as its extension API server describes it.
fn remote_group(group: &RemoteGroup) -> Value {
    let mut item = Value::object();
    item["metadata"]["name"] = group.name.as_str().into();
    let versions = group.versions.iter().map(|(version, list)| {
        let mut entry = Value::object();
        entry["version"] = version.as_str().into();
        entry["freshness"] = if list.is_null() { "Stale" } else { "Current" }.into();
        let text =
            |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
        let all = list.get("resources").items();
        let mut parts: HashMap<String, Vec<Value>> = HashMap::new();
        for part in all {
            if let Some((name, rest)) = text(part, "name").split_once('/') {
                let part = described_resource("subresource", rest, part);
                parts.entry(name.to_owned()).or_default().push(part);
            }
        }
        let plain = all.iter().filter(|own| !text(own, "name").contains('/'));
        let resources = plain.map(|own| {
            let name = text(own, "name");
            let mut entry = described_resource("resource", &name, own);
            if let Some(parts) = parts.remove(&name) {
                entry["subresources"] = parts.into_iter().collect();
            }
            entry
        });
        let resources: Vec<Value> = resources.collect();
        entry["resources"] = resources.into_iter().collect();
        entry
    });
    let versions: Vec<Value> = versions.collect();
    item["versions"] = versions.into_iter().collect();
    item
}

fn described_resource(what: &str, name: &str, own: &Value) -> Value {
    let mut entry = Value::object();
    entry[what] = name.into();
    for part in ["group", "version"] {
        entry["responseKind"][part] = own.get(part).as_str().unwrap_or_default().into();
    }
    entry["responseKind"]["kind"] = own.get("kind").clone();
    entry["verbs"] = own.get("verbs").clone();
    if what == "resource" {
        let namespaced = own.get("namespaced").as_bool().unwrap_or_default();
        entry["scope"] = if namespaced { "Namespaced" } else { "Cluster" }.into();
        entry["singularResource"] = own.get("singularName").as_str().unwrap_or_default().into();
        for name in ["shortNames", "categories"] {
            if !own.get(name).is_null() {
                entry[name] = own.get(name).clone();
            }
        }
    }
    entry
}
