//! Clusters and nodes under a service manager: they run in the foreground, notify it when they are ready, and start
//! again with the same command.

use std::{
    os::unix::net::UnixDatagram,
    process::Command,
    time::{Duration, Instant},
};

use crate::world::{Running, World, run};

/// Timeout of a wait; reached only by a failing test.
const LONGEST: Duration = Duration::from_mins(2);

/// The notification socket of a service manager, and its path.
struct Notified(UnixDatagram, String);

impl Notified {
    fn new(world: &World, name: &str) -> Self {
        let path = world.path().join(name).to_string_lossy().into_owned();
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(LONGEST)).expect("a limit");
        Self(socket, path)
    }

    fn start(&self, mut command: Command) -> Running {
        command.env("NOTIFY_SOCKET", &self.1);
        Running::start(command)
    }

    fn wait(&self) {
        let mut buffer = [0; 64];
        let length = self.0.recv(&mut buffer).expect("a notification when the start is over");
        assert_eq!(&buffer[..length], b"READY=1");
    }
}

#[test]
fn both_kinds_of_nodes_run_as_services() {
    let (first, second) = World::pair("services");
    let data = |world: &World| world.path().to_string_lossy().into_owned();

    let notified = Notified::new(&first, "notify");
    let command =
        first.command(&["up", "--foreground", "--node-name", "n1", "--data-dir", &data(&first)]);
    let _first_runs = notified.start(command);
    notified.wait();
    let nodes = || first.try_kubectl(&["get", "nodes", "--no-headers"]);
    assert!(nodes().contains(" Ready "), "{}", nodes());

    let membership = second.file("membership", &first.tiphys(&["kubeconfig", "--node", "n2"]));
    let notified = Notified::new(&second, "notify");
    let join =
        ["join", "--foreground", "--kubeconfig", &membership, "--kubelet-arg", "max-pods=17"];
    let mut command = second.command(&join);
    command.args(["--data-dir", &data(&second)]);
    let node = notified.start(command);
    notified.wait();
    let capacity = ["get", "node", "n2", "-o", "jsonpath={.status.capacity.pods}"];
    first.until("the kubelet has its flag", || first.try_kubectl(&capacity) == "17");

    // stopping the service stops the processes, and `up` starts the same data directory again
    let pid = node.pid().to_string();
    run(Command::new("kill").arg(&pid));
    let began = Instant::now();
    while second.runs("node") {
        assert!(began.elapsed() < LONGEST, "the node does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(node);
    let refused = second.try_tiphys(&["up", "--port", "7443"]);
    assert!(
        refused.contains("--port: ") && refused.contains("has joined another machine's cluster"),
        "{refused}"
    );
    let printed = second.tiphys(&["up"]);
    assert!(printed.contains("n2 has joined"), "{printed}");
    let again = second.try_tiphys(&["join", "--kubeconfig", &membership]);
    assert!(again.contains("a node already runs on "), "{again}");
    let own = first.try_tiphys(&["join", "--kubeconfig", &membership]);
    assert!(own.contains("holds a cluster of its own"), "{own}");
    let status = second.tiphys(&["status"]);
    assert!(status.contains("API server   https://192.0.2.2:6443"), "{status}");
    assert!(!status.contains("control "), "{status}");

    second.tiphys(&["down", "--now"]);
    second.assert_nothing_left();
    first.tiphys(&["down", "--now"]);
    first.assert_nothing_left();
}
