//! The scheduling cycle: filters and scores all nodes for one pod. Does no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use object::Text;
use tokio::time::Instant;

use crate::{
    FilterError, NodeEvaluator, NodeInfo, PLUGINS, PodInfo, Snapshot,
    metrics::{Point, SchedulerMetrics},
};

/// In clusters of up to this many nodes all of them are filtered.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;

/// Maximum number of nodes whose reasons are stored individually.
const MAX_REASON_NODES: usize = 32;
/// Maximum length of these reasons in bytes.
const MAX_REASONS_BYTES: usize = 2 << 10;

/// Why no node fits a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unschedulable {
    pub nodes: usize,
    /// A reason that rejects all nodes (upstream's PreFilter).
    pub pre_filter_message: Option<String>,
    /// How many nodes each reason rejects.
    pub reasons: BTreeMap<Text, usize>,
    /// Nodes where preemption might help.
    pub resolvable_nodes: Vec<Text>,
    /// The first `MAX_REASON_NODES` nodes with their reasons.
    pub by_node: Vec<(Text, Vec<Text>)>,
    /// The plugins that rejected a node.
    pub plugins: BTreeSet<&'static str>,
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        if let Some(why) = &self.pre_filter_message {
            return write!(f, "0/{} nodes are available: {why}.", self.nodes);
        }
        let mut said: Vec<_> = self.reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
        said.sort_unstable();
        write!(f, "0/{} nodes are available: {}.", self.nodes, said.join(", "))
    }
}

impl Unschedulable {
    /// Formats the reasons of each node: `n1: Insufficient cpu; n2: node(s) had untolerated
    /// taint(s); 3 more`.
    pub fn by_node(&self) -> String {
        if let Some(why) = &self.pre_filter_message {
            return format!("every node: {why}");
        }
        let (mut text, mut listed) = (String::new(), 0);
        for (node, reasons) in &self.by_node {
            let reasons: Vec<&str> = reasons.iter().map(|reason| &**reason).collect();
            let verdict = format!("{node}: {}", reasons.join(", "));
            if text.len() + verdict.len() > MAX_REASONS_BYTES {
                break;
            }
            text += if text.is_empty() { "" } else { "; " };
            text += &verdict;
            listed += 1;
        }
        match self.nodes.saturating_sub(listed) {
            0 => text,
            more if text.is_empty() => format!("{more} nodes"),
            more => format!("{text}; {more} more"),
        }
    }

    pub(crate) fn add_reason(&mut self, reason: &str, nodes: usize) {
        if nodes > 0 {
            *self.reasons.entry(reason.into()).or_default() += nodes;
        }
    }
}

/// The evaluator of a plugin, with the weight of its score.
pub(crate) struct WeightedEvaluator<'a> {
    /// Its index in `PLUGINS`.
    plugin: usize,
    weight: i64,
    evaluator: Box<dyn NodeEvaluator + 'a>,
}

/// Selects the best node for the pod among enough feasible ones. `turn` changes with every call: it
/// determines the node to start with, and breaks ties.
pub fn schedule<'a>(
    pod: &PodInfo,
    all: &'a Snapshot,
    percentage: u8,
    turn: usize,
) -> Result<&'a str, Box<Unschedulable>> {
    schedule_measured(pod, all, (percentage, turn), None)
}

/// Like `schedule`, and records the latency of the plugins.
pub(crate) fn schedule_measured<'a>(
    pod: &PodInfo,
    all: &'a Snapshot,
    (percentage, turn): (u8, usize),
    metrics: Option<&SchedulerMetrics>,
) -> Result<&'a str, Box<Unschedulable>> {
    let ran = |point: Point, began: Instant, success: bool| {
        metrics.into_iter().for_each(|metrics| metrics.ran(point, began, success));
    };
    let began = Instant::now();
    let mut asked = evaluators(pod, all);
    ran(Point::PreFilter, began, true);
    let began = Instant::now();
    if let Some(node) = all.node(pod.pod.status().nominated_node_name())
        && first_filter_error(&asked, node).is_none()
    {
        ran(Point::Filter, began, true);
        return Ok(node.name()); // the victims on it were preempted for this pod
    }
    let enough = num_feasible_nodes_to_find(all.len(), percentage);
    let begin = turn.wrapping_mul(enough.max(1)) % all.len().max(1);
    let order = (begin..all.len()).chain(0..begin);
    if let Some(metrics) = metrics {
        let first = order.clone().take(SchedulerMetrics::sampled_nodes());
        let first = first.filter(|_| SchedulerMetrics::samples(turn));
        measure_filters(&asked, first.map(|at| &*all.nodes[at]), metrics);
    }
    let fits = order
        .filter(|at| all.free[*at].may_fit(&pod.requests))
        .map(|at| &*all.nodes[at])
        .filter(|node| first_filter_error(&asked, node).is_none());
    let fits: Vec<&NodeInfo> = fits.take(enough).collect();
    ran(Point::Filter, began, !fits.is_empty());
    match *fits {
        [] => Err(Box::new(diagnose(&asked, all))),
        [only] => Ok(only.name()),
        _ => {
            let began = Instant::now();
            let sampled = metrics.map(|metrics| (metrics, SchedulerMetrics::samples(turn)));
            let best = score_and_select(&mut asked, &fits, turn, sampled);
            ran(Point::Score, began, true);
            Ok(best)
        }
    }
}

/// Counts the filter plugins that apply to a pod, and measures them on some nodes.
fn measure_filters<'a>(
    asked: &[WeightedEvaluator<'_>],
    nodes: impl Iterator<Item = &'a NodeInfo>,
    metrics: &SchedulerMetrics,
) {
    asked.iter().for_each(|asked| metrics.evaluated(Point::Filter, asked.plugin));
    for node in nodes {
        for asked in asked {
            let began = Instant::now();
            let success = asked.evaluator.filter(node).is_ok();
            metrics.plugin_ran(Point::Filter, asked.plugin, began.elapsed(), success);
            if !success {
                break;
            }
        }
    }
}

/// The evaluators of all plugins that apply to the pod.
pub(crate) fn evaluators<'a>(pod: &'a PodInfo, all: &'a Snapshot) -> Vec<WeightedEvaluator<'a>> {
    let concerned = PLUGINS.iter().enumerate().filter_map(|(at, plugin)| {
        Some(WeightedEvaluator {
            plugin: at,
            weight: plugin.weight(),
            evaluator: plugin.evaluator(pod, all)?,
        })
    });
    concerned.collect()
}

/// The error of the first plugin that rejects the node.
pub(crate) fn first_filter_error(
    asked: &[WeightedEvaluator<'_>],
    node: &NodeInfo,
) -> Option<FilterError> {
    first_filter_error_by(asked, node).map(|(_, unfit)| unfit)
}

/// The error of the first plugin that rejects the node, with the name of the plugin.
fn first_filter_error_by(
    asked: &[WeightedEvaluator<'_>],
    node: &NodeInfo,
) -> Option<(&'static str, FilterError)> {
    asked.iter().find_map(|asked| {
        let unfit = asked.evaluator.filter(node).err()?;
        Some((PLUGINS.get(asked.plugin)?.name(), unfit))
    })
}

/// How many feasible nodes are enough to score (upstream's `numFeasibleNodesToFind`).
fn num_feasible_nodes_to_find(nodes: usize, percentage: u8) -> usize {
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(nodes / 125).max(5),
        given => usize::from(given).min(100),
    };
    if nodes <= MIN_FEASIBLE_NODES_TO_FIND {
        nodes
    } else {
        (nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
    }
}

fn score_and_select<'a>(
    asked: &mut [WeightedEvaluator<'_>],
    fits: &[&'a NodeInfo],
    turn: usize,
    metrics: Option<(&SchedulerMetrics, bool)>,
) -> &'a str {
    let mut sums = vec![0; fits.len()];
    for WeightedEvaluator { plugin, weight, evaluator: judge } in asked {
        let began = metrics.filter(|(_, sampled)| *sampled).map(|_| Instant::now());
        judge.pre_score(fits);
        let scores: Option<Vec<i64>> = fits.iter().map(|node| judge.score(node)).collect();
        let Some(mut scores) = scores else { continue };
        judge.normalize_scores(&mut scores);
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += *weight * score);
        if let Some((metrics, _)) = metrics {
            metrics.evaluated(Point::Score, *plugin);
            if let Some(began) = began {
                metrics.plugin_ran(Point::Score, *plugin, began.elapsed(), true);
            }
        }
    }
    let highest = sums.iter().copied().max().unwrap_or_default();
    let equal: Vec<_> = fits.iter().zip(&sums).filter(|(_, sum)| **sum == highest).collect();
    let lot = turn.wrapping_mul(0x9e37_79b9) >> 7;
    equal[lot % equal.len()].0.name()
}

/// Filters every node again to collect the reasons.
fn diagnose(asked: &[WeightedEvaluator<'_>], all: &Snapshot) -> Unschedulable {
    let mut found = Unschedulable { nodes: all.len(), ..Unschedulable::default() };
    for node in &all.nodes {
        let Some((plugin, unfit)) = first_filter_error_by(asked, node) else { continue };
        let FilterError { reasons, resolvable } = unfit;
        found.plugins.insert(plugin);
        if resolvable {
            found.resolvable_nodes.push(node.name().into());
        }
        for reason in &reasons {
            found.add_reason(reason, 1);
        }
        if found.by_node.len() < MAX_REASON_NODES {
            let reasons = reasons.iter().map(|reason| Text::from(&**reason)).collect();
            found.by_node.push((node.name().into(), reasons));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use api::core::{Container, Node, NodeStatus, Pod, PodSpec, Taint, Toleration};
    use object::{ObjectMeta, from_json};

    use super::*;

    fn node(name: &str, cpu: &str) -> Node {
        let status = format!(r#"{{"allocatable":{{"cpu":"{cpu}","memory":"4Gi","pods":"110"}}}}"#);
        let status = NodeStatus::from(from_json(status.as_bytes()).unwrap());
        let meta = ObjectMeta::new().with_name(name).with_labels([("name", name)]);
        Node::new().with_metadata(meta).with_status(status)
    }

    fn pod(cpu: &str) -> Pod {
        let container = format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#);
        let container = Container::from(from_json(container.as_bytes()).unwrap());
        Pod::new().with_spec(PodSpec::new().with_containers([container]))
    }

    fn snapshot(nodes: &[Node]) -> Snapshot {
        nodes.iter().map(|node| NodeInfo::new(node, [])).collect()
    }

    fn choose(pod: &Pod, all: &Snapshot) -> Result<String, String> {
        let chosen = schedule(&PodInfo::new(pod), all, 0, 1);
        chosen.map(str::to_owned).map_err(|none| none.to_string())
    }

    #[test]
    fn the_emptiest_that_will_do() {
        let mut all = snapshot(&[node("a", "2"), node("b", "4"), node("c", "500m")]);
        assert_eq!(choose(&pod("1"), &all), Ok("b".into()));
        all.update_node("b", |b| b.add(PodInfo::new(&pod("3500m")).into()));
        assert_eq!(choose(&pod("1"), &all), Ok("a".into()));
        let none = choose(&pod("8"), &all).unwrap_err();
        assert_eq!(none, "0/3 nodes are available: 3 Insufficient cpu.");
        assert_eq!(
            choose(&pod("1"), &snapshot(&[])).unwrap_err(),
            "no nodes available to schedule pods"
        );
    }

    #[test]
    fn each_node_is_counted_for_the_first_filter_that_rejects_it() {
        let mut tainted = node("a", "2");
        let taint = Taint::new().with_key("k").with_effect("NoSchedule");
        tainted.spec_mut().set_taints([taint]);
        let mut cordoned = node("b", "2");
        cordoned.spec_mut().set_unschedulable(true);
        let all = snapshot(&[tainted, cordoned, node("c", "1")]);
        let mut wanted = pod("2");
        let found = schedule(&PodInfo::new(&wanted), &all, 0, 0).unwrap_err();
        assert_eq!(
            found.to_string(),
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), \
             1 node(s) were unschedulable."
        );
        assert_eq!(
            found.by_node(),
            "a: node(s) had untolerated taint(s); b: node(s) were unschedulable; c: Insufficient cpu"
        );
        assert!(found.resolvable_nodes.is_empty(), "c is too small even when empty");
        wanted.spec_mut().set_tolerations([Toleration::new().with_operator("Exists")]);
        assert_eq!(choose(&wanted, &all).map(|name| name == "a" || name == "b"), Ok(true));
        wanted.spec_mut().set_node_selector([("name", "c")]);
        let none = choose(&wanted, &all).unwrap_err();
        assert!(none.contains("2 node(s) didn't match Pod's node affinity/selector"), "{none}");
    }

    #[test]
    fn the_reasons_of_many_nodes_are_cut_off() {
        let long = "n".repeat(200);
        let nodes: Vec<_> = (0..60).map(|at| node(&format!("{long}{at:02}"), "1")).collect();
        let found = schedule(&PodInfo::new(&pod("2")), &snapshot(&nodes), 0, 0).unwrap_err();
        let text = found.by_node();
        assert!(text.len() < MAX_REASONS_BYTES + 100, "{}", text.len());
        assert!(text.ends_with("; 51 more"), "{text}");
        let none =
            Unschedulable { nodes: 2, pre_filter_message: Some("no claim".into()), ..*found };
        assert_eq!(none.by_node(), "every node: no claim");
    }

    #[test]
    fn ports_are_taken_once() {
        let mut wanted = pod("1");
        for container in wanted.spec_mut().containers_mut().iter_mut() {
            let port = api::core::ContainerPort::new().with_host_port(80);
            container.set_ports([port]);
        }
        let mut all = snapshot(&[node("a", "8")]);
        all.update_node("a", |a| a.add(PodInfo::new(&wanted).into()));
        let none = choose(&wanted, &all).unwrap_err();
        assert!(none.contains("didn't have free ports"), "{none}");
    }

    #[test]
    fn large_clusters_are_looked_at_in_part() {
        let cases = [(50, 50), (100, 100), (1000, 420), (5000, 500), (10_000, 500)];
        for (nodes, looked_at) in cases {
            assert_eq!(num_feasible_nodes_to_find(nodes, 0), looked_at, "{nodes}");
        }
        assert_eq!(num_feasible_nodes_to_find(1000, 100), 1000);
    }

    /// Prints the throughput: `cargo test -p scheduler --release -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn five_thousand_nodes() {
        let nodes: Vec<_> = (0..5000).map(|at| node(&format!("n{at}"), "32")).collect();
        let mut all = snapshot(&nodes);
        let wanted = PodInfo::new(&pod("100m"));
        let (pods, began) = (10_000, std::time::Instant::now());
        for turn in 0..pods {
            let name = schedule(&wanted, &all, 0, turn).unwrap().to_owned();
            let mut placed = wanted.clone();
            placed.pod.metadata_mut().set_uid(turn.to_string());
            all.update_node(&name, |node| node.add(placed.into()));
        }
        let each = began.elapsed() / u32::try_from(pods).unwrap();
        let rate = 1.0 / each.as_secs_f64();
        println!("{pods} pods on 5000 nodes: {each:?} each, {rate:.0} pods/s");
    }
}
