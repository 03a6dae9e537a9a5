//! Integration tests of the API server as its clients see it: real requests through every filter.

mod admission;
mod aggregation;
mod allocation;
mod anonymous;
mod audit;
mod authorization;
mod authorized_scope;
mod backend;
mod cbor;
mod connection_flags;
mod connections;
mod containment;
mod costly;
mod crds;
mod deletion;
mod depth;
mod egress;
mod external_signer;
mod fairness;
mod flags;
mod flow;
mod grpc;
mod hostile_aggregated;
mod hostile_backend;
mod hostile_names;
mod hostile_webhooks;
mod identity;
mod identity_headers;
mod lacking;
mod limits;
mod lists;
mod manifests;
mod matching;
mod node_isolation;
mod objects;
mod oidc;
mod peers;
mod plugins;
mod policies;
mod policy_walks;
mod proxy_targets;
mod restart;
mod rotation;
mod token_flags;
mod traces;
mod unauthenticated;
mod unread;
mod unreadable;
mod watches;
mod ways_in;
mod webhooks;
mod whole_flags;

use client::{Api, ApiResource, Client, Error};
use object::{Object, Value, View, from_json};
use schema::Kind;

pub(crate) fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written in a test")
}

/// A client for the objects of a kind in the namespace `default`, as untyped values.
pub(crate) fn of<K: Kind>(client: &Client) -> Api<Value> {
    let api = Api::<Value>::for_resource(client, ApiResource::of::<K>());
    if api.resource().namespaced { api.namespaced("default") } else { api }
}

pub(crate) fn config_map(name: &str) -> Value {
    tree(&format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#))
}

pub(crate) fn labelled(name: &str, label: &str) -> Value {
    tree(&format!(r#"{{"metadata":{{"name":"{name}","labels":{{"app":"{label}"}}}}}}"#))
}

/// A pod on a node, or an unscheduled one if `node` is empty.
pub(crate) fn pod(name: &str, node: &str) -> Value {
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","serviceAccountName":"default",
        "containers":[{{"name":"c","image":"i"}}]}}}}"#
    ))
}

/// Creates the service account `default`, which pods need and a controller would otherwise create.
pub(crate) async fn default_account(admin: &Client) {
    let account = tree(r#"{"metadata":{"name":"default"}}"#);
    of::<api::core::ServiceAccount>(admin).create(account).await.expect("it is new");
}

pub(crate) fn name(object: &Value) -> &str {
    Object::view(object).metadata().name()
}

pub(crate) fn revision(object: &Value) -> u64 {
    Object::view(object).metadata().resource_version().parse().expect("a number")
}

#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> i32 {
    result.expect_err("must be refused").status().expect("the server's own words").code()
}

#[track_caller]
pub(crate) fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let refused = result.expect_err("must be refused");
    refused.status().expect("the server's own words").message().to_owned()
}
