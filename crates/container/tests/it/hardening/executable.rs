//! The runtime's own executable, which a container can reach by `/proc/self/exe` (CVE-2019-5736).

use container::cri::ContainerConfig;

use crate::support::{Runtime, entry, shell};

#[tokio::test]
async fn the_runtime_cannot_be_written_from_a_container() {
    let mut runtime = Runtime::start().await;
    let before = std::fs::read(crate::support::SHIM).expect("the shim");
    let sandbox = runtime.sandbox("pod").await;
    // Both specify the runtime itself as the program. It then opens a FIFO, and so keeps running.
    runtime
        .import("example.test/exe:1", "{}", |layer| {
            entry(layer, "linked", tar::EntryType::Symlink, "/proc/self/exe");
            entry(layer, "trap/", tar::EntryType::Directory, "");
            entry(layer, "trap/sandbox.json", tar::EntryType::Fifo, "");
        })
        .await;
    for (name, program) in [("direct", "/proc/self/exe"), ("linked", "/linked")] {
        let config = ContainerConfig {
            command: [program, "/trap"].map(str::to_owned).into(),
            image: Some(container::cri::ImageSpec {
                image: "example.test/exe:1".into(),
                ..Default::default()
            }),
            ..shell(name, "")
        };
        let id = runtime.container(&sandbox, config).await;
        let attack = "exec 9</proc/1/exe; for at in /proc/1/exe /proc/self/fd/9; do \
            echo pwned > $at; done; /bin/cat /proc/1/cmdline";
        let (_, said) = runtime.exec(&id, attack).await.expect("exec");
        assert!(said.contains("/trap"), "{said}");
        let refused = said.matches("Read-only file system").count();
        assert_eq!(refused, 2, "{name}: {said}");
    }
    runtime.remove(&sandbox).await;
    assert!(std::fs::read(crate::support::SHIM).expect("the shim") == before, "overwritten");
    runtime.end().await;
}
