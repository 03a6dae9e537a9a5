//! Handles a pod that fits no node: records the reasons and preempts other pods.

use api::core::{Pod, PodCondition};
use client::{Error, Patch};
use object::{Clock, NamespacedName, SystemClock, Text, Time, Value};
use schema::Kind;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::{PreemptionCandidate, Unschedulable, scheduling_loop::Scheduler};

impl Scheduler {
    pub(crate) async fn handle_failure(
        &self,
        pod: &Pod,
        none: &Unschedulable,
        room: Result<PreemptionCandidate, String>,
    ) {
        let message = failure_message(none, &room);
        let nominated = room.as_ref().map_or("", |sacrifice| &sacrifice.node);
        self.events.warning(pod, "FailedScheduling", message.clone());
        let by_node = none.by_node();
        let recorded = self.state().queue.recorded_reasons(pod.metadata().uid());
        match self.patch_unschedulable_status(pod, &message, nominated, (&by_node, recorded)).await
        {
            Ok(()) => self.state().queue.record_reasons(pod.metadata().uid(), digest(&by_node)),
            Err(error) => {
                debug!(pod = %NamespacedName::from_meta(pod.metadata()), %error, "cannot update the status of an unschedulable pod");
            }
        }
        // Only after the status is written: the next attempt reads it.
        self.state().queue.requeue_failed(&pod.metadata().uid().into(), true, Instant::now());
        if let Ok(sacrifice) = &room {
            for victim in &sacrifice.victims {
                if let Err(error) = self.preempt_victim(pod, &victim.pod, &sacrifice.node).await {
                    warn!(victim = %NamespacedName::from_meta(victim.pod.metadata()), %error, "cannot preempt");
                }
            }
        }
        self.wake.notify_one();
    }

    async fn preempt_victim(&self, pod: &Pod, victim: &Pod, node: &str) -> Result<(), Error> {
        if victim.metadata().is_terminating() {
            return Ok(());
        }
        let why = format!(
            "{}: preempting to accommodate a higher priority pod",
            self.config.scheduler_name
        );
        let condition = condition("DisruptionTarget", "True", "PreemptionByScheduler", &why);
        let condition = condition.with_observed_generation(victim.metadata().generation());
        let pods = self.pods.with_cause(&pod.write_cause("more important than this pod"));
        let key = NamespacedName::from_meta(victim.metadata());
        match pods.patch_status(&key, &status_patch(victim, condition)).await {
            Err(error) if error.is_not_found() => return Ok(()),
            patched => patched.map(drop)?,
        }
        pods.delete(victim).await?;
        let uid = pod.metadata().uid();
        self.events.normal(victim, "Preempted", format!("Preempted by pod {uid} on node {node}"));
        Ok(())
    }

    /// Sets the condition PodScheduled=False and nominatedNodeName. The reasons of each node are attached to the write
    /// as its cause, which `tiphys why` shows; `recorded` is the digest of those that were attached last.
    async fn patch_unschedulable_status(
        &self,
        pod: &Pod,
        message: &str,
        node: &str,
        (by_node, recorded): (&str, Option<u64>),
    ) -> Result<(), Error> {
        let old = pod.status().condition("PodScheduled");
        let is = |old: &PodCondition| {
            old.status() == "False" && old.reason() == "Unschedulable" && old.message() == message
        };
        let nominated = pod.status().nominated_node_name();
        let same = old.is_some_and(is) && nominated == node;
        if same && recorded == Some(digest(by_node)) {
            return Ok(());
        }
        let mut condition = condition("PodScheduled", "False", "Unschedulable", message)
            .with_observed_generation(pod.metadata().generation());
        if same {
            // The message is the same but other nodes have these reasons now. Only a changed status is written.
            condition.set_last_probe_time(Time::format(SystemClock.now()));
        }
        if let Some(old) = old.filter(|old| old.status() == "False") {
            condition.set_last_transition_time(old.last_transition_time());
        }
        let mut patch = status_patch(pod, condition);
        if nominated != node
            && let Patch::Strategic(body) = &mut patch
        {
            let named = if node.is_empty() { Value::Null } else { node.into() };
            body["status"]["nominatedNodeName"] = named;
        }
        let pods = self.pods.with_cause(&pod.write_cause(&format!("no node will do: {by_node}")));
        pods.patch_status(&NamespacedName::from_meta(pod.metadata()), &patch).await.map(drop)
    }
}

/// A hash of the reasons of all nodes, to see whether they have changed.
fn digest(by_node: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    by_node.hash(&mut hasher);
    hasher.finish()
}

/// Message of the condition and the event of an unschedulable pod.
fn failure_message(none: &Unschedulable, room: &Result<PreemptionCandidate, String>) -> String {
    if none.nodes == 0 {
        return none.to_string();
    }
    match room {
        Ok(PreemptionCandidate { node, victims, .. }) => format!(
            "{none} preemption: found a potential placement for pod on node {node}, preempting {} \
             victims",
            victims.len()
        ),
        Err(why) => format!("{none} preemption: {why}"),
    }
}

fn condition(name: &str, status: &str, reason: &str, message: &str) -> PodCondition {
    PodCondition::new()
        .with_type(name)
        .with_status(status)
        .with_last_transition_time(Time::format(SystemClock.now()))
        .with_reason(reason)
        .with_message(message)
}

/// Sets one condition of the pod with this uid.
fn status_patch(pod: &Pod, condition: PodCondition) -> Patch {
    let mut body = Value::object();
    body["metadata"]["uid"] = Text::from(pod.metadata().uid()).into();
    body["status"]["conditions"] = Value::List([condition.into()].into_iter().collect());
    Patch::Strategic(body)
}

#[test]
fn messages_equal_those_of_upstream() {
    let mut none = Unschedulable { nodes: 3, ..Unschedulable::default() };
    none.add_reason("Insufficient cpu", 1);
    none.add_reason("node(s) had untolerated taint(s)", 2);
    let why = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(
        failure_message(&none, &Err(why.into())),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    let none = Unschedulable::default();
    assert_eq!(failure_message(&none, &Err(why.into())), "no nodes available to schedule pods");
}
