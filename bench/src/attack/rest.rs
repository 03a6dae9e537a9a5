//! Whether the process comes to rest when it gets no requests: a controller that reconciles again and again without a
//! pause keeps it busy.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{judge::Fault, world::World};

/// Timeout for a process to work through its queues.
const LONGEST_WORK: Duration = Duration::from_mins(10);
/// A busy process runs or waits for a CPU for most of the time,
const WANTED: f64 = 0.5;
/// and runs for some of it, however loaded the host is.
const HAD: f64 = 0.05;
const WINDOW: Duration = Duration::from_secs(1);
/// Number of busy windows in a row, with next to nothing in the queues, after which the process is in a loop and does not
/// just work through what it was given.
const LOOPING: u32 = 20;
/// As many keys may wait in the queues of a process in a loop: those of the loop itself.
const FEW: u64 = 8;
/// A queue in a loop gets more keys than this per second of CPU time, however little of it a loaded host gives.
const MANY_ADDS: f64 = 10.0;
/// The process is at rest after so many idle windows in a row.
const AT_REST: u32 = 5;

/// Waits until the process is idle. Returns a fault if it does not become idle although its queues are empty.
pub(crate) async fn comes_to_rest(world: &World) -> Option<Fault> {
    let (began, mut looping, mut idle) = (Instant::now(), 0, 0);
    let mut before = Queues::read(world);
    let mut first = before.clone();
    while began.elapsed() < LONGEST_WORK {
        let Some(ran) = busy_window().await else {
            // A loaded host may give no CPU for a while: one idle window says nothing.
            idle += 1;
            if idle >= AT_REST {
                return None;
            }
            continue;
        };
        idle = 0;
        let now = Queues::read(world);
        let adds = now.most_added_since(&before).map_or(0, |(_, count)| count);
        let adds = f64::from(u32::try_from(adds).unwrap_or(u32::MAX));
        if now.waiting <= FEW && adds > MANY_ADDS * ran.as_secs_f64() {
            looping += 1;
        } else {
            (looping, first) = (0, now.clone());
        }
        if looping >= LOOPING {
            let (queue, count) = now.most_added_since(&first).unwrap_or_default();
            let text = format!(
                "with nothing to do, the process was busy; the queue {queue} got {count} keys in {looping} seconds"
            );
            return Some(Fault::new(format!("busy: {queue}"), text));
        }
        before = now;
    }
    let text = format!("with nothing to do, the process was busy for {LONGEST_WORK:?}");
    Some(Fault::new("busy: the process does not come to rest", text))
}

/// Returns when the process has been idle for some time: whatever has not happened by then does not happen.
pub(crate) async fn until_at_rest() {
    let mut idle = 0;
    while idle < AT_REST {
        idle = if busy_window().await.is_none() { idle + 1 } else { 0 };
    }
}

/// Observes the process for a second: `None` if it is idle, else its CPU time. Busy threads either run or wait for a
/// CPU, so both are counted: otherwise other load on the host would hide them.
async fn busy_window() -> Option<Duration> {
    let (from, (ran, waited)) = (Instant::now(), demand());
    tokio::time::sleep(WINDOW).await;
    let now = demand();
    let part = |time: Duration| time.as_secs_f64() / from.elapsed().as_secs_f64();
    let ran = now.0.saturating_sub(ran);
    let is_idle = part(ran) < HAD || part(ran) + part(now.1.saturating_sub(waited)) < WANTED;
    (!is_idle).then_some(ran)
}

/// Time that all threads have run, and time that they have waited for a CPU.
fn demand() -> (Duration, Duration) {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let (mut ran, mut waited) = (0, 0);
    for task in tasks {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|n| n.parse::<u64>().ok());
        ran += numbers.next().unwrap_or_default();
        waited += numbers.next().unwrap_or_default();
    }
    (Duration::from_nanos(ran), Duration::from_nanos(waited))
}

/// The work queues of the components, from their metrics.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// Number of keys that wait.
    waiting: u64,
    /// Number of keys that were ever added, by queue.
    added: BTreeMap<String, u64>,
}

impl Queues {
    fn read(world: &World) -> Self {
        let mut text = String::new();
        world.contexts.iter().for_each(|context| context.metrics().write(&mut text));
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut queues = Self::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            if series.starts_with("workqueue_depth{") {
                queues.waiting += value;
            } else if let Some(labels) = series.strip_prefix("workqueue_adds_total{") {
                let name = labels.split('"').nth(1).unwrap_or_default();
                *queues.added.entry(name.to_owned()).or_default() += value;
            }
        }
        queues
    }

    /// The queue that has got the most keys since then, and how many.
    fn most_added_since(&self, before: &Self) -> Option<(String, u64)> {
        let added = self.added.iter().map(|(name, count)| {
            let old = before.added.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(old))
        });
        added.max_by_key(|(_, count)| *count)
    }
}

#[test]
fn the_busiest_queue_is_found_in_metrics() {
    let before = Queues::parse(
        "workqueue_depth{name=\"a\"} 2\nworkqueue_adds_total{name=\"a\"} 5\nworkqueue_adds_total{name=\"b\"} 7\n",
    );
    let now = Queues::parse(
        "workqueue_depth{name=\"a\"} 0\nworkqueue_adds_total{name=\"a\"} 90\nworkqueue_adds_total{name=\"b\"} 8\n",
    );
    assert_eq!((before.waiting, now.waiting), (2, 0));
    assert_eq!(now.most_added_since(&before), Some(("a".to_owned(), 85)));
}
