//! Any of our processes may be killed at any moment: acknowledged writes survive, containers keep running, and the
//! cluster converges.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, sleep},
    time::Duration,
};

use crate::world::{World, output};

const ROUNDS: u32 = 20;
const PARTS: [&str; 3] = ["control", "node", "supervisor"];

#[test]
fn nothing_acknowledged_is_lost_whoever_dies() {
    let world = Arc::new(World::new("kills"));
    let said = world.tiphys(&["up", "--node-name", "n1", "--demo"]);
    let url = said.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    let containers = containers(&world);
    let recorder = Recorder::start(&world);

    let mut random = Random::new();
    for round in 0..ROUNDS {
        let victim = PARTS[usize::try_from(random.below(3)).expect("small")];
        world.until("the victim is back from its last death", || world.runs(victim));
        recorder.until_acknowledged(&world);
        sleep(Duration::from_millis(random.below(700)));
        world.kill(victim);
        assert!(world.fetch(url).contains("Hello from hello-"), "round {round}: without {victim}");
        if victim == "supervisor" {
            world.tiphys(&["up"]);
        }
    }
    world.until("the node is ready", || world.try_kubectl(&["get", "nodes"]).contains(" Ready "));

    let (made, deleted) = recorder.stop();
    let there = world.kubectl(&["get", "configmaps", "-o", "name"]);
    let there: Vec<&str> = there.lines().collect();
    let lost: Vec<_> = made.iter().filter(|name| !there.contains(&name.as_str())).collect();
    let back: Vec<_> = deleted.iter().filter(|name| there.contains(&name.as_str())).collect();
    assert!(lost.is_empty() && back.is_empty(), "lost: {lost:?}, came back: {back:?}");
    assert_eq!(self::containers(&world), containers, "containers live on, ready all along");

    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

/// The containers' ids, and since when the pods are ready.
fn containers(world: &World) -> String {
    let all = "jsonpath={range .items[*]}{.status.containerStatuses[*].containerID} \
               {.status.conditions[?(@.type==\"Ready\")]}{\"\\n\"}{end}";
    world.kubectl(&["get", "pods", "-l", "app=hello", "--sort-by", "metadata.name", "-o", all])
}

/// Creates and deletes objects from outside, and records which writes the API server has acknowledged.
struct Recorder {
    enough: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<(Vec<String>, Vec<String>)>>,
}

impl Recorder {
    fn start(world: &Arc<World>) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let (world, stop, count) = (world.clone(), enough.clone(), acknowledged.clone());
        let thread = thread::spawn(move || {
            let (mut made, mut deleted) = (Vec::new(), Vec::new());
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("configmap/note-{n}");
                let create = ["create", "configmap", &name[10..]];
                if !output(&mut world.kubectl_command(&create)).status.success() {
                    continue;
                }
                count.fetch_add(1, Ordering::Relaxed);
                // Every third is deleted again; if the deletion is not acknowledged, the object may exist or not.
                if n % 3 != 0 {
                    made.push(name);
                } else if output(&mut world.kubectl_command(&["delete", &name])).status.success() {
                    deleted.push(name);
                }
            }
            (made, deleted)
        });
        Self { enough, acknowledged, thread: Some(thread) }
    }

    /// Waits until the API server has acknowledged another write.
    fn until_acknowledged(&self, world: &World) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        let more = || self.acknowledged.load(Ordering::Relaxed) > before;
        world.until("the recorder is at work", more);
    }

    fn stop(mut self) -> (Vec<String>, Vec<String>) {
        self.enough.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the recorder does not panic")
    }
}

/// Stops the thread, so that a failing test leaves no cluster behind: the recorder shares it.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A random generator with a new seed for each run; the seed is printed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = u64::from(std::process::id()) << 20 | 1;
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
