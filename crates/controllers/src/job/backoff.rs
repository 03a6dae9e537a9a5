//! The back-off before a failed pod is replaced.

use api::core::{ContainerStatus, Pod};
use object::{List, Time};

const FIRST: i64 = 10;
const LAST: i64 = 600;

/// The recent failures of a Job or of an index; kept in memory only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Backoff {
    /// Failures since the last success.
    failures: u32,
    last: i64,
}

impl Backoff {
    /// Adds pods that have just finished.
    pub(super) fn with(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let since = |pod: &&&Pod| success.is_none_or(|success| finished_at(pod) > success);
        let failed: Vec<i64> = failed.iter().filter(since).map(|pod| finished_at(pod)).collect();
        let before = if success.is_some() { Self::default() } else { self };
        Self {
            failures: before
                .failures
                .saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX)),
            last: failed.into_iter().max().unwrap_or(before.last),
        }
    }

    /// The back-off of an index whose latest failed pod is `last`.
    pub(super) fn of_index(failures: i32, last: &Pod) -> Self {
        Self { failures: u32::try_from(failures).unwrap_or_default(), last: finished_at(last) }
    }

    /// The seconds left to wait.
    pub(super) fn remaining(self, now: i64) -> i64 {
        let Some(doubled) = self.failures.checked_sub(1) else { return 0 };
        let wait = FIRST.saturating_mul(1 << doubled.min(10)).min(LAST);
        // The kubelet reports when a pod finished; a time in the future counts as now.
        self.last.min(now).saturating_add(wait).saturating_sub(now).max(0)
    }
}

/// When the pod finished: by its containers, or else by its Ready condition, its deletion or its
/// creation.
pub(super) fn finished_at(pod: &Pod) -> i64 {
    let meta = pod.metadata();
    let unready = pod.status().condition("Ready").filter(|ready| ready.status() == "False");
    let unready = unready.and_then(|ready| Time::parse_seconds(ready.last_transition_time()));
    let deleted = || {
        let end = Time::parse_seconds(meta.deletion_timestamp()?)?;
        Some(end.saturating_sub(meta.deletion_grace_period_seconds().unwrap_or_default()))
    };
    by_containers(pod)
        .or(unready)
        .or_else(deleted)
        .or_else(|| Time::parse_seconds(meta.creation_timestamp()))
        .unwrap_or_default()
}

fn by_containers(pod: &Pod) -> Option<i64> {
    let ended = |all: &List<ContainerStatus>, counts: &dyn Fn(&ContainerStatus) -> bool| {
        let counted = all.iter().filter(|one| counts(one));
        counted
            .map(|one| {
                one.state().terminated().and_then(|end| Time::parse_seconds(end.finished_at()))
            })
            .collect::<Option<Vec<i64>>>()
    };
    let sidecar = |one: &ContainerStatus| {
        pod.spec().sidecars().any(|container| container.name() == one.name())
    };
    let mut times = ended(pod.status().container_statuses(), &|_| true)?;
    times.extend(ended(pod.status().init_container_statuses(), &sidecar)?);
    times.into_iter().max()
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn pod(at: i64) -> Pod {
        let text = format!(
            r#"{{"status":{{"containerStatuses":[{{"name":"c","state":{{"terminated":
            {{"exitCode":1,"finishedAt":"{}"}}}}}}]}}}}"#,
            Time::format(at)
        );
        Pod::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    #[test]
    fn each_failure_doubles_the_wait_until_one_succeeds() {
        let (a, b, c) = (pod(100), pod(105), pod(110));
        let one = Backoff::default().with(&[], &[&a]);
        assert_eq!((one.remaining(100), one.remaining(104), one.remaining(110)), (10, 6, 0));
        let more = one.with(&[], &[&c, &b]);
        assert_eq!(more.remaining(110), 40);
        assert_eq!(more.with(&[&c], &[]).remaining(110), 0);
        assert_eq!(more.with(&[&b], &[&a, &c]).remaining(110), 10, "only what failed since counts");
        assert_eq!(Backoff { failures: 90, last: 0 }.remaining(0), LAST);
        let future = Backoff::default().with(&[], &[&pod(250_000_000_000)]);
        assert_eq!(future.remaining(100), 10, "no node delays a Job by what it says of the future");
    }
}
