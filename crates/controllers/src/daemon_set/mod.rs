//! Runs one pod of every DaemonSet on every node that it fits.
//!
//! ```text
//!  mod.rs      start, reconcile: does what the plan says
//!  plan.rs     plan: record the template, one pod a node, roll
//!  rollout.rs  which pods of an old template may go now
//!  place.rs    which nodes, and what a pod for one of them looks like
//!  status.rs   counts
//! ```

mod place;
mod plan;
mod rollout;
mod status;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::{
    apps::{ControllerRevision, DaemonSet},
    core::{Node, Pod},
};
use client::{Error, Patch};
use object::{Cause, Clock, Key, Text, Value, wait_seconds};
use runtime::{Context, Controller, Next, Objects, Reconcile, Step};

use self::{
    place::Placing,
    plan::{Act, Scene, plan},
};
use crate::{
    Config,
    claim::{claimed, index_orphans, wanted_by},
    history,
    pods::{Pods, slow_start},
};

/// How long a node is spared after a pod has failed there: doubled each time.
const FIRST_REST: i64 = 1;
const LAST_REST: i64 = 15 * 60;

pub(crate) fn start(cx: &Context, config: &Config) {
    let sets = DaemonSets {
        sets: cx.objects(),
        nodes: cx.objects(),
        revisions: cx.objects(),
        pods: Pods::new(cx, "daemonset-controller"),
        rests: Mutex::default(),
        clock: config.clock.clone(),
    };
    index_orphans(&sets.pods.objects);
    index_orphans(&sets.revisions);
    let (known, nodes, pods) = (sets.sets.clone(), sets.nodes.clone(), sets.pods.objects.clone());
    let by_pod = known.clone();
    Controller::new("daemonset", cx, sets)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| wanted_by(pod, &by_pod))
        .watches::<Node>(move |node| concerned(node, &known, &nodes, &pods))
        .start();
}

#[derive(Debug)]
struct DaemonSets {
    sets: Objects<DaemonSet>,
    nodes: Objects<Node>,
    revisions: Objects<ControllerRevision>,
    pods: Pods,
    /// Where pods have failed: by set, its generation and node.
    rests: Mutex<HashMap<(Text, i64, Text), Rest>>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: i64,
    length: i64,
}

impl Reconcile for DaemonSets {
    type Kind = DaemonSet;

    async fn reconcile(&self, _: &Key, set: Option<DaemonSet>) -> Result<Next, Error> {
        let Some(set) = set.filter(|set| !set.metadata().is_terminating()) else {
            return Ok(Next::OnChange); // what it has made is the collector's
        };
        let now = self.clock.now();
        let resting = self.resting(&set, now);
        let scene = Scene {
            set: &set,
            pods: claimed(&set, &self.sets, &self.pods.objects).await?,
            revisions: claimed(&set, &self.sets, &self.revisions).await?,
            nodes: self.nodes.all(),
            resting: resting.keys().cloned().collect(),
            now,
        };
        let steps = plan(&scene);
        let recorded = steps.iter().any(|step| matches!(step.act, Act::Record(_)));
        self.act(&set, steps).await?;
        if recorded {
            return Ok(Next::After(Duration::ZERO)); // revisions wake nobody
        }
        let wake = resting.values().map(|rest| rest.until - now);
        let wake = wake.chain(status::next(&scene)).filter(|left| *left > 0).min();
        Ok(wake.map_or(Next::OnChange, |left| Next::After(wait_seconds(left))))
    }
}

impl DaemonSets {
    async fn act(&self, set: &DaemonSet, steps: Vec<Step<Act>>) -> Result<(), Error> {
        let (mut creates, mut deletes, mut report) = (Vec::new(), Vec::new(), None);
        for Step { act, because } in steps {
            let revisions = self.revisions.because(&because);
            match act {
                Act::Record(revision) => self.record(set, revision, &because).await?,
                Act::Renumber(revision) => drop(revisions.update(revision).await?),
                Act::Forget(revision) => revisions.delete(&revision).await?,
                Act::Relabel(pod, hash) => self.relabel(&pod, hash, &because).await?,
                Act::Create(pod) => creates.push((pod, because)),
                Act::Delete(pod) => deletes.push((pod, because)),
                Act::Replace { pod, node } => {
                    self.tell_end(set, &pod, &node);
                    deletes.push((pod, because));
                }
                Act::Report(status) => report = Some((status, because)),
            }
        }
        let create = async |(pod, because)| self.pods.create(set, pod, &because).await;
        let made = slow_start(creates, create).await;
        let ended = self.pods.delete_all(set, &deletes).await;
        if let Some((status, because)) = report {
            let new = set.clone().with_status(status);
            self.sets.because(&because).update_status(new).await?;
        }
        made.and(ended)
    }

    /// Writes a revision down. Where its name is taken by another one, the next try has
    /// another name.
    async fn record(
        &self,
        set: &DaemonSet,
        revision: ControllerRevision,
        because: &Cause,
    ) -> Result<(), Error> {
        if history::record(&self.revisions, revision, because).await? {
            return Ok(());
        }
        let mut set = set.clone();
        let collisions = set.status().collision_count().unwrap_or_default().saturating_add(1);
        set.status_mut().set_collision_count(collisions);
        self.sets.because(because).update_status(set).await.map(drop)
    }

    async fn relabel(&self, pod: &Pod, hash: Text, because: &Cause) -> Result<(), Error> {
        let mut patch = Value::object();
        patch["metadata"]["labels"][history::HASH] = hash.into();
        let pods = self.pods.objects.because(because);
        pods.patch(&Key::of(pod.metadata()), &Patch::Merge(patch)).await.map(drop)
    }

    fn tell_end(&self, set: &DaemonSet, pod: &Pod, node: &str) {
        let key = Key::of(pod.metadata());
        if pod.status().phase() == "Failed" {
            self.rest(set, node);
            let message =
                format!("Found failed daemon pod {key} on node {node}, will try to kill it");
            self.pods.events.warning(set, "FailedDaemonPod", message);
        } else {
            let message =
                format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
            self.pods.events.normal(set, "SucceededDaemonPod", message);
        }
    }

    /// Spares a node for a while, longer each time.
    fn rest(&self, set: &DaemonSet, node: &str) {
        let now = self.clock.now();
        let key = (set.metadata().uid().into(), set.metadata().generation(), node.into());
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.retain(|_, rest| rest.until + 2 * LAST_REST > now);
        let length = rests.get(&key).map_or(FIRST_REST, |rest| (rest.length * 2).min(LAST_REST));
        rests.insert(key, Rest { until: now + length, length });
    }

    /// The nodes that are spared now.
    fn resting(&self, set: &DaemonSet, now: i64) -> HashMap<Text, Rest> {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let (uid, generation) = (set.metadata().uid(), set.metadata().generation());
        let ours = rests
            .iter()
            .filter(|((of, at, _), rest)| of == uid && *at == generation && rest.until > now);
        ours.map(|((_, _, node), rest)| (node.clone(), *rest)).collect()
    }
}

/// The sets for which a node makes a difference.
fn concerned(
    node: &Node,
    sets: &Objects<DaemonSet>,
    nodes: &Objects<Node>,
    pods: &Objects<Pod>,
) -> Vec<Key> {
    let name = node.metadata().name();
    let gone = nodes.get(&Key::new("", name)).is_none();
    let here = pods.by("spec.nodeName", name);
    let owners: HashSet<&str> =
        here.iter().filter_map(|pod| Some(pod.metadata().controller()?.uid())).collect();
    let all = sets.all().into_iter().filter(|set| {
        let fit = Placing::of(set).fit(node);
        let placed = owners.contains(set.metadata().uid());
        let misplaced = placed && set.status().number_misscheduled() > 0;
        gone || fit.starts && !placed || !fit.stays && placed || misplaced
    });
    all.map(|set| Key::of(set.metadata())).collect()
}
