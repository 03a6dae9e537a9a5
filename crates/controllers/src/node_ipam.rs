//! Node IPAM controller: allocates a podCIDR to every node from the cluster CIDR.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
};

use api::core::Node;
use client::{Error, Patch};
use object::{NamespacedName, Value};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue,
    metrics::{Family, Histogram, exponential},
};
use schema::Kind;
use tracing::error;

use crate::Config;

const LABELS: &[&str] = &["clusterCIDR"];
static TRIES: [f64; 5] = exponential(1.0, 5.0);
const ALLOCATIONS: Family = Family::counter(
    "node_ipam_controller_cidrset_cidrs_allocations_total",
    "[ALPHA] Counter measuring total number of CIDR allocations.",
    LABELS,
);
const RELEASES: Family = Family::counter(
    "node_ipam_controller_cidrset_cidrs_releases_total",
    "[ALPHA] Counter measuring total number of CIDR releases.",
    LABELS,
);
const MAX_CIDRS: Family = Family::gauge(
    "node_ipam_controller_cirdset_max_cidrs", // upstream's spelling
    "[ALPHA] Maximum number of CIDRs that can be allocated.",
    LABELS,
);
const USAGE: Family = Family::gauge(
    "node_ipam_controller_cidrset_usage_cidrs",
    "[ALPHA] Gauge measuring percentage of allocated CIDRs.",
    LABELS,
);
const ALLOCATION_TRIES: Family = Family::histogram(
    "node_ipam_controller_cidrset_allocation_tries_per_request",
    "[ALPHA] Number of endpoints added on each Service sync", // upstream's words
    LABELS,
    &TRIES,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    if config.cluster_cidr.is_empty() {
        return;
    }
    let Some(ranges) =
        CidrSet::new(&config.cluster_cidr, config.node_cidr_mask, &config.service_cidr)
    else {
        let (cidr, mask) = (&config.cluster_cidr, config.node_cidr_mask);
        error!(
            cidr,
            mask, "--cluster-cidr is not an IPv4 range that can be divided; nodes get no podCIDR"
        );
        return;
    };
    count_cidrs(cx, &config.cluster_cidr, ranges.count);
    let ipam = NodeIpam {
        tries: cx.metrics().histogram(&ALLOCATION_TRIES, &[&config.cluster_cidr]),
        nodes: cx.cached_api(),
        ranges,
        next_candidate: Mutex::default(),
        events: EventRecorder::start(cx, "cidrAllocator", ""),
    };
    // One worker: each allocation must see the previous one.
    Controller::new("nodeipam", cx, ipam).queue_named("cidrallocator_node").workers(1).start();
}

/// Counts the podCIDRs that nodes get and that are free again once their node is gone.
fn count_cidrs(cx: &Context, cluster_cidr: &str, count: u32) {
    let (max, usage) = (f64::from(count), cx.metrics().gauge(&USAGE, &[cluster_cidr]));
    cx.metrics().gauge(&MAX_CIDRS, &[cluster_cidr]).set(max);
    let allocations = cx.metrics().counter(&ALLOCATIONS, &[cluster_cidr]);
    let releases = cx.metrics().counter(&RELEASES, &[cluster_cidr]);
    cx.cache::<Node>().on_change(move |old, new| {
        let has = |node: Option<&Node>| node.is_some_and(|node| !node.spec().pod_cidr().is_empty());
        match (has(old), has(new)) {
            (false, true) => {
                allocations.add(1);
                usage.add(1.0 / max);
            }
            (true, false) => {
                releases.add(1);
                usage.add(-1.0 / max);
            }
            _ => {}
        }
    });
}

/// Reconciler of nodes without a podCIDR.
#[derive(Debug)]
struct NodeIpam {
    nodes: CachedApi<Node>,
    ranges: CidrSet,
    /// Index of the subnet to try first, so that a released podCIDR is not reused at once.
    next_candidate: Mutex<u32>,
    tries: Arc<Histogram>,
    events: EventRecorder,
}

impl Reconcile for NodeIpam {
    type Kind = Node;

    async fn reconcile(&self, key: &NamespacedName, node: Option<Node>) -> Result<Requeue, Error> {
        let Some(node) = node else { return Ok(Requeue::OnChange) };
        if !node.spec().pod_cidr().is_empty() || node.is_terminating() {
            return Ok(Requeue::OnChange);
        }
        let all = self.nodes.all();
        let taken = all.iter().map(|node| node.spec().pod_cidr().to_owned()).collect();
        let begin = *self.next_candidate.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, range)) = self.ranges.free(&taken, begin) else {
            let message = format!("Node {} status is now: CIDRNotAvailable", key.name);
            self.events.warning(&node, "CIDRNotAvailable", message);
            return Err(Error::Invalid("no range is left for the pods of a node".into()));
        };
        let mut body = Value::object();
        body["spec"]["podCIDR"] = (&*range).into();
        body["spec"]["podCIDRs"] = Value::List([Value::from(&*range)].into_iter().collect());
        let nodes = self.nodes.with_cause(&node.write_cause("a node needs addresses for its pods"));
        nodes.patch(key, &Patch::Strategic(body)).await?;
        self.tries.observe(f64::from(at.wrapping_sub(begin) % self.ranges.count));
        *self.next_candidate.lock().unwrap_or_else(PoisonError::into_inner) = at + 1;
        Ok(Requeue::OnChange)
    }
}

/// The subnets of an IPv4 CIDR.
#[derive(Debug)]
struct CidrSet {
    first: u32,
    count: u32,
    mask: u8,
    /// First and last address of a range that is not allocated.
    reserved: Option<(u32, u32)>,
}

impl CidrSet {
    fn new(cidr: &str, mask: u8, reserved: &str) -> Option<Self> {
        let (first, last, whole) = parse(cidr)?;
        if mask < whole || mask > 30 || mask - whole > 16 {
            return None;
        }
        let count = ((u64::from(last) - u64::from(first) + 1) >> (32 - mask)).try_into().ok()?;
        let reserved = parse(reserved).map(|(first, last, _)| (first, last));
        Some(Self { first, count, mask, reserved })
    }

    /// The first free subnet, starting at index `begin`.
    fn free(&self, taken: &HashSet<String>, begin: u32) -> Option<(u32, String)> {
        let all = (0..self.count).map(|step| (begin % self.count + step) % self.count);
        let mut free = all.filter_map(|at| {
            let size = 1_u32 << (32 - self.mask);
            let (first, last) = (self.first + at * size, self.first + at * size + (size - 1));
            if self.reserved.is_some_and(|(from, to)| first <= to && last >= from) {
                return None;
            }
            Some((at, format!("{}/{}", Ipv4Addr::from(first), self.mask)))
        });
        free.find(|(_, range)| !taken.contains(range))
    }
}

/// Parses a CIDR into first address, last address and prefix length.
fn parse(cidr: &str) -> Option<(u32, u32, u8)> {
    let (ip, mask) = cidr.split_once('/')?;
    let (ip, mask) = (ip.parse().ok()?, mask.parse::<u8>().ok().filter(|mask| *mask <= 32)?);
    let IpAddr::V4(ip) = ip else { return None };
    let rest = u32::MAX.checked_shr(mask.into()).unwrap_or_default();
    let first = u32::from(ip) & !rest;
    Some((first, first | rest, mask))
}

#[test]
fn ranges_are_given_once() {
    let ranges = CidrSet::new("10.244.0.0/22", 24, "10.244.1.0/24").unwrap();
    let mut taken = HashSet::new();
    let mut given = Vec::new();
    let mut turn = 3;
    while let Some((at, range)) = ranges.free(&taken, turn) {
        turn = at + 1;
        taken.insert(range.clone());
        given.push(range);
    }
    assert_eq!(given, ["10.244.3.0/24", "10.244.0.0/24", "10.244.2.0/24"]);
    assert!(CidrSet::new("10.0.0.0/24", 16, "").is_none());
    assert!(CidrSet::new("fd00::/64", 24, "").is_none());
}
