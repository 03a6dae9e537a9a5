//! A short, deterministic attack on the whole server: the opening of the sweep, in which hostile names, deep trees
//! and extreme numbers come first. The long attack: tests/attack/README.md.

use std::process::Command;

/// Number of requests: names, trees, integers, times and quantities, but not long lists. They take some ten seconds
/// in a debug build, plus a check of the controllers; longer on a loaded host. Nothing depends on time.
const REQUESTS: &str = "600";

#[test]
fn a_short_attack_does_no_harm() {
    let found = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["attack", "--requests", REQUESTS, "--seed", "1"])
        .args(["--patience", "60", "--minimize", "0", "--found"])
        .arg(found.path())
        .output()
        .expect("the attack runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("no fault"), "{said}");
}
