//! Metrics of the allocation of cluster IPs and node ports, with upstream's names.

use std::{net::IpAddr, sync::Arc};

use object::{Object, View};
use server::{
    CounterVec, GaugeVec, HistogramVec, ListOptions, MetricDesc, MetricsSource, Registry, Selection,
};
use tokio::time::Instant;

use super::{ServiceAllocator, ServiceCidr, addresses};

const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counters of allocations.
#[derive(Debug)]
pub(super) struct AllocatorMetrics {
    given: CounterVec,
    refused: CounterVec,
    seconds: HistogramVec,
}

/// The counters, and the numbers of allocated and available addresses and ports.
#[derive(Debug)]
pub(crate) struct AllocatorMetricsSource {
    pub(crate) registry: Arc<Registry>,
    pub(crate) services: Arc<ServiceAllocator>,
}

impl Default for AllocatorMetrics {
    fn default() -> Self {
        let labels = &["cidr", "scope"];
        let counter = |name, help| CounterVec::new(MetricDesc { name, help, labels });
        Self {
            given: counter(
                "kube_apiserver_clusterip_allocator_allocation_total",
                "Cluster IPs allocated.",
            ),
            refused: counter(
                "kube_apiserver_clusterip_allocator_allocation_errors_total",
                "Failed allocations of cluster IPs.",
            ),
            seconds: HistogramVec::new(
                MetricDesc {
                    name: "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
                    help: "Latency of cluster IP allocations in seconds.",
                    labels: &["cidr"],
                },
                SECONDS,
            ),
        }
    }
}

impl AllocatorMetrics {
    /// Counts an allocation or a failed one; `named` means that a specific address was requested.
    pub(super) fn count(&self, range: &ServiceCidr, named: bool, given: bool, began: Instant) {
        let (cidr, scope) = (range.to_string(), if named { "static" } else { "dynamic" });
        let count = if given { &self.given } else { &self.refused };
        count.count(&[&cidr, scope]);
        self.seconds.observe(&[&cidr], began.elapsed().as_secs_f64());
    }
}

impl MetricsSource for AllocatorMetricsSource {
    fn report(&self, out: &mut String) {
        let AllocatorMetrics { given, refused, seconds } = &self.services.tally;
        given.write(out);
        refused.write(out);
        seconds.write(out);
        let gauge = |name, help, labels| GaugeVec::new(MetricDesc { name, help, labels });
        let taken = gauge(
            "kube_apiserver_clusterip_allocator_allocated_ips",
            "Number of allocated cluster IPs.",
            &["cidr"],
        );
        let free = gauge(
            "kube_apiserver_clusterip_allocator_available_ips",
            "Number of free cluster IPs.",
            &["cidr"],
        );
        let given = self.given();
        for range in addresses::ranges(&self.registry, true).unwrap_or_default() {
            let own = given.iter().filter(|ip| range.contains(**ip)).count();
            let (cidr, left) = (range.to_string(), range.usable().saturating_sub(own as u128));
            taken.set(&[&cidr], number(own));
            free.set(&[&cidr], number(usize::try_from(left).unwrap_or(usize::MAX)));
        }
        let ports = &self.services.ports;
        let own = ports.stored().map_or(0, |stored| stored.map.taken().count());
        let taken_ports = gauge(
            "kube_apiserver_nodeport_allocator_allocated_ports",
            "Number of allocated node ports.",
            &[],
        );
        taken_ports.set(&[], number(own));
        let free_ports = gauge(
            "kube_apiserver_nodeport_allocator_available_ports",
            "Number of free node ports.",
            &[],
        );
        free_ports.set(&[], number(ports.range.clone().count().saturating_sub(own)));
        for gauge in [taken, free, taken_ports, free_ports] {
            gauge.write(out);
        }
    }
}

impl AllocatorMetricsSource {
    fn given(&self) -> Vec<IpAddr> {
        let Ok(kind) = self.registry.kind("networking.k8s.io", "ipaddresses") else {
            return Vec::new();
        };
        let all = self.registry.list(&kind, &Selection::default(), &ListOptions::default());
        let all = all.map(|list| list.items).unwrap_or_default();
        let name = |object| Object::view(object).metadata().name().parse().ok();
        all.iter().filter_map(|version| name(&version.object)).collect()
    }
}

/// Converts a number; larger ones than `u32::MAX` are reported as that.
fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
