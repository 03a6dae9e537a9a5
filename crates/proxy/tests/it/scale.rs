//! Tests with many services: how long loading takes, and how many elements the change of one
//! endpoint touches, by the proxy's count and by `nft monitor`.

use crate::world::{service, this_node};
use proxy::{Endpoint, Proxier, Service};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use sys::netlink::{NetworkNamespace, run_in_netns};

/// Timeout; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_mins(2);

fn services(count: u16) -> Vec<Service> {
    (0..count)
        .map(|n| {
            let [high, low] = n.to_be_bytes();
            let mut it = service(&format!("service-{n}"));
            it.cluster_ips = vec![[10, 96 + high / 64, high, low].into()];
            it.ports[0].endpoints = (1..=3)
                .map(|e| Endpoint::ready([10, 244, high, low.wrapping_add(e)].into(), 8080, false))
                .collect();
            it
        })
        .collect()
}

#[test]
fn one_endpoint_among_five_thousand_services() {
    inside(|| {
        let (mut proxy, mut all) = loaded(5000);
        let mut times = Vec::new();
        for n in 0..20 {
            let begin = Instant::now();
            let touched = change(&mut proxy, &mut all, n);
            times.push(begin.elapsed());
            assert!(touched <= 10, "{touched}");
        }
        times.sort();
        println!("one endpoint: median {:?}, slowest {:?}", times[10], times[19]);
    });
}

/// Fewer services, because the monitor itself reads all tables repeatedly.
#[test]
fn the_kernel_tells_of_few_elements() {
    inside(|| {
        let (mut proxy, mut all) = loaded(200);
        let monitor = Monitor::start();
        for n in 0..5 {
            change(&mut proxy, &mut all, n);
            let told = monitor.until_marked(&format!("mark{n}"));
            let elements: usize = told.iter().map(|line| elements(line)).sum();
            assert!((1..=10).contains(&elements), "{elements}: {told:#?}");
            assert!(told.iter().any(|line| line.contains(&format!("10.245.0.{n}"))), "{told:#?}");
        }
    });
}

fn inside(test: impl FnOnce() + Send) {
    let namespace = NetworkNamespace::create().expect("a namespace");
    run_in_netns(&namespace, test).expect("inside");
}

fn loaded(count: u16) -> (Proxier, Vec<Service>) {
    let mut proxy = Proxier::new(&this_node()).expect("a proxy");
    let all = services(count);
    let changes: Vec<_> = all.iter().map(|s| (s.name.clone(), Some(s.clone()))).collect();
    let begin = Instant::now();
    let touched = proxy.update(&changes).expect("loaded");
    println!("load of {count} services: {:?}, {touched} elements", begin.elapsed());
    (proxy, all)
}

/// Replaces one endpoint of one service; returns the number of changed elements.
fn change(proxy: &mut Proxier, all: &mut [Service], n: u8) -> usize {
    let it = &mut all[100 + usize::from(n)];
    it.ports[0].endpoints[1] = Endpoint::ready([10, 245, 0, n].into(), 8080, true);
    proxy.update(&[(it.name.clone(), Some(it.clone()))]).expect("written")
}

/// The output of `nft monitor` in this network namespace.
struct Monitor {
    program: Child,
    lines: Receiver<String>,
}

impl Monitor {
    /// Starts the monitor; it is listening once this returns.
    fn start() -> Self {
        let mut command = Command::new("nft");
        let program = command.arg("monitor").stdout(Stdio::piped()).spawn();
        let mut program = program.expect("the nft program of package nftables is needed");
        let output = BufReader::new(program.stdout.take().expect("piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let monitor = Self { program, lines };
        let begin = Instant::now();
        loop {
            nft("add table ip heard");
            let heard = monitor.lines.recv_timeout(Duration::from_millis(200)).is_ok();
            nft("delete table ip heard");
            if heard {
                monitor.until_marked("ready");
                return monitor;
            }
            assert!(begin.elapsed() < PATIENCE, "nft monitor says nothing");
        }
    }

    /// All changes up to a marker that is added now.
    fn until_marked(&self, mark: &str) -> Vec<String> {
        nft(&format!("add table ip {mark}"));
        let mut told = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the monitor tells of the mark");
            if line == format!("add table ip {mark}") {
                return told;
            }
            if line.starts_with("add ") || line.starts_with("delete ") {
                told.push(line);
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn nft(command: &str) {
    let done = Command::new("nft").args(command.split(' ')).status();
    assert!(done.expect("nft runs").success(), "{command}");
}

/// How many items one line adds or deletes: a rule, a chain, or each element in braces.
fn elements(line: &str) -> usize {
    match line.split_once(" element ") {
        Some((_, listed)) => listed.split(", ").count(),
        None => 1,
    }
}
