//! The metric that tells how well the pods to delete are chosen when a ReplicaSet scales down.

use api::core::Pod;
use object::Time;
use runtime::metrics::{Family, exponential};

static AGE_RATIOS: [f64; 6] = exponential(0.25, 2.0);
pub(super) const DELETION_AGE_RATIO: Family = Family::histogram(
    "replicaset_controller_sorting_deletion_age_ratio",
    "[ALPHA] The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). \
     Should be <2. The intent of this metric is to measure the rough efficacy of the sorting (and \
     deletion) of pods when a replicaset scales down. This only considers Ready pods when \
     calculating and reporting.",
    &[],
    &AGE_RATIOS,
);

/// The age of each ready pod that is deleted, as a multiple of the age of the youngest ready one.
/// Nothing if all pods are deleted, because then they are not sorted.
pub(super) fn age_ratios<'a>(
    pods: &[Pod],
    deletes: impl Iterator<Item = &'a Pod>,
    now: i64,
) -> Vec<i64> {
    let deletes: Vec<&Pod> = deletes.collect();
    let age = |pod: &Pod| {
        let created = Time::parse_seconds(pod.metadata().creation_timestamp()).unwrap_or_default();
        (now - created.saturating_mul(1_000_000)) / 1000
    };
    let active: Vec<&Pod> = pods.iter().filter(|pod| pod.is_active()).collect();
    let youngest = active.iter().filter(|pod| pod.is_ready()).map(|pod| age(pod)).min();
    let Some(youngest) = youngest.filter(|age| *age > 0 && deletes.len() < active.len()) else {
        return Vec::new();
    };
    let ready = deletes.into_iter().filter(|pod| pod.is_ready());
    ready.map(|pod| age(pod) / youngest).collect()
}

#[cfg(test)]
mod tests {
    use api::core::{PodCondition, PodStatus};
    use object::ObjectMeta;

    use super::*;

    #[test]
    fn deleted_pods_are_compared_with_the_youngest() {
        let aged = |created: i64, ready: &str| {
            let condition = PodCondition::new().with_type("Ready").with_status(ready);
            let meta = ObjectMeta::new().with_creation_timestamp(Time::format(created));
            let status = PodStatus::new().with_conditions([condition]);
            Pod::new().with_metadata(meta).with_status(status)
        };
        let pods = [aged(40, "True"), aged(70, "True"), aged(90, "False")];
        let ratios = |deletes: &[Pod]| age_ratios(&pods, deletes.iter(), 100_000_000);
        assert_eq!(ratios(&pods[..2]), [2, 1]);
        assert!(ratios(&pods[2..]).is_empty(), "only ready pods count");
        assert!(ratios(&pods).is_empty(), "all go");
    }
}
