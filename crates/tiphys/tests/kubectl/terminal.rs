//! Sessions in a terminal: they end with their process, and the terminal's mode is restored.

use std::process::Command;

use crate::{
    cluster::{Cluster, POD},
    image,
    pty::Terminal,
};

pub(crate) fn all(cluster: &Cluster) {
    ends_with_its_process(cluster);
    size_and_keys(cluster);
    a_signal_restores_the_terminal(cluster);
    attach_and_detach(cluster);
    run_and_debug(cluster);
    size_over_spdy(cluster);
}

fn exec(cluster: &Cluster, command: &[&str]) -> Terminal {
    let args = [&["exec", "-it", POD, "--"], command].concat();
    Terminal::start(&cluster.command(&args))
}

/// The terminal size is sent over SPDY too.
fn size_over_spdy(cluster: &Cluster) {
    let args = [
        "exec",
        "-it",
        POD,
        "--",
        "sh",
        "-c",
        "while [ \"$(stty size)\" != '30 100' ]; do sleep 0.1; done; exit 4",
    ];
    let command = cluster.command(&args);
    let mut spdy = Command::new("env");
    spdy.arg("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false");
    spdy.arg(command.get_program()).args(command.get_args());
    let mut terminal = Terminal::start(&spdy);
    assert_eq!(terminal.end(), 4, "{}", terminal.shown());
    assert!(terminal.is_cooked());
}

/// The session ends without another key press.
fn ends_with_its_process(cluster: &Cluster) {
    for wanted in [0, 7, 255] {
        let mut terminal = exec(cluster, &["sh", "-c", &format!("tty; exit {wanted}")]);
        assert_eq!(terminal.end(), wanted, "{}", terminal.shown());
        assert!(terminal.is_cooked());
        terminal.until_shown("/dev/pts/");
    }
}

fn size_and_keys(cluster: &Cluster) {
    let mut terminal = exec(cluster, &["sh"]);
    terminal.type_in("echo si''ze: $(stty size)\n");
    terminal.until_shown("size: 30 100");
    assert!(!terminal.is_cooked());
    terminal.resize(120, 40);
    terminal
        .type_in("while [ \"$(stty size)\" != '40 120' ]; do sleep 0.1; done; echo re''sized\n");
    terminal.until_shown("resized");
    // Ctrl-C is sent to the process, and does not stop kubectl
    terminal.type_in("echo sle''eps; sleep 100000\n");
    terminal.until_shown("sleeps");
    terminal.type_in("\x03");
    terminal.type_in("echo co''de $?\n");
    terminal.until_shown("code 130");
    // changes that the process makes to its terminal do not affect ours
    terminal.type_in("stty -echo; echo si''lent\n");
    terminal.until_shown("silent");
    // Ctrl-D closes the input of the process
    terminal.type_in("(exit 6)\n\x04");
    assert_eq!(terminal.end(), 6, "{}", terminal.shown());
    assert!(terminal.is_cooked());
}

fn a_signal_restores_the_terminal(cluster: &Cluster) {
    for signal in ["TERM", "HUP", "INT"] {
        let mut terminal = exec(cluster, &["sh", "-c", "echo ready; exec sleep 100000"]);
        terminal.until_shown("ready");
        assert!(!terminal.is_cooked());
        let sent = Command::new("kill").args(["-s", signal, &terminal.pid().to_string()]).status();
        assert!(sent.expect("a program").success());
        assert_eq!(terminal.end(), 1, "{signal}: {}", terminal.shown());
        assert!(terminal.is_cooked(), "{signal}");
    }
}

fn attach_and_detach(cluster: &Cluster) {
    let script = "while read line; do echo got $line; done";
    cluster.create(&crate::cluster::pod("tty", script, "    stdin: true\n    tty: true"));
    cluster.until_running("tty");
    let command = cluster.command(&["attach", "-it", "tty"]);
    for line in ["one", "two"] {
        let mut terminal = Terminal::start(&command);
        terminal.until_shown("If you don't see a command prompt, try pressing enter.");
        terminal.type_in(&format!("{line}\n"));
        terminal.until_shown(&format!("got {line}"));
        terminal.type_in("\x10\x11");
        assert_eq!(terminal.end(), 0, "{}", terminal.shown());
        terminal.until_shown(
            "Session ended, resume using 'kubectl attach tty -c c -n default -i -t' command",
        );
        assert!(terminal.is_cooked());
    }
    // the session ends with the container
    let mut terminal = Terminal::start(&command);
    terminal.until_shown("try pressing enter");
    terminal.type_in("three\n");
    terminal.until_shown("got three");
    terminal.type_in("\x04");
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    cluster.world().kubectl(&["delete", "pod", "tty", "--now"]);

    // a container without stdin and tty
    let plain = crate::cluster::pod("plain", "sleep 4; echo last", "");
    cluster.create(&plain.replace("spec:", "spec:\n  restartPolicy: Never"));
    cluster.until_running("plain");
    let mut terminal = Terminal::start(&cluster.command(&["attach", "-it", "plain"]));
    terminal.until_shown("error: Unable to use a TTY - container c did not allocate one");
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    terminal.until_shown("last");
    cluster.world().kubectl(&["delete", "pod", "plain", "--now"]);
}

fn run_and_debug(cluster: &Cluster) {
    let image = format!("--image={}", image::SHELL);
    let run = [
        "run",
        "typed",
        &image,
        "--image-pull-policy=Never",
        "--rm",
        "-it",
        "--restart=Never",
        "--",
    ];
    let command =
        cluster.command(&[&run[..], &["sh", "-c", "read line; echo got $line; exit 3"]].concat());
    let mut terminal = Terminal::start(&command);
    terminal.until_shown("try pressing enter");
    terminal.type_in("this\n");
    assert_eq!(terminal.end(), 3, "{}", terminal.shown());
    assert!(terminal.shown().contains("got this"), "{}", terminal.shown());
    assert!(terminal.shown().contains("pod \"typed\" deleted"), "{}", terminal.shown());
    assert!(terminal.is_cooked());

    let debug = ["debug", "-it", POD, &image, "--image-pull-policy=Never", "--", "sh", "-c"];
    let command = cluster.command(&[&debug[..], &["read line; echo got $line"]].concat());
    let mut terminal = Terminal::start(&command);
    terminal.until_shown("try pressing enter");
    terminal.type_in("that\n");
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    assert!(terminal.shown().contains("got that"), "{}", terminal.shown());
    assert!(terminal.is_cooked());
}

/// The API server is killed during a session.
pub(crate) fn a_killed_connection(cluster: &Cluster) {
    let mut terminal = exec(cluster, &["sh", "-c", "echo ready; exec sleep 100000"]);
    terminal.until_shown("ready");
    cluster.world().kill("control");
    assert_eq!(terminal.end(), 1, "{}", terminal.shown());
    terminal.until_shown("error: error reading from error stream");
    assert!(terminal.is_cooked());
    let world = cluster.world();
    world.until("the API server is back", || {
        world.try_kubectl(&["get", "nodes"]).contains(" Ready ")
    });
}
