//! The user of container processes: the same at each start, and never root by a trick.

use container::cri::{ContainerConfig, ImageSpec};

use super::security;
use crate::support::{Runtime, file, shell, wait_for};

const TRICKS: [&str; 7] = [
    "4294967295",
    "4294967296",
    "-1",
    "2147483648",
    "huge",
    "0:4294967295",
    "18446744073709551616",
];

fn of_image(name: &str, image: String, script: &str) -> ContainerConfig {
    ContainerConfig {
        image: Some(ImageSpec { image, ..ImageSpec::default() }),
        ..shell(name, script)
    }
}

/// A kubelet that checks `runAsNonRoot` sees a number other than 0; the kernel must see the same.
#[tokio::test]
async fn no_number_becomes_root() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    for (at, user) in TRICKS.iter().enumerate() {
        let image = format!("example.test/user-{at}:1");
        let config = format!(r#"{{"User":"{user}"}}"#);
        runtime
            .import(&image, &config, |layer| {
                let users =
                    b"4294967296:x:0:0::/:/bin/sh\n-1:x:0:0::/:/bin/sh\nhuge:x:4294967295:0::/:\n";
                file(layer, "etc/passwd", users, 0o644);
            })
            .await;
        let config = of_image(&format!("c{at}"), image, "id -u; sleep 1000");
        match runtime.try_container(&sandbox, config).await {
            Err(error) => assert!(error.message().contains("out of range"), "{user}: {error}"),
            Ok(id) => {
                let (_, said) = runtime.exec(&id, "id -u; id -g").await.expect("exec");
                panic!("user {user:?} runs as {said}");
            }
        }
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_restarted_container_is_who_the_first_was() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/web:1";
    runtime
        .import(image, r#"{"User":"web"}"#, |layer| {
            file(layer, "etc/passwd", b"web:x:1000:1000::/:/bin/sh\n", 0o644);
        })
        .await;
    for attempt in 0..3 {
        let name = format!("a{attempt}");
        runtime.container(&sandbox, of_image(&name, image.into(), "id -u; echo end")).await;
        let log = wait_for(&runtime.logs().join(format!("{name}.log")), " end\n").await;
        assert!(log.contains(" 1000\n"), "{log}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn nothing_is_inherited_not_even_by_privileged_containers() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = "grep -E 'CapInh|CapAmb' /proc/self/status; echo end";
    for (name, privileged) in [("plain", false), ("privileged", true)] {
        let mut config = shell(name, script);
        security(&mut config).privileged = privileged;
        let id = runtime
            .container(&sandbox, {
                config.command[2] += "; sleep 1000";
                config
            })
            .await;
        let log = wait_for(&runtime.logs().join(format!("{name}.log")), " end\n").await;
        let none = "0000000000000000";
        assert_eq!(log.matches(none).count(), 2, "{name}: {log}");
        let (_, said) = runtime.exec(&id, script).await.expect("exec");
        assert_eq!(said.matches(none).count(), 2, "{name}: {said}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
