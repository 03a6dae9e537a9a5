//! Messages for users: every error names the cause and the remedy, and commands give a summary of the state.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
};

use crate::world::{Running, World, output, run, said};

/// The error of a command: one line, with exit code 1.
fn complaint(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr).trim_end().to_owned();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn errors_name_the_thing_and_the_way_out() {
    let world = World::new("words");
    let empty = world.path().join("none").to_string_lossy().into_owned();
    let refused = |args: &[&str]| complaint(&output(&mut world.command(args)));
    for command in ["status", "logs", "down", "ps"] {
        let text = refused(&[command, "--data-dir", &empty]);
        let expected = format!("{command}: there is no cluster in {empty}; ");
        assert!(text.starts_with(&expected), "{text}");
    }
    let text = refused(&["stauts"]);
    assert_eq!(text, "tiphys: unknown command \"stauts\"; did you mean `tiphys status`?");
    let text = refused(&["up", "--data-dir", &empty, "--node-name", "My_Node"]);
    assert!(
        text.starts_with("up: --node-name \"My_Node\": a node's name has lower case"),
        "{text}"
    );
    let text = refused(&["up", "--data-dir", &empty, "--kubeconfig", "/nowhere/at/all"]);
    assert!(text.starts_with("up: --kubeconfig /nowhere/at/all: the folder /nowhere/at"), "{text}");
    let text = refused(&["up", "--name", "No Name"]);
    assert!(text.starts_with("up: --name \"No Name\": a name has"), "{text}");
    let text = refused(&["join", "--kubeconfig", "/nowhere", "--data-dir", &empty]);
    assert!(text.contains("cannot read /nowhere: No such file"), "{text}");
    assert!(!std::path::Path::new(&empty).exists(), "nothing was made");
    let wrong = said(&output(&mut world.command(&["up", "--prot", "1"])));
    assert!(wrong.contains("Usage: tiphys up "), "{wrong}");
    assert!(wrong.contains("a similar argument exists: '--port'"), "{wrong}");

    // a directory that an ordinary user may enter, and an executable that it may run
    let open = tempfile::tempdir().expect("a folder");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let program = open.path().join("tiphys").to_string_lossy().into_owned();
    fs::copy(env!("CARGO_BIN_EXE_tiphys"), &program).expect("a copy");
    let ordinary = |args: &[&str]| {
        let user = ["--reuid=65534", "--clear-groups", &program];
        complaint(&output(&mut world.inside("setpriv", &[&user[..], args].concat())))
    };
    let data = open.path().join("data").to_string_lossy().into_owned();
    assert_eq!(ordinary(&["check"]), "check: the checks need root: run `sudo tiphys check`");
    assert!(ordinary(&["up", "--data-dir", &data]).starts_with("up: tiphys up needs root"));
    fs::create_dir(&data).expect("a folder");
    let config = format!("{data}/config.yaml");
    fs::write(&config, "").expect("a file");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).expect("its mode");
    let text = ordinary(&["status", "--data-dir", &data]);
    assert_eq!(
        text,
        format!("status: only root can access the cluster in {data}: run this as root")
    );
}

/// Starts a program that listens on a port.
fn listen(world: &World, port: &str) -> Running {
    let running = Running::start(world.command(&["hello", "--port", port]));
    let url = format!("http://127.0.0.1:{port}/");
    world.until("the port is taken", || {
        said(&output(&mut world.command(&["hello", "--fetch", &url]))).contains("Hello")
    });
    running
}

#[test]
fn a_port_that_is_taken_is_one_line_and_another_port_works() {
    let world = World::new("taken");
    let taken = listen(&world, "6443");
    let up = |flags: &[&str]| {
        let mut command =
            world.command(&["up", "--node-name", "n1", "--disable", "kubelet,proxy,dns"]);
        output(command.args(flags).arg("--data-dir").arg(world.path()))
    };
    let text = complaint(&up(&["--port", "6443"]));
    assert_eq!(text, "up: port 6443 is taken by another program: choose one with --port");
    let out = up(&["--port", "7443"]);
    assert!(out.status.success(), "{}", said(&out));
    world.tiphys(&["down", "--now", "--wipe"]);
    // without --port, the next free port is used
    let out = up(&[]);
    assert!(out.status.success(), "{}", said(&out));
    let config = fs::read_to_string(world.path().join("config.yaml")).expect("the settings");
    assert!(config.contains("port: 6444"), "{config}");
    drop(taken);
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

#[test]
fn commands_say_how_things_are() {
    let world = World::new("glance");
    // another program listens on the scheduler's port
    let busy = listen(&world, "10259");
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["run", "web", "--image", "tiphys.local/hello:1"]);
    world.kubectl(&["run", "none", "--image", "127.0.0.1:1/none:1"]);
    let status = || world.try_tiphys(&["status"]);
    world.until("the pod that cannot start is named", || {
        let status = status();
        status.contains("default/none (ErrImagePull)") || status.contains("default/none (ImagePull")
    });
    let text = world.tiphys(&["status"]);
    for expected in [
        "supervisor   running (pid ",
        "API server   https://192.0.2.2:6443, Kubernetes v1.37.1",
        "nodes        1, all ready",
        "certificates API server 3",
        " days left",
        "store        ",
        "disk         ",
        "memory       ",
        "port         kube-scheduler serves on ",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in {text}");
    }
    component_statuses(&world);

    world.until("the pod runs", || {
        world.try_kubectl(&["get", "pod", "web", "-o", "jsonpath={.status.phase}"]) == "Running"
    });
    let containers = world.tiphys(&["ps"]);
    assert!(containers.starts_with("CONTAINER "), "{containers}");
    let line = containers.lines().find(|line| line.split_whitespace().last() == Some("web"));
    let line = line.unwrap_or_else(|| panic!("{containers}"));
    let id = line.split_whitespace().next().expect("an id");
    let about = world.tiphys(&["inspect", id]);
    assert!(about.contains("state: Running") && about.contains("logPath: "), "{about}");
    let nobody = world.try_tiphys(&["inspect", "zzz"]);
    assert!(nobody.contains("no container or pod has an id that begins with \"zzz\""), "{nobody}");
    assert!(world.tiphys(&["ps", "--all"]).lines().count() >= containers.lines().count());

    logs(&world);
    images(&world);
    drop(busy);
    world.tiphys(&["down", "--now"]);
    assert!(status().contains("API server   does not respond"), "{}", status());
    world.assert_nothing_left();
}

/// `kubectl get componentstatuses` reports all three as healthy, whatever ports they use.
fn component_statuses(world: &World) {
    let all = world.kubectl(&["get", "componentstatuses", "--no-headers"]);
    let healthy: Vec<Vec<&str>> =
        all.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        ["controller-manager", "Healthy", "ok"],
        ["etcd-0", "Healthy", "ok"],
        ["scheduler", "Healthy", "ok"],
    ];
    let mut sorted = healthy.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected, "{all}");
    let curl = |args: &[&str]| {
        let mut command = world.inside("curl", &["-sk", "-o", "/dev/null", "-w", "%{http_code}"]);
        run(command.args(args))
    };
    let url = |path: &str| format!("https://127.0.0.1:10257{path}");
    assert_eq!(curl(&[&url("/healthz")]), "200");
    assert_eq!(curl(&[&url("/metrics")]), "403", "not for everybody");
    let admin = fs::read_to_string(world.path().join("kubeconfig/admin")).expect("a kubeconfig");
    assert!(admin.contains("client-certificate-data"), "{admin}");
    let token = world.kubectl(&["create", "token", "default"]);
    world.kubectl(&["create", "clusterrole", "look", "--verb=get", "--non-resource-url=/metrics"]);
    let subject = "--serviceaccount=default:default";
    world.kubectl(&["create", "clusterrolebinding", "look", "--clusterrole=look", subject]);
    let header = format!("Authorization: Bearer {}", token.trim());
    world.until("who has the right gets numbers", || {
        curl(&["-H", &header, &url("/metrics")]) == "200"
    });
}

fn logs(world: &World) {
    let all = world.tiphys(&["logs"]);
    assert!(all.contains("supervisor: ") && all.contains("node: "));
    let one = world.tiphys(&["logs", "--tail", "1", "control"]);
    assert_eq!(one.lines().count(), 1, "{one}");
    let kubelet = world.tiphys(&["logs", "kubelet"]);
    assert!(kubelet.lines().all(|line| line.starts_with("node: ") && line.contains("kubelet")));

    // -f continues, and ends quietly when its reader closes the pipe
    let path = world.path().join("log/supervisor.log");
    let mut log = fs::OpenOptions::new().append(true).open(path).expect("the log");
    writeln!(log, "said before").expect("written");
    let mut command = world.command(&["logs", "--follow", "--tail=1", "supervisor", "--data-dir"]);
    command.arg(world.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut following = command.spawn().expect("started");
    let mut reader = following.stdout.take().expect("its output");
    let mut until = |wanted: &str| {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains(wanted) {
            let length = reader.read(&mut buffer).expect("readable");
            assert_ne!(length, 0, "it has ended: {text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    };
    until("supervisor: said before\n");
    writeln!(log, "said later").expect("written");
    until("supervisor: said later\n");
    drop(reader);
    let ended = loop {
        writeln!(log, "nobody reads this").expect("written");
        if let Some(ended) = following.try_wait().expect("waited for") {
            break ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(13), "{ended}");
    let mut complaint = String::new();
    following.stderr.take().expect("its errors").read_to_string(&mut complaint).expect("text");
    assert_eq!(complaint, "");
}

fn images(world: &World) {
    let list = world.tiphys(&["image", "list"]);
    assert!(list.starts_with("NAME ") && list.contains("SIZE"), "{list}");
    let hello = list.lines().find(|line| line.starts_with("tiphys.local/hello:1 "));
    assert!(hello.is_some_and(|line| line.ends_with("iB")), "{list}");
    let archive = world.path().join("hello.tar").to_string_lossy().into_owned();
    world.tiphys(&["image", "export", "tiphys.local/hello:1", &archive]);
    let mut import = world.command(&["image", "import", "-", "--data-dir"]);
    import.arg(world.path()).stdin(fs::File::open(&archive).expect("the archive"));
    assert!(run(&mut import).contains("tiphys.local/hello:1"));
}

#[test]
fn shells_and_man_know_the_commands() {
    let world = World::new("shells");
    let zsh = run(&mut world.command(&["completion", "zsh"]));
    assert!(zsh.starts_with("#compdef tiphys\n"), "{zsh}");
    assert!(run(&mut world.command(&["completion", "fish"])).contains("-l kube-apiserver-arg -r"));
    let script = run(&mut world.command(&["completion", "bash"]));
    let words = "COMP_WORDS=(tiphys down --wi); COMP_CWORD=2; _tiphys; echo $COMPREPLY";
    let bash = run(Command::new("bash").args(["-c", &format!("{script}\n{words}")]));
    assert_eq!(bash, "--wipe\n");
    let pages = world.path().join("man").to_string_lossy().into_owned();
    run(&mut world.command(&["man", &pages]));
    let page = fs::read_to_string(format!("{pages}/tiphys-up.1")).expect("a page");
    assert!(page.contains("kube\\-apiserver\\-arg NAME=VALUE"), "{page}");
    let unit = run(&mut world.command(&["systemd-unit", "--name", "blue"]));
    assert!(unit.contains("Type=notify") && unit.contains("up --foreground --name blue"), "{unit}");
    let help = run(&mut world.command(&["help"]));
    assert!(help.contains("Usage: tiphys COMMAND"), "{help}");
    // a closed pipe ends a command quietly
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let out = output(world.command(&["completion", "fish"]).stdout(writer).stderr(Stdio::piped()));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}
