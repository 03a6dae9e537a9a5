//! Health checks of services for load balancers: on a service's `healthCheckNodePort` each node
//! reports how many local endpoints the service has.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ::http::StatusCode;
use tokio::task::JoinSet;

use crate::{
    ServiceName,
    health::Health,
    http::{self, Answer, JSON},
};

/// The listeners, one set for each service with a `healthCheckNodePort`.
#[derive(Debug)]
pub(crate) struct NodePortHealth {
    health: Arc<Health>,
    services: BTreeMap<ServiceName, Checked>,
}

/// A service with its health check listeners.
#[derive(Debug)]
struct Checked {
    at: Vec<SocketAddr>,
    endpoints: Arc<AtomicUsize>,
    /// Stopped when dropped.
    _listeners: JoinSet<()>,
}

impl NodePortHealth {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        Self { health, services: BTreeMap::new() }
    }

    /// Updates a service: its health check port, and how many of its endpoints are ready on this
    /// node. `None` stops the listeners.
    pub(crate) fn set(&mut self, name: &ServiceName, wanted: Option<(u16, usize)>, ips: &[IpAddr]) {
        let Some((port, endpoints)) = wanted else {
            self.services.remove(name);
            return;
        };
        let at: Vec<SocketAddr> = ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        match self.services.get(name) {
            Some(known) if known.at == at => {
                known.endpoints.store(endpoints, Ordering::Relaxed);
            }
            _ => {
                self.services.remove(name); // stops the old listeners first
                self.services.insert(name.clone(), self.listen(name, at, endpoints));
            }
        }
    }

    fn listen(&self, name: &ServiceName, at: Vec<SocketAddr>, endpoints: usize) -> Checked {
        let endpoints = Arc::new(AtomicUsize::new(endpoints));
        let mut listeners = JoinSet::new();
        for address in at.clone() {
            let (health, count, name) = (self.health.clone(), endpoints.clone(), name.clone());
            listeners.spawn(async move {
                let listener = http::bind("health checks of a service", address, false).await;
                let answer = move |_: &str| {
                    answer(&name, count.load(Ordering::Relaxed), health.is_healthy())
                };
                http::serve(listener, answer).await;
            });
        }
        Checked { at, endpoints, _listeners: listeners }
    }
}

/// The response, formatted as upstream's, including white space.
fn answer(name: &ServiceName, endpoints: usize, healthy: bool) -> Answer {
    let ServiceName { namespace, name } = name;
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{namespace}\",\n\t\t\"name\": \"{name}\"\n\t}},\n\
         \t\"localEndpoints\": {endpoints},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
    );
    let good = endpoints > 0 && healthy;
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Answer { status, weight: Some(endpoints), ..Answer::ok(JSON, body) }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn only_nodes_with_endpoints_are_healthy() {
        let name = ServiceName { namespace: "shop".to_owned(), name: "web".to_owned() };
        for (endpoints, healthy, status) in [(2, true, 200), (0, true, 503), (2, false, 503)] {
            let answer = answer(&name, endpoints, healthy);
            assert_eq!((answer.status.as_u16(), answer.weight), (status, Some(endpoints)));
            let tree = from_json(answer.body.as_bytes()).expect("json");
            assert_eq!(tree["service"]["name"].as_str(), Some("web"));
            assert_eq!(tree["localEndpoints"].as_i64(), i64::try_from(endpoints).ok());
            assert_eq!(tree["serviceProxyHealthy"].as_bool(), Some(healthy));
        }
    }
}
