//! An image with a shell, for the attacking pods.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::world::{Running, World, run};

/// Name of the imported image.
pub(crate) const SHELL: &str = "attack.test/shell:1";

/// Packs busybox into an image and imports it into the node: `/bin/sh` and the like, and a world-writable `/tmp`.
pub(crate) fn import(world: &World) {
    let archive = world.path().join("layout.tar");
    write(world, SHELL, &archive);
    world.tiphys(&["image", "import", archive.to_str().expect("text")]);
}

/// Like `import`, under another name and with an image configuration as JSON.
pub(crate) fn import_as(world: &World, name: &str, config: &str) {
    let archive = world.path().join("layout.tar");
    write_with(world, name, &archive, config);
    world.tiphys(&["image", "import", archive.to_str().expect("text")]);
}

/// Packs busybox into an image archive with that image name.
pub(crate) fn write(world: &World, name: &str, archive: &Path) {
    write_with(world, name, archive, "{}");
}

fn write_with(world: &World, name: &str, archive: &Path, config: &str) {
    let (layout, root) = (world.path().join("layout"), world.path().join("root"));
    for left in [&layout, &root].into_iter().filter(|left| left.exists()) {
        fs::remove_dir_all(left).expect("ours, of an image before");
    }
    fs::create_dir_all(layout.join("blobs/sha256")).expect("a folder");
    for (folder, mode) in [("bin", 0o755), ("tmp", 0o777)] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(root.join(folder), mode).expect("ours");
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox is there");
    run(Command::new("chroot").arg(&root).args(["/bin/busybox", "--install", "-s", "/bin"]));
    let blob = |file: &Path| {
        let sum = run(Command::new("sha256sum").arg(file));
        let digest = sum.split(' ').next().expect("a sum");
        fs::copy(file, layout.join("blobs/sha256").join(digest)).expect("room");
        (format!("sha256:{digest}"), fs::metadata(file).expect("a file").len())
    };
    let text = |content: String| blob(Path::new(&world.file("part", &content)));
    let (layer, layer_size) = blob(Path::new(&packed(&root)));
    let (config, config_size) = text(format!(
        r#"{{"architecture":"amd64","os":"linux","config":{config},"rootfs":{{"type":"layers","diff_ids":["{layer}"]}}}}"#
    ));
    let kind = "application/vnd.oci.image";
    let (manifest, size) = text(format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"{kind}.config.v1+json","digest":"{config}","size":{config_size}}},"layers":[{{"mediaType":"{kind}.layer.v1.tar","digest":"{layer}","size":{layer_size}}}]}}"#
    ));
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{kind}.manifest.v1+json","digest":"{manifest}","size":{size},"annotations":{{"io.containerd.image.name":"{name}"}}}}]}}"#
    );
    fs::write(layout.join("index.json"), index).expect("room");
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("room");
    let packed = packed(&layout);
    if Path::new(&packed) != archive {
        fs::rename(packed, archive).expect("both are ours");
    }
}

/// Packs a directory into an archive next to it.
fn packed(folder: &Path) -> String {
    let archive = folder.with_extension("tar").to_str().expect("text").to_owned();
    run(Command::new("tar").args(["-cf", &archive, "-C"]).arg(folder).arg("."));
    archive
}

/// Serves the image like a registry, for clusters that always pull; returns the image name.
pub(crate) fn serve(world: &World) -> (Running, String) {
    import(world);
    let (layout, site) = (world.path().join("layout"), world.path().join("site"));
    let place = |from: &Path, to: &str| {
        let to = site.join("v2/shell").join(to);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("room");
    };
    let index = fs::read(layout.join("index.json")).expect("an index");
    let index: serde_json::Value = serde_json::from_slice(&index).expect("json");
    let manifest = index["manifests"][0]["digest"].as_str().expect("a digest");
    place(&layout.join("blobs").join(manifest.replace(':', "/")), "manifests/1");
    for file in fs::read_dir(layout.join("blobs/sha256")).expect("blobs").flatten() {
        place(&file.path(), &format!("blobs/sha256:{}", file.file_name().to_string_lossy()));
    }
    let site = site.to_str().expect("text");
    let server = world.inside("busybox", &["httpd", "-f", "-p", "127.0.0.1:5050", "-h", site]);
    (Running::start(server), "127.0.0.1:5050/shell:1".to_owned())
}
