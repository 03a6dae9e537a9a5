//! Tests that each kubelet flag has an effect and that invalid values are errors.

use std::{ffi::OsString, fs, time::Duration};

use anyhow::{Result, anyhow};
use kubelet::{
    Config,
    eviction::{EvictionState, Pressure, Signal, SignalObservation},
};
use object::Quantity;

use super::{super::parse, config, flags::Arguments};

fn read(words: &[&str]) -> Result<Config> {
    let words = [&["--hostname-override=n"], words].concat();
    let words = words.iter().map(OsString::from).collect();
    config(parse::<Arguments>("kubelet", words).map_err(|_| anyhow!("refused"))?)
}

fn refused(words: &[&str]) -> bool {
    read(words).is_err()
}

/// Whether the last observation evicts pods, and the pressure conditions then. Observations are pairs of seconds
/// and available memory.
fn short(words: &[&str], seen: &[(i64, i64)]) -> (bool, Vec<Pressure>) {
    let settings = read(words).expect("good flags").eviction;
    let (mut state, mut acts) = (EvictionState::default(), false);
    for (now, available) in seen {
        let left = SignalObservation { capacity: 1 << 40, available: *available };
        let memory = [(Signal::MemoryAvailable, left)].into();
        acts = state.observe(&settings, &memory, *now).is_some();
    }
    (acts, state.pressure())
}

#[test]
fn one_address_may_be_served_alone() {
    assert!(read(&[]).unwrap().address.is_unspecified());
    let one = read(&["--address=192.0.2.7"]).unwrap();
    assert_eq!(one.address.to_string(), "192.0.2.7");
    assert!(refused(&["--address=everywhere"]));
}

#[test]
fn soft_thresholds_wait_for_their_grace_period() {
    let soft = "--eviction-soft=memory.available<1Gi";
    let flags = [soft, "--eviction-soft-grace-period=memory.available=30s"];
    assert_eq!(short(&flags, &[(0, 1 << 29), (29, 1 << 29)]), (false, vec![Pressure::Memory]));
    assert!(!short(&["--eviction-hard=nodefs.available<1%"], &[(0, 1000), (30, 1000)]).0);
    assert!(short(&flags, &[(0, 1 << 29), (30, 1 << 29)]).0);
    let longer = [soft, "--eviction-soft-grace-period=memory.available=1m"];
    assert!(!short(&longer, &[(0, 1 << 29), (30, 1 << 29)]).0);
    assert!(refused(&[soft]), "a soft threshold without a grace period");
    assert!(refused(&["--eviction-soft-grace-period=memory.available=never"]));
}

#[test]
fn more_than_the_threshold_must_be_won_back() {
    let hard = "--eviction-hard=memory.available<1Gi";
    let seen = [(0, 1 << 29), (10, 3 << 29)];
    assert!(!short(&[hard], &seen).0);
    assert!(short(&[hard, "--eviction-minimum-reclaim=memory.available=1Gi"], &seen).0);
    assert!(refused(&["--eviction-minimum-reclaim=memory.available=much"]));
    assert!(refused(&["--eviction-hard=disk<1"]));
}

#[test]
fn pressure_lasts_for_the_transition_period() {
    let seen = [(0, 1000), (100, 1 << 39)];
    assert_eq!(short(&[], &seen).1, [Pressure::Memory], "five minutes by default");
    let shorter = ["--eviction-pressure-transition-period=30s"];
    assert_eq!(short(&shorter, &seen).1, []);
    assert!(refused(&["--eviction-pressure-transition-period=soon"]));
}

#[test]
fn the_grace_of_pods_is_bounded() {
    let flags = [
        "--eviction-soft=memory.available<1Gi",
        "--eviction-soft-grace-period=memory.available=30s",
        "--eviction-max-pod-grace-period=7",
    ];
    for (flags, seconds) in [(&flags[..], 7), (&flags[..2], 0)] {
        let settings = read(flags).expect("good flags").eviction;
        let soft = settings.thresholds.iter().find(|one| one.grace_period.is_some());
        assert_eq!(settings.grace(soft.expect("one"), 20), seconds);
    }
}

#[test]
fn images_and_logs_have_their_limits() {
    let limits = |words: &[&str]| read(words).expect("good flags").image_gc;
    assert_eq!(limits(&[]).bytes_to_free(1000, 200), None);
    let flags = ["--image-gc-high-threshold=70", "--image-gc-low-threshold=60"];
    assert_eq!(limits(&flags).bytes_to_free(1000, 200), Some(200));
    assert!(refused(&["--image-gc-low-threshold=90"]));

    let folder = tempfile::TempDir::new().unwrap();
    let log = folder.path().join("0.log");
    for number in 1..=3 {
        fs::write(folder.path().join(format!("0.log.2026010{number}-000000")), "").unwrap();
    }
    let left = |files: &str| {
        read(&[files]).expect("good flags").log_limits.clean_up(&log).unwrap();
        fs::read_dir(folder.path()).unwrap().count()
    };
    assert_eq!(left("--container-log-max-files=5"), 3);
    assert_eq!(left("--container-log-max-files=3"), 1);
    let size = read(&["--container-log-max-size=1Ki"]).expect("good flags").log_limits.size;
    assert_eq!(size, 1024);
    assert!(refused(&["--container-log-max-files=1"]));
    assert!(refused(&["--container-log-max-size=0"]));
}

#[test]
fn what_is_reserved_is_kept_from_pods() {
    let flags = ["--kube-reserved=cpu=100m,memory=1Gi", "--system-reserved=pid=100"];
    let config = read(&flags).expect("good flags");
    assert_eq!(config.kube_reserved.get("memory").map(Quantity::value), Some(1 << 30));
    assert_eq!(config.system_reserved.get("pid").map(Quantity::value), Some(100));
    assert!(config.enforce_pods && config.reserved_groups.is_empty());
    assert!(refused(&["--kube-reserved=gpu=1"]));
    assert!(!read(&["--enforce-node-allocatable=none"]).expect("good").enforce_pods);
    let flags = [
        "--enforce-node-allocatable=pods,kube-reserved-compressible",
        "--kube-reserved-cgroup=/kube",
        "--kube-reserved=cpu=1",
    ];
    let [group] = &read(&flags).expect("good flags").reserved_groups[..] else {
        panic!("one group");
    };
    assert!(group.path == "/kube" && group.compressible_only);
    let system = [
        "--enforce-node-allocatable=pods,system-reserved",
        "--system-reserved-cgroup=/others",
        "--system-reserved=memory=1Gi",
    ];
    let [group] = &read(&system).expect("good flags").reserved_groups[..] else {
        panic!("one group");
    };
    assert!(group.path == "/others" && !group.compressible_only);
    assert!(refused(&flags[..1]), "a group without a path");
    assert!(refused(&["--enforce-node-allocatable=none,pods"]));
    assert!(refused(&["--enforce-node-allocatable=everything"]));
    assert_eq!(read(&["--pod-max-pids=7"]).expect("good").pod_max_pids, 7);
    assert!(refused(&["--oom-score-adj=1001"]));
}

#[test]
fn what_the_port_shows_and_how_containers_are_confined() {
    let config = read(&[]).expect("good flags");
    assert!(config.serving_cert.is_none() && !config.seccomp_default);
    assert_eq!(config.streaming_idle, Duration::from_hours(4));
    let flags = ["--tls-cert-file=/a", "--tls-private-key-file=/b", "--seccomp-default"];
    let config = read(&flags).expect("good flags");
    assert!(matches!(config.serving_cert, Some(kubelet::Serving::Files { .. })));
    assert!(config.seccomp_default);
    let idle = read(&["--streaming-connection-idle-timeout=5m"]).expect("good");
    assert_eq!(idle.streaming_idle, Duration::from_mins(5));
    assert!(
        refused(&["--tls-cert-file=/a"]) && refused(&["--streaming-connection-idle-timeout=-1s"])
    );
}

#[test]
fn more_sysctls_may_be_allowed() {
    let allowed = |words: &[&str]| read(words).expect("good flags").sysctls;
    let flag = "--allowed-unsafe-sysctls=kernel.msg*,net.core.somaxconn";
    let expected = kubelet::sysctl::Allowlist::new(&["kernel.msg*", "net.core.somaxconn"]);
    assert_eq!(Ok(allowed(&[flag])), expected);
    assert_ne!(allowed(&[flag]), allowed(&[]));
    assert!(refused(&["--allowed-unsafe-sysctls=vm.swappiness"]), "no namespace has it");
}
