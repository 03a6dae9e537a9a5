//! Counts endpoints and slices for the metrics of this controller and of the mirroring controller.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use api::discovery::{Endpoint, EndpointSlice};
use object::NamespacedName;
use runtime::Step;

use super::Action;

/// What one sync changes, and what there is after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SyncCounts {
    pub(crate) added: usize,
    pub(crate) updated: usize,
    pub(crate) removed: usize,
    pub(crate) after: SliceCounts,
}

/// Endpoints and slices of one Service, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SliceCounts {
    pub(crate) endpoints: usize,
    pub(crate) slices: usize,
    /// Number of slices that would suffice.
    pub(crate) desired_slices: usize,
}

/// Compares the slices before a sync with those after its steps; `most` is the maximum number of
/// endpoints of a slice.
pub(crate) fn count(before: &[EndpointSlice], steps: &[Step<Action>], most: usize) -> SyncCounts {
    let mut touched = HashSet::new();
    let mut after: Vec<&EndpointSlice> = Vec::new();
    for Step { action, .. } in steps {
        match action {
            Action::Create(slice) => after.push(slice),
            Action::Update(slice) => {
                touched.insert(slice.metadata().name());
                after.push(slice);
            }
            Action::Delete(slice) => drop(touched.insert(slice.metadata().name())),
        }
    }
    after.extend(before.iter().filter(|slice| !touched.contains(slice.metadata().name())));
    let old: HashMap<_, _> = before
        .iter()
        .flat_map(|slice| slice.endpoints().iter())
        .map(|one| (id(one), one))
        .collect();
    let new: HashMap<_, _> =
        after.iter().flat_map(|slice| slice.endpoints().iter()).map(|one| (id(one), one)).collect();
    let changed = |(id, one): &(&(_, _), &&Endpoint)| old.get(*id).is_some_and(|old| old != *one);
    SyncCounts {
        added: new.keys().filter(|id| !old.contains_key(*id)).count(),
        updated: new.iter().filter(changed).count(),
        removed: old.keys().filter(|id| !new.contains_key(*id)).count(),
        after: SliceCounts::of(&after, most),
    }
}

/// Address and pod of an endpoint: other fields may change without making it another one.
fn id(endpoint: &Endpoint) -> (&str, &str) {
    let address = endpoint.addresses().iter().next().unwrap_or_default();
    (address, endpoint.target_ref().map_or("", api::core::ObjectReference::uid))
}

impl SliceCounts {
    fn of(slices: &[&EndpointSlice], most: usize) -> Self {
        let mut by_ports: Vec<(&EndpointSlice, usize)> = Vec::new();
        for slice in slices {
            let same = |own: &EndpointSlice| {
                own.address_type() == slice.address_type()
                    && own.ports().iter().eq(slice.ports().iter())
            };
            let more = slice.endpoints().len();
            match by_ports.iter_mut().find(|(own, _)| same(own)) {
                Some((_, count)) => *count += more,
                None => by_ports.push((slice, more)),
            }
        }
        let desired: usize = by_ports.iter().map(|(_, count)| count.div_ceil(most.max(1))).sum();
        Self {
            endpoints: by_ports.iter().map(|(_, count)| count).sum(),
            slices: slices.len(),
            desired_slices: desired.max(1), // there is always a placeholder
        }
    }
}

/// The counts of every Service.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounts(Mutex<HashMap<NamespacedName, (SliceCounts, String)>>);

impl ServiceCounts {
    /// Sets the counts and the `trafficDistribution` of a Service.
    pub(crate) fn set(&self, key: &NamespacedName, counts: SliceCounts, distribution: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), (counts, distribution.to_owned()));
    }

    pub(crate) fn forget(&self, key: &NamespacedName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// The counts of all, and the number of Services by `trafficDistribution`.
    pub(crate) fn sum(&self) -> (SliceCounts, HashMap<String, usize>) {
        let (mut sum, mut distributions) = (SliceCounts::default(), HashMap::new());
        for (counts, distribution) in self.0.lock().unwrap_or_else(PoisonError::into_inner).values()
        {
            sum.endpoints += counts.endpoints;
            sum.slices += counts.slices;
            sum.desired_slices += counts.desired_slices;
            if !distribution.is_empty() {
                *distributions.entry(distribution.clone()).or_default() += 1;
            }
        }
        (sum, distributions)
    }
}
