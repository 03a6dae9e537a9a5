//! Images with malicious configurations and layers.

use std::fs;

use container::cri::{ImageSpec, ListImagesRequest};

use super::security;
use crate::support::{Runtime, shell, wait_for};

fn of(image: &str, name: &str, script: &str) -> container::cri::ContainerConfig {
    let image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
    container::cri::ContainerConfig { image, ..shell(name, script) }
}

#[tokio::test]
async fn paths_of_a_configuration_stay_in_the_root() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let outside = tempfile::tempdir().expect("a folder");
    let up = format!("../../../../../../../..{}/made", outside.path().display());
    let image = "example.test/paths:1";
    let config = format!(
        r#"{{"Volumes":{{"{up}":{{}},"../../etc":{{}},"rel/ative":{{}}}},"WorkingDir":"{up}"}}"#
    );
    runtime.import(image, &config, |_| ()).await;
    let mut config = of(
        image,
        "a",
        &format!("echo $PWD; echo x > ./mine; ls {}; echo end", outside.path().display()),
    );
    security(&mut config).readonly_rootfs = true;
    runtime.container(&sandbox, config).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    assert!(log.contains(" made\n") && !log.contains("unreachable"), "{log}");
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 0, "made on the host");
    for (at, volume) in ["/", "/proc", "/proc/self", "/x/../proc/sys"].iter().enumerate() {
        let image = format!("example.test/volume-{at}:1");
        runtime.import(&image, &format!(r#"{{"Volumes":{{"{volume}":{{}}}}}}"#), |_| ()).await;
        let mut config = of(&image, &format!("v{at}"), "sleep 1000");
        security(&mut config).readonly_rootfs = true;
        runtime.try_container(&sandbox, config).await.expect_err(volume);
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn what_a_configuration_says_is_bounded() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let label = "l".repeat(3 << 20);
    runtime
        .import("example.test/labels:1", &format!(r#"{{"Labels":{{"a":"{label}"}}}}"#), |_| ())
        .await;
    let images = runtime.cri.images.list_images(ListImagesRequest::default()).await;
    let images = images.expect("a list").into_inner();
    let length = prost::Message::encoded_len(&images);
    assert!(length < 100_000, "{length}");
    let value = "v".repeat(200_000);
    runtime.import("example.test/env:1", &format!(r#"{{"Env":["A={value}"]}}"#), |_| ()).await;
    let started =
        runtime.try_container(&sandbox, of("example.test/env:1", "a", "sleep 1000")).await;
    let error = started.expect_err("the kernel takes no such variable");
    assert!(error.message().len() < 6000, "{}", error.message().len());
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A device node in an image is of no use: the container's device cgroup does not allow it.
#[tokio::test]
async fn devices_of_an_image_are_not_allowed() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/devices:1";
    let memory = |layer: &mut tar::Builder<Vec<u8>>| {
        for (name, kind, major, minor) in
            [("kmem", tar::EntryType::Char, 1, 1), ("disk", tar::EntryType::Block, 254, 0)]
        {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(0o666);
            header.set_size(0);
            header.set_device_major(major).expect("ustar");
            header.set_device_minor(minor).expect("ustar");
            layer.append_data(&mut header, name, std::io::empty()).expect("a device");
        }
    };
    runtime.import(image, "{}", memory).await;
    runtime
        .container(
            &sandbox,
            of(image, "a", "cat /kmem; cat /disk; mknod /m c 1 1; cat /m; echo end"),
        )
        .await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    assert_eq!(log.matches("Operation not permitted").count(), 3, "{log}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
