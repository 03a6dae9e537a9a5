//! Pods that answer the kubelet with whatever costs it most: endless answers to probes, statuses that no API server
//! takes.

use std::{fs, thread::sleep, time::Duration};

use crate::{attack::Attack, image};

/// How many bytes a process has read so far, from files, pipes and sockets.
fn bytes_read(pid: &str) -> u64 {
    let counters = fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
    let read = counters.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.and_then(|number| number.parse().ok()).expect("a number")
}

/// A command that prints without end, HTTP servers that send bodies and headers without end, ask to come back, or lead
/// elsewhere: each verdict is that of one request, and the node reads little of it.
#[test]
fn endless_answers_to_probes_cost_the_node_little() {
    let attack = Attack::new("probes");
    let serve = "serve() { echo \"$2\" > /tmp/$1; chmod +x /tmp/$1; nc -ll -p $1 -e /bin/sh /tmp/$1 & }
serve 8001 'printf \"HTTP/1.1 200 OK\\r\\n\\r\\n\"; yes'
serve 8002 'printf \"HTTP/1.1 200 OK\\r\\n\"; yes A: b'
serve 8003 'printf \"HTTP/1.1 503 Busy\\r\\nRetry-After: 0\\r\\nContent-Length: 0\\r\\n\\r\\n\"; echo x >> /tmp/asked'
serve 8004 'printf \"HTTP/1.1 302 Found\\r\\nLocation: http://192.0.2.2:6443/\\r\\n\\r\\n\"'
serve 8005 'sleep 3600'
serve 8006 'yes'
sleep 3600";
    let get = |port: u16| {
        format!(
            "{{httpGet: {{port: {port}, path: /}}, timeoutSeconds: 3600, periodSeconds: 1, failureThreshold: 1000}}"
        )
    };
    for port in [8001, 8002, 8003, 8004, 8005] {
        let probe = format!("    readinessProbe: {}", get(port));
        attack.pod(&format!("http-{port}"), serve, &probe, "");
    }
    let grpc = "    readinessProbe: {grpc: {port: 8006}, timeoutSeconds: 3600, periodSeconds: 1, failureThreshold: 1000}";
    attack.pod("grpc", serve, grpc, "");
    for number in 0..4 {
        let probe = "    livenessProbe: {exec: {command: [/bin/busybox, 'yes']}, timeoutSeconds: 3600, periodSeconds: 1}";
        attack.pod(&format!("yes-{number}"), "sleep 3600", probe, "");
    }
    for number in 0..4 {
        let phase = ".status.phase";
        attack.until("it runs", &format!("yes-{number}"), phase, "Running");
    }
    let ready = ".status.containerStatuses[0].ready";
    for port in [8001, 8004] {
        attack.until("the head is enough", &format!("http-{port}"), ready, "true");
    }
    sleep(Duration::from_secs(10)); // the first 16 MiB of each are read at once
    let node = attack.world.pid("node").expect("the node runs");
    let before = bytes_read(&node);
    sleep(Duration::from_secs(10));
    let read = (bytes_read(&node) - before) >> 20;
    // 4 MiB per second of each command, and what the node reads otherwise
    println!("the node has read {read} MiB in ten seconds");
    assert!(read < 400, "{read} MiB in ten seconds");
    for port in [8002, 8003, 8005] {
        assert_eq!(attack.get(&format!("http-{port}"), ready), "false", "{port}");
    }
    assert_eq!(attack.get("grpc", ready), "false");
    let asked = attack.exec("http-8003", "wc -l < /tmp/asked");
    let asked: u64 = asked.trim().parse().expect("a number");
    println!("the busy server was asked {asked} times");
    attack.assert_unharmed();
    attack.end();
}

/// The status of each container lists its groups, tens of thousands in each of eight containers: more than the API
/// server takes. The pod's status is written all the same, and the pod can be deleted.
#[test]
fn a_pod_with_the_longest_status_runs_and_goes() {
    let attack = Attack::new("status");
    let groups: Vec<_> = (0..60_000).map(|number| (1_000_000_000 + number).to_string()).collect();
    let image = image::SHELL;
    let container = |number: usize| {
        format!(
            "  - {{name: c{number}, image: {image}, imagePullPolicy: Never, command: [/bin/sleep, '3600'], securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}}}\n"
        )
    };
    let containers: String = (0..8).map(container).collect();
    attack.create(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: long}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext:
    {{runAsNonRoot: true, runAsUser: 1000, seccompProfile: {{type: RuntimeDefault}}, supplementalGroups: [{}]}}
  containers:
{containers}",
        groups.join(", ")
    ));
    attack.until("it runs", "long", ".status.phase", "Running");
    let all = "true true true true true true true true";
    attack.until("all are ready", "long", ".status.containerStatuses[*].ready", all);
    attack.kubectl(&["delete", "pod", "long", "--wait=false"]);
    attack.world.until("it goes", || attack.get("long", ".metadata.name").is_empty());
    attack.assert_unharmed();
    attack.end();
}
