use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
};

use container::image::{BuiltinImage, ImageStore, RegistryConfig};
use serde_json::json;
use tar::{EntryType, Header};

use super::*;

fn base() -> Vec<u8> {
    tar(|archive| {
        entry(archive, "./", EntryType::Directory, "");
        entry(archive, "tmp/", EntryType::Directory, "");
        entry(archive, "old/", EntryType::Directory, "");
        file(archive, "old/gone", b"1");
        file(archive, "bin/run", b"#!");
        entry(archive, "bin/same", EntryType::Link, "bin/run");
        entry(archive, "bin/sym", EntryType::Symlink, "/bin/run");
        entry(archive, "dev/null", EntryType::Char, "");
    })
}

fn upper() -> Vec<u8> {
    tar(|archive| {
        file(archive, "old/.wh.gone", b"");
        file(archive, "bin/.wh..wh..opq", b"");
        file(archive, "tmp/new", b"2");
        let mut header = Header::new_gnu();
        header.set_mode(0o4711);
        header.set_uid(12);
        header.set_gid(13);
        header.set_mtime(1_000_000);
        header.set_size(0);
        // version 2, cap_net_bind_service permitted
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        archive
            .append_pax_extensions([
                ("SCHILY.xattr.security.capability", &capability[..]),
                ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
                ("mtime", b"1000000.5"),
            ])
            .expect("in memory");
        archive.append_data(&mut header, "bin/owned", std::io::empty()).expect("in memory");
    })
}

#[tokio::test]
async fn an_oci_archive_unpacks_with_everything_it_says() {
    let (_dir, store) = store(RegistryConfig::default());
    let parts = Parts::new(vec![
        (base(), gzip(&base())),
        (upper(), zstd::encode_all(&upper()[..], 1).expect("in memory")),
    ]);
    let image =
        import(&store, gzip(&parts.oci_archive("busybox:1"))).await.expect("a good archive");
    assert_eq!(image.id, Digest::of(&parts.config).to_string());
    assert_eq!(image.repo_tags, ["docker.io/library/busybox:1"]);
    assert_eq!(
        image.repo_digests,
        [format!("docker.io/library/busybox@{}", Digest::of(&parts.manifest))]
    );
    assert_eq!(
        (&image.config.user[..], &image.config.volumes[..]),
        ("7:8", &["/v".to_owned()][..])
    );
    for name in ["busybox:1", &image.id, &image.id[7..20], &image.repo_digests[0]] {
        assert_eq!(store.resolve(name).as_ref(), Some(&image), "{name}");
    }
    assert_eq!(store.resolve("busybox"), None);

    let [low, high] = &image.layers[..] else { panic!("two layers") };
    assert_eq!(fs::metadata(low.join("bin/run")).expect("a file").nlink(), 2);
    assert_eq!(fs::read_link(low.join("bin/sym")).expect("a link").to_str(), Some("/bin/run"));
    assert!(fs::metadata(low.join("dev/null")).expect("a device").file_type().is_char_device());
    let whiteout = fs::metadata(high.join("old/gone")).expect("a whiteout");
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    assert_eq!(xattr(&high.join("bin"), "trusted.overlay.opaque").as_deref(), Some(&b"y"[..]));
    let owned = fs::metadata(high.join("bin/owned")).expect("a file");
    assert_eq!((owned.uid(), owned.gid(), owned.mode() & 0o7777), (12, 13, 0o4711));
    assert_eq!((owned.mtime(), owned.mtime_nsec()), (1_000_000, 500_000_000));
    assert!(xattr(&high.join("bin/owned"), "security.capability").is_some());
    assert!(
        xattr(&high.join("bin/owned"), "trusted.overlay.redirect").is_none(),
        "would steer the mount"
    );
}

#[tokio::test]
async fn a_parent_that_a_layer_leaves_out_looks_as_below() {
    let (_dir, store) = store(RegistryConfig::default());
    let low = tar(|archive| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o1777);
        header.set_uid(5);
        header.set_size(0);
        archive.append_data(&mut header, "tmp", std::io::empty()).expect("in memory");
    });
    let high = tar(|archive| file(archive, "tmp/new", b"2"));
    let parts = Parts::new(vec![(low.clone(), low), (high.clone(), high)]);
    let image = import(&store, parts.oci_archive("a")).await.expect("a good archive");
    let tmp = fs::metadata(image.layers[1].join("tmp")).expect("a directory");
    assert_eq!((tmp.mode() & 0o7777, tmp.uid()), (0o1777, 5));
}

#[tokio::test]
async fn a_docker_archive_with_a_shared_layer() {
    let (_dir, store) = store(RegistryConfig::default());
    let parts = Parts::new(vec![(base(), base())]);
    let archive = tar(|archive| {
        file(archive, "c.json", &parts.config);
        file(archive, "one/layer.tar", &base());
        entry(archive, "two/layer.tar", EntryType::Symlink, "../one/layer.tar");
        let manifest = json!([
            {"Config": "c.json", "RepoTags": ["a:1", "b:2"], "Layers": ["two/layer.tar"]}]);
        file(archive, "manifest.json", manifest.to_string().as_bytes());
    });
    let image = import(&store, archive).await.expect("a good archive");
    assert_eq!(image.repo_tags, ["docker.io/library/a:1", "docker.io/library/b:2"]);
    assert!(image.layers[0].join("bin/run").is_file());
}

#[tokio::test]
async fn removal_keeps_what_others_use_and_survives_a_restart() {
    let dir = TempDir::new().expect("a folder");
    let store = ImageStore::open(dir.path(), RegistryConfig::default()).expect("a new store");
    let one = Parts::new(vec![(base(), base())]);
    let two = Parts::new(vec![(base(), base()), (upper(), upper())]);
    let one = import(&store, one.oci_archive("one")).await.expect("a good archive");
    let two = import(&store, two.oci_archive("two")).await.expect("a good archive");
    assert_eq!(one.layers[0], two.layers[0], "shared");
    let before = store.usage();

    store.lease_layers("container", [&two]).expect("it is there");
    store.remove("two").await.expect("removed");
    store.remove("two").await.expect("removed twice is removed");
    drop(store);
    let store = ImageStore::open(dir.path(), RegistryConfig::default()).expect("the same store");
    assert_eq!(store.list(), std::slice::from_ref(&one));
    assert!(two.layers[1].exists(), "a container stands on it");
    assert_eq!(store.holders(), ["container"]);
    store.release_layers("container").await.expect("released");
    assert!(!two.layers[1].exists() && one.layers[0].exists());
    assert!(store.usage().inodes < before.inodes && store.usage().bytes > 0);
    store.remove(&one.id).await.expect("removed");
    assert_eq!(fs::read_dir(dir.path().join("layers")).expect("a folder").count(), 0);
    assert_eq!(fs::read_dir(dir.path().join("blobs/sha256")).expect("a folder").count(), 0);
    assert!(
        ImageStore::open(dir.path(), RegistryConfig::default()).is_err(),
        "one store, one process"
    );
}

#[tokio::test]
async fn a_built_in_image_is_pinned_and_exports() {
    let (dir, store) = store(RegistryConfig::default());
    let executable = dir.path().join("tiphys");
    fs::write(&executable, b"program").expect("a file");
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).expect("a file");
    let builtin = BuiltinImage {
        name: "tiphys.local/hello:1".to_owned(),
        executable: executable.clone(),
        entrypoint: vec!["/tiphys".to_owned()],
        cmd: vec!["hello".to_owned()],
    };
    let image = store.register(builtin.clone()).await.expect("registered");
    assert_eq!(store.register(builtin).await.expect("registered again"), image);
    assert!(image.pinned);
    assert_eq!(
        fs::metadata(image.layers[0].join("tiphys")).expect("a file").ino(),
        fs::metadata(&executable).expect("a file").ino()
    );
    assert_eq!(
        fs::metadata(image.layers[0].join("tmp")).expect("a folder").mode() & 0o7777,
        0o1777
    );
    assert!(store.remove(&image.id).await.is_err());
    assert_eq!(
        store.pull("tiphys.local/hello:1", None).await.expect("never asked of a registry"),
        image
    );

    let exported = dir.path().join("exported.tar");
    store
        .export("tiphys.local/hello:1", fs::File::create(&exported).expect("a file"))
        .await
        .expect("exported");
    let (_other, other) = super::store(RegistryConfig::default());
    let copy = other.import_file(&exported).await.expect("our own archive").remove(0);
    assert_eq!(
        (&copy.id, &copy.repo_digests, &copy.repo_tags),
        (&image.id, &image.repo_digests, &image.repo_tags)
    );
    assert_eq!(fs::read(copy.layers[0].join("tiphys")).expect("a file"), b"program");
}

fn xattr(path: &std::path::Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64];
    let length = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}
