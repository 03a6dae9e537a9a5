//! Repair of node ports: the allocated ports must be those of the Services.

use std::{collections::HashMap, ops::RangeInclusive};

use api::core::{Service, ServicePort};
use object::{Status, View};
use server::{ListOptions, Registry, Selection};
use tracing::warn;

use super::{super::ports, NodePorts, events};
use crate::service_allocator::bitmap::Bitmap;

/// How often a port must have been seen without a Service before it is released, because a write
/// may be in progress.
const SEEN: u8 = 3;
const TRIES: usize = 8;
const WHO: &str = "portallocator-repair-controller";

/// A problem with a port of a Service: the Service, and the reason and note of the event.
type Wrong<'a> = (&'a Service, &'static str, String);

/// Rebuilds the bitmap, and records events about problems.
pub(super) async fn repair(
    registry: &Registry,
    node_ports: &NodePorts,
    leaks: &mut HashMap<usize, u8>,
) -> Result<(), Status> {
    let kind = registry.kind("", "services")?;
    for _ in 0..TRIES {
        // The bitmap is read before the Services: a port that is allocated later cannot look
        // leaked, and makes the replace conflict.
        let mut stored = node_ports.stored()?;
        let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
        let services: Vec<_> = list.items.iter().map(|own| Service::view(&own.object)).collect();
        let range = &node_ports.range;
        let (known, before) = (stored.range == ports::text(range), stored.clone());
        let old = if known { stored.map } else { Bitmap::default() };
        let mut left = leaks.clone();
        let (map, wrong) = rebuilt(range, &old, &services, &mut left);
        stored.map = map;
        stored.range = ports::text(range);
        if stored != before && !node_ports.replace(registry, &stored).await? {
            continue; // another write changed the bitmap meanwhile
        }
        *leaks = left;
        for (service, reason, note) in wrong {
            let about = events::EventSubject::service(service);
            events::warn(registry, about, (WHO, reason, "PortAllocation"), &note).await;
        }
        return Ok(());
    }
    Err(Status::unavailable("node ports: other servers were faster too often"))
}

/// The new bitmap, from the ports of the Services and the old bitmap, and the problems.
fn rebuilt<'a>(
    range: &RangeInclusive<i32>,
    old: &Bitmap,
    services: &[&'a Service],
    leaks: &mut HashMap<usize, u8>,
) -> (Bitmap, Vec<Wrong<'a>>) {
    let (mut map, mut stored, mut wrong) = (Bitmap::default(), old.clone(), Vec::new());
    for service in services {
        for port in ports_of(service) {
            let Some(place) = ports::place(range, port) else {
                let range = ports::text(range);
                let note = format!(
                    "Port {port} is not within the port range {range}; please recreate service"
                );
                wrong.push((*service, "PortOutOfRange", note));
                continue;
            };
            if map.has(place) {
                let note = format!(
                    "Port {port} was assigned to multiple services; please recreate service"
                );
                wrong.push((*service, "PortAlreadyAllocated", note));
                continue;
            }
            map.set(place, true);
            leaks.remove(&place);
            if stored.has(place) {
                stored.set(place, false);
            } else {
                let note = format!("Port {port} is not allocated; repairing");
                wrong.push((*service, "PortNotAllocated", note));
            }
        }
    }
    for place in stored.taken() {
        let left = leaks.entry(place).or_insert(SEEN);
        *left = left.saturating_sub(1);
        if *left == 0 {
            warn!(place, "released a node port that no Service uses");
            leaks.remove(&place);
        } else {
            map.set(place, true);
        }
    }
    (map, wrong)
}

/// The node ports of a Service. A port that several protocols share counts once; one that occurs
/// twice with one protocol counts twice.
fn ports_of(service: &Service) -> Vec<i32> {
    let mut seen: Vec<(i32, &str)> = Vec::new();
    let mut all = Vec::new();
    let spec = service.spec();
    let given = spec.ports().iter().map(|port: &ServicePort| (port.node_port(), port.protocol()));
    for (port, protocol) in given.filter(|(port, _)| *port != 0) {
        let known = seen.iter().any(|(own, _)| *own == port);
        if !known || seen.contains(&(port, protocol)) {
            all.push(port);
        }
        seen.push((port, protocol));
    }
    let health = spec.health_check_node_port();
    let other = seen.iter().any(|(own, _)| *own == health);
    if health != 0 && (!other || seen.contains(&(health, "TCP"))) {
        all.push(health);
    }
    all
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn service(name: &str, ports: &str) -> Service {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{ports}]}}}}"#);
        Service::from(from_json(text.as_bytes()).unwrap())
    }

    fn map(places: &[usize]) -> Bitmap {
        let mut map = Bitmap::default();
        places.iter().for_each(|place| map.set(*place, true));
        map
    }

    #[test]
    fn what_is_wrong_is_told() {
        let range = 30_000..=30_099;
        let one = service(
            "a",
            r#"{"nodePort":30001,"protocol":"TCP"},{"nodePort":30001,"protocol":"UDP"}"#,
        );
        let two = service("b", r#"{"nodePort":30001},{"nodePort":9},{"nodePort":30002}"#);
        let (now, wrong) = rebuilt(&range, &map(&[1]), &[&one, &two], &mut HashMap::new());
        assert_eq!(now, map(&[1, 2]));
        let reasons: Vec<_> =
            wrong.iter().map(|(own, why, _)| (own.metadata().name(), *why)).collect();
        assert_eq!(
            reasons,
            [("b", "PortAlreadyAllocated"), ("b", "PortOutOfRange"), ("b", "PortNotAllocated")]
        );
    }

    #[test]
    fn what_nobody_has_is_free_when_that_was_seen_often_enough() {
        let (range, mut leaks) = (30_000..=30_099, HashMap::new());
        let mut now = map(&[5]);
        for _ in 1..SEEN {
            now = rebuilt(&range, &now, &[], &mut leaks).0;
            assert_eq!(now, map(&[5]));
        }
        assert_eq!(rebuilt(&range, &now, &[], &mut leaks).0, map(&[]));
        let mut leaks = HashMap::from([(5, 1)]);
        let own = service("a", r#"{"nodePort":30005}"#);
        assert_eq!(rebuilt(&range, &map(&[5]), &[&own], &mut leaks).0, map(&[5]));
        assert!(leaks.is_empty(), "somebody has it");
    }
}
