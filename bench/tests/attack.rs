//! A short attack on the whole server, the same one each time. The long one: tests/attack/README.md.

use std::process::Command;

#[test]
#[ignore = "takes minutes in a debug build; run it by name"]
fn a_short_attack_does_no_harm() {
    let found = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["attack", "--minutes", "0.25", "--seed", "1", "--patience", "60", "--found"])
        .arg(found.path())
        .output()
        .expect("the attack runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("no fault"), "{said}");
}
