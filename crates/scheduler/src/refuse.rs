//! What follows where no node will do: others may have to go, and people are told why.

use api::core::{Pod, PodCondition};
use client::{Error, Patch};
use object::{Clock, Key, SystemClock, Text, Time, Value};
use schema::Kind;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::{Sacrifice, Unschedulable, place::Scheduler};

impl Scheduler {
    pub(crate) async fn refuse(
        &self,
        pod: &Pod,
        none: &Unschedulable,
        room: Result<Sacrifice, String>,
    ) {
        let message = message(none, &room);
        let nominated = room.as_ref().map_or("", |sacrifice| &sacrifice.node);
        self.events.warning(pod, "FailedScheduling", message.clone());
        let by_node = none.by_node();
        let told = self.state().waiting.told(pod.metadata().uid());
        match self.say_why(pod, &message, nominated, (&by_node, told)).await {
            Ok(()) => self.state().waiting.tell(pod.metadata().uid(), digest(&by_node)),
            Err(error) => {
                debug!(pod = %Key::of(pod.metadata()), %error, "cannot say why it is not scheduled");
            }
        }
        // Not before it is said: the pod is to be tried with its new status.
        self.state().waiting.failed(&pod.metadata().uid().into(), true, Instant::now());
        if let Ok(sacrifice) = &room {
            for victim in &sacrifice.victims {
                if let Err(error) = self.evict(pod, &victim.pod, &sacrifice.node).await {
                    warn!(victim = %Key::of(victim.pod.metadata()), %error, "cannot preempt");
                }
            }
        }
        self.wake.notify_one();
    }

    async fn evict(&self, pod: &Pod, victim: &Pod, node: &str) -> Result<(), Error> {
        if victim.metadata().is_terminating() {
            return Ok(());
        }
        let why = format!("{}: preempting to accommodate a higher priority pod", self.config.name);
        let condition = condition("DisruptionTarget", "True", "PreemptionByScheduler", &why);
        let condition = condition.with_observed_generation(victim.metadata().generation());
        let pods = self.pods.because(&pod.causes("more important than this pod"));
        let key = Key::of(victim.metadata());
        match pods.patch_status(&key, &status_patch(victim, condition)).await {
            Err(error) if error.is_not_found() => return Ok(()),
            patched => patched.map(drop)?,
        }
        pods.delete(victim).await?;
        let uid = pod.metadata().uid();
        self.events.normal(victim, "Preempted", format!("Preempted by pod {uid} on node {node}"));
        Ok(())
    }

    /// Notes in the status that no node will do now, and where there will be room. The reasons of each node are the
    /// cause of that write, which `tiphys why` shows; `told` is the digest of those that are known already.
    async fn say_why(
        &self,
        pod: &Pod,
        message: &str,
        node: &str,
        (by_node, told): (&str, Option<u64>),
    ) -> Result<(), Error> {
        let old = pod.status().condition("PodScheduled");
        let is = |old: &PodCondition| {
            old.status() == "False" && old.reason() == "Unschedulable" && old.message() == message
        };
        let nominated = pod.status().nominated_node_name();
        let same = old.is_some_and(is) && nominated == node;
        if same && told == Some(digest(by_node)) {
            return Ok(());
        }
        let mut condition = condition("PodScheduled", "False", "Unschedulable", message)
            .with_observed_generation(pod.metadata().generation());
        if same {
            // Other nodes have these reasons now. Without any change there would be no write to note it with.
            condition.set_last_probe_time(Time::text(SystemClock.now()));
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
        let pods = self.pods.because(&pod.causes(&format!("no node will do: {by_node}")));
        pods.patch_status(&Key::of(pod.metadata()), &patch).await.map(drop)
    }
}

/// Tells whether the reasons of nodes have changed.
fn digest(by_node: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    by_node.hash(&mut hasher);
    hasher.finish()
}

/// What is said of a pod that finds no node.
fn message(none: &Unschedulable, room: &Result<Sacrifice, String>) -> String {
    if none.nodes == 0 {
        return none.to_string();
    }
    match room {
        Ok(Sacrifice { node, victims, .. }) => format!(
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
        .with_last_transition_time(Time::text(SystemClock.now()))
        .with_reason(reason)
        .with_message(message)
}

/// Sets one condition of this very pod.
fn status_patch(pod: &Pod, condition: PodCondition) -> Patch {
    let mut body = Value::object();
    body["metadata"]["uid"] = Text::from(pod.metadata().uid()).into();
    body["status"]["conditions"] = Value::List([condition.into()].into_iter().collect());
    Patch::Strategic(body)
}

#[test]
fn people_read_what_upstream_says() {
    let mut none = Unschedulable { nodes: 3, ..Unschedulable::default() };
    none.count("Insufficient cpu", 1);
    none.count("node(s) had untolerated taint(s)", 2);
    let why = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(
        message(&none, &Err(why.into())),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    let none = Unschedulable::default();
    assert_eq!(message(&none, &Err(why.into())), "no nodes available to schedule pods");
}
