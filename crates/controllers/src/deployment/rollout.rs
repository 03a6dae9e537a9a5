//! Computes how many replicas each ReplicaSet may have at each step of a rollout.

use api::apps::{Deployment, ReplicaSet};

use super::revision;

/// The limits of a rollout, in pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RolloutBounds {
    pub(super) replicas: i32,
    pub(super) surge: i32,
    pub(super) unavailable: i32,
}

impl RolloutBounds {
    /// Reads the limits from the Deployment's strategy.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let replicas = deployment.spec().replicas();
        let strategy = deployment.spec().strategy();
        let rolling = strategy.rolling_update().filter(|_| strategy.type_() == "RollingUpdate");
        let Some(rolling) = rolling else { return Self { replicas, surge: 0, unavailable: 0 } };
        let surge =
            rolling.max_surge().and_then(|n| n.scaled_value(replicas, true)).unwrap_or_default();
        let unavailable = rolling.max_unavailable().and_then(|n| n.scaled_value(replicas, false));
        let mut unavailable = unavailable.unwrap_or_default();
        if surge == 0 && unavailable == 0 {
            unavailable = 1; // otherwise the rollout would never progress
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas) }
    }

    /// The maximum number of pods.
    pub(super) fn max_total(self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// The minimum number of available pods.
    pub(super) fn min_available(self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }

    /// The size that the new ReplicaSet may have now; `all` is the sum of the sizes of all
    /// ReplicaSets.
    pub(super) fn new_set_size(self, new: i32, all: i32) -> i32 {
        if new >= self.replicas {
            return self.replicas;
        }
        let room = self.max_total().saturating_sub(all);
        new.saturating_add(room.clamp(0, self.replicas.saturating_sub(new)))
    }

    /// The sizes to which old ReplicaSets may be scaled down: first their unavailable pods are
    /// removed, then as many as availability permits. `old` is sorted by age, the oldest first.
    pub(super) fn old_set_sizes(self, new: &ReplicaSet, old: &[&ReplicaSet]) -> Vec<i32> {
        let mut sizes: Vec<i32> = old.iter().map(|set| set.spec().replicas()).collect();
        let all = sum(sizes.iter().copied().chain([new.spec().replicas()]));
        let new_missing = new.spec().replicas().saturating_sub(new.status().available_replicas());
        let mut spare = all.saturating_sub(self.min_available()).saturating_sub(new_missing);
        if spare <= 0 {
            return sizes;
        }
        for (size, set) in sizes.iter_mut().zip(old) {
            let sick = size.saturating_sub(set.status().available_replicas()).clamp(0, spare);
            *size = size.saturating_sub(sick);
            spare = spare.saturating_sub(sick);
        }
        let sets = old.iter().copied().chain([new]);
        let available = sum(sets.map(|set| set.status().available_replicas()));
        let mut spare = available.saturating_sub(self.min_available()).max(0);
        for size in &mut sizes {
            let less = (*size).min(spare);
            *size = size.saturating_sub(less);
            spare = spare.saturating_sub(less);
        }
        sizes
    }
}

/// The sizes after the Deployment was scaled in the middle of a rollout: each ReplicaSet gets its
/// share. `sets` are those that have pods.
pub(super) fn proportional(bounds: RolloutBounds, sets: &[&ReplicaSet]) -> Vec<i32> {
    let sizes: Vec<i32> = sets.iter().map(|set| set.spec().replicas()).collect();
    let allowed = if bounds.replicas > 0 { bounds.max_total() } else { 0 };
    let to_add = allowed.saturating_sub(sum(sizes.iter().copied()));
    let mut order: Vec<usize> = (0..sets.len()).collect();
    let newest_first = |at: &usize| sets[*at].metadata().creation_timestamp().to_owned();
    order.sort_by_cached_key(newest_first);
    if to_add > 0 {
        order.reverse(); // scale up the newer first, scale down the older first
    }
    order.sort_by_key(|at| std::cmp::Reverse(sizes[*at])); // the largest first
    let (mut new, mut added) = (sizes.clone(), 0_i32);
    for at in &order {
        let left = to_add.saturating_sub(added);
        let share = share(bounds, sets[*at]);
        let share = if to_add > 0 { share.min(left) } else { share.max(left) };
        let share = if sizes[*at] == 0 || left == 0 { 0 } else { share };
        new[*at] = new[*at].saturating_add(share);
        added = added.saturating_add(share);
    }
    if let Some(first) = order.first() {
        new[*first] = new[*first].saturating_add(to_add).saturating_sub(added).max(0);
    }
    new
}

/// By how much a ReplicaSet grows with its Deployment.
fn share(bounds: RolloutBounds, set: &ReplicaSet) -> i32 {
    let size = set.spec().replicas();
    if bounds.replicas == 0 {
        return size.saturating_neg();
    }
    let before = revision::max_replicas(set).filter(|n| *n > 0).unwrap_or_else(|| size.max(1));
    let scaled = i64::from(size) * i64::from(bounds.max_total());
    let before = i64::from(before);
    let rounded = (scaled * 2 + before).div_euclid(before * 2);
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(size)
}

/// Adds numbers of pods, saturating: clients can write any numbers.
pub(super) fn sum(numbers: impl IntoIterator<Item = i32>) -> i32 {
    numbers.into_iter().fold(0, i32::saturating_add)
}

#[cfg(test)]
mod tests {
    use api::apps::{ReplicaSetSpec, ReplicaSetStatus};

    use super::*;

    fn set(size: i32, available: i32) -> ReplicaSet {
        ReplicaSet::new()
            .with_spec(ReplicaSetSpec::new().with_replicas(size))
            .with_status(ReplicaSetStatus::new().with_available_replicas(available))
    }

    const BOUNDS: RolloutBounds = RolloutBounds { replicas: 10, surge: 3, unavailable: 2 };

    #[test]
    fn the_newest_grows_within_the_surge() {
        for (new, all, size) in [(0, 10, 3), (3, 13, 3), (3, 11, 5), (9, 10, 10), (12, 12, 10)] {
            assert_eq!(BOUNDS.new_set_size(new, all), size, "{new} of {all}");
        }
    }

    #[test]
    fn old_ones_shrink_as_availability_allows() {
        let cases = [
            ((3, 0), vec![(10, 10)], vec![8]), // all available: two may be removed
            ((3, 0), vec![(8, 8)], vec![8]),   // eight must stay available
            ((3, 3), vec![(8, 8)], vec![5]),   // three new pods are available
            ((3, 0), vec![(10, 6)], vec![8]),  // unavailable ones first, at most two
            ((5, 5), vec![(2, 0), (6, 6)], vec![0, 3]), // unavailable ones, then the oldest
        ];
        for ((size, available), old, expected) in cases {
            let old: Vec<_> = old.into_iter().map(|(size, ok)| set(size, ok)).collect();
            let refs: Vec<_> = old.iter().collect();
            let sizes = BOUNDS.old_set_sizes(&set(size, available), &refs);
            assert_eq!(sizes, expected, "{size} new, {available} available");
        }
    }

    #[test]
    fn each_set_grows_in_proportion() {
        let mut sets = [set(8, 8), set(5, 2)];
        for set in &mut sets {
            revision::set_replicas_annotations(set, 10, 13);
        }
        let double = RolloutBounds { replicas: 20, surge: 6, unavailable: 5 };
        let refs: Vec<_> = sets.iter().collect();
        assert_eq!(proportional(double, &refs), [16, 10]);
        let none = RolloutBounds { replicas: 0, surge: 0, unavailable: 0 };
        assert_eq!(proportional(none, &refs), [0, 0]);
    }
}
