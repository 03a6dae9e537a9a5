//! Leases of the API servers' addresses, and the endpoints of the `kubernetes` Service, which are
//! derived from them.

use std::net::IpAddr;

use object::{Object, Status, Value, View};
use server::{ListOptions, Registry, Selection, ServedResource};

use crate::bootstrap::{create_if_missing, internal_context};

/// Renews the lease of the server at this address.
pub(super) async fn renew(
    registry: &Registry,
    leases: &ServedResource,
    address: IpAddr,
) -> Result<(), Status> {
    let name = address.to_string();
    let before = registry.get(leases, "", &name).ok();
    let generation = before.map_or(0, |own| Object::view(&own.object).metadata().generation());
    let mut lease = Value::object();
    lease["apiVersion"] = "v1".into();
    lease["kind"] = "Endpoints".into();
    let mut subset = Value::object();
    subset["addresses"] = [address_of(&name)].into_iter().collect();
    lease["subsets"] = [subset].into_iter().collect();
    // Upstream's servers also renew their lease by incrementing the generation.
    lease["metadata"]["generation"] = (generation + 1).into();
    registry.put_internal(leases, &name, lease).await
}

/// The addresses of all servers with a lease.
fn addresses(registry: &Registry, leases: &ServedResource) -> Result<Vec<String>, Status> {
    let list = registry.list(leases, &Selection::default(), &ListOptions::default())?;
    let ip = |lease: &Value| {
        let first = lease.get("subsets").items().first()?.get("addresses").items().first()?;
        first.get("ip").as_str().map(str::to_owned)
    };
    let mut all: Vec<_> = list.items.iter().filter_map(|version| ip(&version.object)).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Updates the Endpoints and EndpointSlice of the `kubernetes` Service. `last` permits that no
/// server is left.
pub(super) async fn reconcile(
    registry: &Registry,
    leases: &ServedResource,
    port: u16,
    last: bool,
) -> Result<(), Status> {
    let all = addresses(registry, leases)?;
    if all.is_empty() && !last {
        return Err(Status::internal(
            "no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service",
        ));
    }
    let (endpoints, slice) = (endpoints(&all, port), slice(&all, port));
    put(registry, endpoints, "", "endpoints", &["subsets"]).await?;
    put(registry, slice, "discovery.k8s.io", "endpointslices", &["endpoints", "ports"]).await
}

fn endpoints(all: &[String], port: u16) -> Value {
    let mut object = kubernetes("v1", "Endpoints");
    let labels = &mut object["metadata"]["labels"];
    labels["endpointslice.kubernetes.io/skip-mirror"] = "true".into();
    if !all.is_empty() {
        let mut subset = Value::object();
        subset["ports"] = [https(port)].into_iter().collect();
        subset["addresses"] = all.iter().map(|ip| address_of(ip)).collect();
        object["subsets"] = [subset].into_iter().collect();
    }
    object
}

fn slice(all: &[String], port: u16) -> Value {
    let mut object = kubernetes("discovery.k8s.io/v1", "EndpointSlice");
    let family = if all.iter().any(|ip| ip.contains(':')) { "IPv6" } else { "IPv4" };
    object["addressType"] = family.into();
    object["metadata"]["labels"]["kubernetes.io/service-name"] = "kubernetes".into();
    object["ports"] = [https(port)].into_iter().collect();
    let endpoint = |ip: &String| {
        let mut endpoint = Value::object();
        endpoint["addresses"] = [ip.as_str()].into_iter().collect();
        endpoint["conditions"]["ready"] = true.into();
        endpoint
    };
    object["endpoints"] = all.iter().map(endpoint).collect();
    object
}

/// An object with the name and namespace of the `kubernetes` Service.
fn kubernetes(api_version: &str, kind: &str) -> Value {
    let mut object = Value::object();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = "kubernetes".into();
    object["metadata"]["namespace"] = "default".into();
    object
}

fn https(port: u16) -> Value {
    let mut object = Value::object();
    object["name"] = "https".into();
    object["port"] = i64::from(port).into();
    object["protocol"] = "TCP".into();
    object
}

fn address_of(ip: &str) -> Value {
    let mut address = Value::object();
    address["ip"] = ip.into();
    address
}

/// Creates the object, or sets these fields if they differ.
async fn put(
    registry: &Registry,
    object: Value,
    group: &str,
    plural: &str,
    fields: &[&str],
) -> Result<(), Status> {
    let kind = registry.kind(group, plural)?;
    let key = ("default", "kubernetes");
    let Ok(found) = registry.get(&kind, key.0, key.1) else {
        return create_if_missing(registry, object).await;
    };
    let labels = |of: &Value| of.get("metadata").get("labels").clone();
    let same = |name: &&str| found.object.get(name) == object.get(name);
    if fields.iter().all(same) && labels(&found.object) == labels(&object) {
        return Ok(());
    }
    let change = |old: &store::Version<Value>| {
        let mut new = old.object.clone();
        for name in fields {
            new.remove(name);
            if !object.get(name).is_null() {
                new[*name] = object.get(name).clone();
            }
        }
        new["metadata"]["labels"] = labels(&object);
        Ok(new)
    };
    registry.guaranteed_update(&mut internal_context(), &kind, key, "", change).await.map(drop)
}
