//! Flags for leader election, shared by the scheduler and the controller manager.

use std::{sync::Arc, time::Duration};

use clap::{ArgAction, Args};
use object::Value;
use runtime::{Context, LeaderElector};

use super::{duration, election_identity};

#[derive(Args)]
pub(super) struct LeaderElectionFlags {
    /// Only one of several runs.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    leader_elect: bool,
    /// Without a sign of life for that long, another takes over.
    #[arg(long, default_value = "15s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// One that could not renew for that long gives up.
    #[arg(long, default_value = "10s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// How often to try.
    #[arg(long, default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// The lease's namespace.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
    /// The lease's name; the component's own.
    #[arg(long)]
    leader_elect_resource_name: Option<String>,
}

impl LeaderElectionFlags {
    /// The `leaderElection` section of the component's configuration, for `/configz`.
    pub(super) fn configuration(&self, component: &str) -> Value {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(component);
        let long = |time: Duration| -> Value {
            object::Duration::format_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
                .into()
        };
        let mut own = Value::object();
        own["leaderElect"] = self.leader_elect.into();
        own["leaseDuration"] = long(self.leader_elect_lease_duration);
        own["renewDeadline"] = long(self.leader_elect_renew_deadline);
        own["retryPeriod"] = long(self.leader_elect_retry_period);
        own["resourceLock"] = "leases".into();
        own["resourceName"] = name.into();
        own["resourceNamespace"] = (&*self.leader_elect_resource_namespace).into();
        own
    }

    /// The leader election of a component; `None` if `--leader-elect` is off.
    pub(super) fn election(&self, component: &str) -> Option<LeaderElector> {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(component);
        let election = LeaderElector {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaderElector::new(&self.leader_elect_resource_namespace, name, &election_identity())
        };
        self.leader_elect.then_some(election)
    }
}

/// Calls `start` at once, or each time the leader election is won if there is one.
pub(crate) fn start_when_elected(
    cx: &Context,
    election: Option<LeaderElector>,
    start: impl Fn(&Context) + Send + Sync + 'static,
) {
    let Some(election) = election else { return start(cx) };
    let (candidate, start) = (cx.clone(), Arc::new(start));
    cx.keep("election", move || {
        let (candidate, election, start) = (candidate.clone(), election.clone(), start.clone());
        async move {
            while !candidate.is_stopping() {
                election.clone().run(&candidate, &*start).await;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Only {
        #[command(flatten)]
        election: LeaderElectionFlags,
    }

    fn election(words: &[&str]) -> Option<LeaderElector> {
        Only::parse_from(words).election.election("component")
    }

    #[test]
    fn flags_become_the_election() {
        let own = election(&[
            "--leader-elect-lease-duration=30s",
            "--leader-elect-renew-deadline=20s",
            "--leader-elect-retry-period=5s",
            "--leader-elect-resource-namespace=ns",
            "--leader-elect-resource-name=lease",
        ]);
        let own = own.expect("one is held unless told otherwise");
        let seconds =
            [own.lease_duration, own.renew_deadline, own.retry_period].map(|it| it.as_secs());
        assert_eq!((seconds, own.key.to_string()), ([30, 20, 5], "ns/lease".to_owned()));
        let usual = election(&["--leader-elect"]).expect("asked for");
        assert_eq!(usual.key.to_string(), "kube-system/component");
        assert!(election(&["--leader-elect=false"]).is_none());
    }
}
