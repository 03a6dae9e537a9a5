//! Images are imported from archives, pulled from registries, listed, exported and removed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::world::{Running, World, run};

const BUILT_IN: &str = "tiphys.local/hello:1";
const MADE: &str = "example.test/made:1";
const PULLED: &str = "127.0.0.1:5050/mine/made:1";
/// The same image under a name whose registry host has a mirror.
const MIRRORED: &str = "mirrored.test/mine/made:1";

#[test]
fn images_come_and_go() {
    let world = World::new("images");
    let mirror = ["--registry", "mirrored.test=http://127.0.0.1:5050"];
    world.tiphys(&[&["up", "--node-name", "n1", "--disable", "dns"], &mirror[..]].concat());
    let listed = |name: &str| {
        world.tiphys(&["image", "list"]).lines().any(|line| line.starts_with(&format!("{name} ")))
    };
    assert!(listed(BUILT_IN));
    let pinned = world.try_tiphys(&["image", "rm", BUILT_IN]);
    assert!(pinned.starts_with("image: ") && listed(BUILT_IN), "{pinned}");

    // imported from an archive, under the name in the archive
    let archive = packed(&make(&world));
    assert_eq!(world.tiphys(&["image", "import", &archive]), format!("{MADE}\n"));
    assert!(listed(MADE));

    // exported again, to be served by a registry
    let out = world.path().join("out.tar").to_str().expect("text").to_owned();
    world.tiphys(&["image", "export", MADE, &out]);
    let site = registry(&world, &out);
    let site = ["httpd", "-f", "-p", "127.0.0.1:5050", "-h", &site];
    let _site = Running::start(world.inside("busybox", &site));
    world.tiphys(&["image", "rm", MADE]);
    assert!(!listed(MADE));
    world.until("the registry gives the image", || {
        world.try_tiphys(&["image", "pull", PULLED]).starts_with("sha256:")
    });
    assert!(listed(PULLED));
    world.tiphys(&["image", "rm", PULLED]);
    assert!(world.tiphys(&["image", "pull", MIRRORED]).starts_with("sha256:"));
    assert!(listed(MIRRORED));
    world.tiphys(&["image", "rm", MIRRORED]);
    world.tiphys(&["image", "pull", PULLED]);

    // removed while a container uses it: the container keeps running
    let pod = ["run", "mine", "--image", PULLED, "--image-pull-policy", "Never", "--command"];
    world.kubectl(&[&pod[..], &["--", "/busybox", "sleep", "3600"]].concat());
    world.until("a pod runs from it", || {
        world.try_kubectl(&["get", "pod", "mine", "-o", "jsonpath={.status.phase}"]) == "Running"
    });
    world.tiphys(&["image", "rm", PULLED]);
    assert!(!listed(PULLED));
    assert_eq!(world.kubectl(&["exec", "mine", "--", "/busybox", "echo", "here"]), "here\n");
    let twice = world.try_tiphys(&["image", "rm", PULLED]);
    assert!(twice.contains("not found"), "{twice}");

    // errors name the cause
    for (wrong, why) in [
        (&["import", "/dev/null"][..], "image: "),
        (&["import", "/nowhere"], "cannot read /nowhere"),
        (&["export", MADE, &out], MADE),
        (&["pull", "127.0.0.1:5050/mine/none:1"], "mine/none"),
        (&["pull", "127.0.0.1:1/none:1"], "127.0.0.1:1"),
    ] {
        let said = world.try_tiphys(&[&["image"], wrong].concat());
        assert!(said.starts_with("image: ") && said.contains(why), "{wrong:?}: {said}");
    }
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
    let away = world.try_tiphys(&["image", "list"]);
    assert!(away.contains("no node runs here"), "{away}");
}

/// Creates the OCI layout of an image with one program in it.
fn make(world: &World) -> PathBuf {
    let (layout, root) = (world.path().join("layout"), world.path().join("root"));
    fs::create_dir_all(layout.join("blobs/sha256")).expect("a folder");
    fs::create_dir(&root).expect("a folder");
    fs::copy("/bin/busybox", root.join("busybox")).expect("busybox is there");
    let blob = |file: &Path| {
        let sum = run(Command::new("sha256sum").arg(file));
        let digest = sum.split(' ').next().expect("a sum");
        fs::copy(file, layout.join("blobs/sha256").join(digest)).expect("room");
        let size = fs::metadata(file).expect("a file").len();
        (format!("sha256:{digest}"), size)
    };
    let text = |content: String| blob(Path::new(&world.file("part", &content)));
    let (layer, layer_size) = blob(Path::new(&packed(&root)));
    let (config, config_size) = text(format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{layer}"]}}}}"#
    ));
    let kind = "application/vnd.oci.image";
    let (manifest, size) = text(format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"{kind}.config.v1+json","digest":"{config}","size":{config_size}}},"layers":[{{"mediaType":"{kind}.layer.v1.tar","digest":"{layer}","size":{layer_size}}}]}}"#
    ));
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{kind}.manifest.v1+json","digest":"{manifest}","size":{size},"annotations":{{"io.containerd.image.name":"{MADE}"}}}}]}}"#
    );
    fs::write(layout.join("index.json"), index).expect("room");
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("room");
    layout
}

/// Packs a directory into an archive next to it.
fn packed(folder: &Path) -> String {
    let archive = folder.with_extension("tar").to_str().expect("text").to_owned();
    run(Command::new("tar").args(["-cf", &archive, "-C"]).arg(folder).arg("."));
    archive
}

/// Unpacks an archive into the paths that a registry serves.
fn registry(world: &World, archive: &str) -> String {
    let layout = world.path().join("given");
    fs::create_dir(&layout).expect("a folder");
    run(Command::new("tar").args(["-xf", archive, "-C"]).arg(&layout));
    let index = fs::read(layout.join("index.json")).expect("an index");
    let index: serde_json::Value = serde_json::from_slice(&index).expect("json");
    let manifest = index["manifests"][0]["digest"].as_str().expect("a digest");
    let site = world.path().join("site");
    let place = |from: &Path, to: &str| {
        let to = site.join("v2/mine/made").join(to);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("room");
    };
    place(&layout.join("blobs").join(manifest.replace(':', "/")), "manifests/1");
    for file in fs::read_dir(layout.join("blobs/sha256")).expect("blobs").flatten() {
        place(&file.path(), &format!("blobs/sha256:{}", file.file_name().to_string_lossy()));
    }
    site.to_str().expect("text").to_owned()
}
