//! Connections to etcd, and to the etcd clusters of single resources (`--etcd-servers-overrides`).

use std::{
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use object::{Clock, Value};
use store::{Engine, EtcdConfig, EtcdEngine, RoutedEngine};
use tracing::warn;

use crate::Config;

/// Interval between attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);
const FLAG: &str = "--etcd-servers-overrides";

/// Connects to etcd, waiting for it up to the initialization timeout.
pub(crate) fn connect(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine<Value>>> {
    let remote = config.etcd()?;
    let until = Instant::now() + config.flags.storage.initialization_timeout()?;
    let connect = |remote: &EtcdConfig| -> Result<Arc<dyn Engine<Value>>> {
        loop {
            match EtcdEngine::connect(remote, clock.clone()) {
                Ok(engine) => return Ok(Arc::new(engine)),
                Err(error) if Instant::now() >= until => return Err(error.into()),
                Err(error) => warn!(%error, "waiting for etcd"),
            }
            thread::sleep(AGAIN);
        }
    };
    let rest = connect(&remote)?;
    if config.flags.etcd_servers_overrides.is_empty() {
        return Ok(rest);
    }
    let kinds = config.kinds();
    let (mut apart, mut known) = (Vec::new(), HashMap::new());
    for said in &config.flags.etcd_servers_overrides {
        let (group, resource, servers) = parse(said)?;
        let kind = kinds.iter().find(|kind| {
            kind.names.group == group && kind.names.plural == resource && kind.is_stored()
        });
        let Some(kind) = kind else { bail!("{FLAG} {said}: there is no such resource") };
        let mut endpoints: Vec<_> = servers.iter().map(|server| (*server).to_owned()).collect();
        endpoints.sort_unstable();
        let engine = match known.get(&endpoints) {
            Some(engine) => Arc::clone(engine),
            None => connect(&EtcdConfig { endpoints: endpoints.clone(), ..remote.clone() })?,
        };
        known.insert(endpoints, engine.clone());
        apart.push((format!("/registry/{}/", kind.storage.prefix), engine));
    }
    Ok(Arc::new(RoutedEngine::new(rest, apart)))
}

/// Parses `group/resource#url;url` into group, resource and servers.
fn parse(said: &str) -> Result<(&str, &str, Vec<&str>)> {
    let parts = said.split_once('#').and_then(|(resource, servers)| {
        let (group, resource) = resource.split_once('/')?;
        let servers: Vec<_> = servers.split(';').collect();
        let whole = !resource.contains('/') && servers.iter().all(|server| !server.is_empty());
        whole.then_some((group, resource, servers))
    });
    match parts {
        Some(parts) if !said[said.find('#').unwrap_or_default() + 1..].contains('#') => Ok(parts),
        _ => bail!(
            "{FLAG} invalid, must be of format: group/resource#servers, where servers are URLs, \
             semicolon separated"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_and_its_servers() {
        let parsed = parse("/events#http://a:1;http://b:2").unwrap();
        assert_eq!(parsed, ("", "events", vec!["http://a:1", "http://b:2"]));
        assert_eq!(parse("apps/deployments#u").unwrap(), ("apps", "deployments", vec!["u"]));
        for wrong in ["", "events#u", "/events", "/events#", "/events#u;", "a/b/c#u", "/a#u#v"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
