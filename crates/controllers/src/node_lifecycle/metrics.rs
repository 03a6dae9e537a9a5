//! Metrics of the node lifecycle controller, under upstream's names.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::core::Node;
use runtime::{
    Cache, Context,
    metrics::{Family, Histogram, Metrics, exponential},
};

use super::zones;

/// From 1 ms to 15 s.
static UPDATE_SECONDS: [f64; 8] = exponential(0.001, 4.0);

const ZONE_HEALTH: Family = Family::gauge(
    "node_collector_zone_health",
    "[ALPHA] Gauge measuring percentage of healthy nodes per zone.",
    &["zone"],
);
const ZONE_SIZE: Family = Family::gauge(
    "node_collector_zone_size",
    "[ALPHA] Gauge measuring number of registered Nodes per zones.",
    &["zone"],
);
const UNHEALTHY_NODES: Family = Family::gauge(
    "node_collector_unhealthy_nodes_in_zone",
    "[ALPHA] Gauge measuring number of not Ready Nodes per zones.",
    &["zone"],
);
const EVICTIONS: Family = Family::counter(
    "node_collector_evictions_total",
    "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
    &["zone"],
);
const UPDATE_DURATION: Family = Family::histogram(
    "node_collector_update_node_health_duration_seconds",
    "[ALPHA] Duration in seconds for NodeController to update the health of a single node.",
    &[],
    &UPDATE_SECONDS,
);

/// Counts what the node lifecycle controller does.
#[derive(Debug)]
pub(super) struct NodeMetrics {
    metrics: Metrics,
    updates: Arc<Histogram>,
    /// Held so that the zones are reported as long as the controller runs.
    _nodes: Arc<Cache<Node>>,
}

impl NodeMetrics {
    pub(super) fn start(cx: &Context) -> Self {
        let (metrics, nodes) = (cx.metrics().clone(), cx.cache::<Node>());
        metrics.on_read(&nodes, |nodes, metrics| report_zones(&nodes.all(), metrics));
        Self { updates: metrics.histogram(&UPDATE_DURATION, &[]), metrics, _nodes: nodes }
    }

    /// Records that the health of a node was updated.
    pub(super) fn updated_health(&self, took: Duration) {
        self.updates.observe_duration(took);
    }

    /// Records that a node of the zone got a NoExecute taint.
    pub(super) fn evicted(&self, node: &Node) {
        self.metrics.counter(&EVICTIONS, &[&zone_label(node)]).add(1);
    }
}

fn report_zones(nodes: &[Node], metrics: &Metrics) {
    let mut zones = BTreeMap::<String, (u32, u32)>::new();
    for node in nodes.iter().filter(|node| zones::counts_for_zone(node)) {
        let (size, unhealthy) = zones.entry(zone_label(node)).or_default();
        *size += 1;
        *unhealthy += u32::from(!node.is_ready());
    }
    for family in [&ZONE_HEALTH, &ZONE_SIZE, &UNHEALTHY_NODES] {
        metrics.clear(family);
    }
    for (zone, (size, unhealthy)) in zones {
        let (size, unhealthy) = (f64::from(size), f64::from(unhealthy));
        metrics.gauge(&ZONE_SIZE, &[&zone]).set(size);
        metrics.gauge(&UNHEALTHY_NODES, &[&zone]).set(unhealthy);
        metrics.gauge(&ZONE_HEALTH, &[&zone]).set(100.0 * (size - unhealthy) / size);
        metrics.counter(&EVICTIONS, &[&zone]).add(0);
    }
}

/// The zone as upstream's metrics name it; empty if the node has neither region nor zone.
fn zone_label(node: &Node) -> String {
    match zones::region_and_zone(node) {
        ("", "") => String::new(),
        (region, zone) => format!("{region}:\0:{zone}"),
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn zones_are_reported_by_health() {
        let node = |zone: &str, ready: &str| {
            let text = format!(
                r#"{{"metadata":{{"labels":{{"topology.kubernetes.io/zone":"{zone}"}}}},
                "status":{{"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
            );
            Node::from(from_json(text.as_bytes()).unwrap())
        };
        let nodes = [node("a", "True"), node("a", "Unknown"), node("a", "True"), node("", "False")];
        let metrics = Metrics::default();
        report_zones(&nodes, &metrics);
        report_zones(&nodes[..1], &metrics);
        let text = |metrics: &Metrics| {
            let mut text = String::new();
            metrics.write(&mut text);
            text
        };
        assert!(text(&metrics).contains("node_collector_zone_size{zone=\":\0:a\"} 1\n"));
        assert!(!text(&metrics).contains("zone_health{zone=\"\"}"), "its nodes are gone");
        report_zones(&nodes, &metrics);
        let text = text(&metrics);
        assert!(text.contains("node_collector_zone_health{zone=\":\0:a\"} 66.6"), "{text}");
        assert!(text.contains("node_collector_unhealthy_nodes_in_zone{zone=\"\"} 1\n"), "{text}");
        assert!(text.contains("node_collector_evictions_total{zone=\"\"} 0\n"), "{text}");
    }
}
