//! Malicious archives: nothing is written outside the layer, and nothing is left behind.

use std::{fs, path::Path};

use container::image::{Image, RegistryConfig, Result};
use tar::EntryType;

use super::*;

type Fill<'a> = dyn Fn(&mut Builder<Vec<u8>>) + 'a;

/// Imports an image with this single layer.
async fn with_layer(store: &ImageStore, layer: Vec<u8>) -> Result<Image> {
    import(store, Parts::new(vec![(layer.clone(), layer)]).oci_archive("hostile")).await
}

#[tokio::test]
async fn no_entry_leads_out() {
    let outside = TempDir::new().expect("a folder");
    fs::write(outside.path().join("secret"), b"untouched").expect("a file");
    let target = outside.path().to_str().expect("text");
    let (dir, store) = store(RegistryConfig::default());
    let refused: [(&str, &Fill<'_>); 5] = [
        ("parent", &|a| entry(a, "../../../escaped", EntryType::Regular, "")),
        ("parent in the middle", &|a| entry(a, "a/../../escaped", EntryType::Directory, "")),
        ("hard link up", &|a| entry(a, "link", EntryType::Link, "../../../../etc/passwd")),
        ("hard link to an absolute path", &|a| entry(a, "link", EntryType::Link, "/etc/passwd")),
        ("hard link through a link", &|a| {
            entry(a, "out", EntryType::Symlink, target);
            entry(a, "link", EntryType::Link, "out/secret");
        }),
    ];
    for (what, fill) in refused {
        assert!(with_layer(&store, tar(fill)).await.is_err(), "{what}");
    }
    assert_eq!(fs::read_dir(dir.path().join("layers")).expect("a folder").count(), 0);
    assert_eq!(
        fs::read_dir(dir.path().join("ingest")).expect("a folder").count(),
        0,
        "nothing is left"
    );
}

#[tokio::test]
async fn links_are_followed_inside_only() {
    let outside = TempDir::new().expect("a folder");
    let target = outside.path().to_str().expect("text");
    let (_dir, store) = store(RegistryConfig::default());
    // `out` is an absolute symlink; a file below it is created inside the layer or not at all.
    let layer = tar(|a| {
        entry(a, "out", EntryType::Symlink, target);
        file(a, "out/file", b"hostile");
    });
    assert!(with_layer(&store, layer).await.is_err(), "the target does not exist inside");
    let layer = tar(|a| {
        file(a, &format!("{}/inside", target.trim_start_matches('/')), b"");
        entry(a, "out", EntryType::Symlink, target);
        file(a, "out/file", b"hostile");
        // a file replaces the symlink and is not written through it
        entry(a, "over", EntryType::Symlink, &format!("{target}/over"));
        file(a, "over", b"plain");
        entry(a, "/absolute", EntryType::Directory, "");
    });
    let image = with_layer(&store, layer).await.expect("stays inside");
    let root = &image.layers[0];
    let inside = root.join(Path::new(target).strip_prefix("/").expect("absolute"));
    assert_eq!(fs::read(inside.join("file")).expect("inside"), b"hostile");
    assert_eq!(fs::read(root.join("over")).expect("a file"), b"plain");
    assert!(root.join("absolute").is_dir());
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 0, "outside is untouched");
}

#[tokio::test]
async fn content_that_is_not_what_it_says() {
    let (_dir, store) = store(RegistryConfig::default());
    let layer = tar(|a| file(a, "file", b"1"));
    let other = tar(|a| file(a, "file", b"2"));
    let wrong = Parts::new(vec![(other, layer.clone())]);
    let error = import(&store, wrong.oci_archive("a")).await.expect_err("another layer");
    assert!(error.to_string().contains("its image says"), "{error}");

    let parts = Parts::new(vec![(layer.clone(), layer)]);
    let archive = tar(|a| {
        file(a, &format!("blobs/sha256/{}", Digest::of(&parts.manifest).hex()), b"{}");
        let index =
            serde_json::json!({"schemaVersion": 2, "manifests": [describe(&parts.manifest)]})
                .to_string();
        file(a, "index.json", index.as_bytes());
    });
    let error = import(&store, archive).await.expect_err("another manifest");
    assert!(error.to_string().contains("has digest"), "{error}");
    for junk in [
        &b"not an archive at all, but long enough to be a header?"[..],
        b"",
        &[0x1f, 0x8b, 1, 2, 3],
    ] {
        assert!(import(&store, junk.to_vec()).await.is_err());
    }
    assert_eq!(store.list(), []);
}

/// Less than a megabyte that unpacks to more than half a gigabyte: rejected before it is on disk, and nothing is left.
#[tokio::test]
async fn a_layer_that_grows_too_much_is_refused() {
    let size: u64 = 600 << 20;
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_path("zeros").expect("short");
    header.set_cksum();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let chunk = vec![0; 1 << 20];
    let parts = std::iter::once(&header.as_bytes()[..])
        .chain(std::iter::repeat_n(&chunk[..], 600))
        .chain([&[0; 1024][..]]);
    for part in parts {
        context.update(part);
        encoder.write_all(part).expect("in memory");
    }
    let stored = encoder.finish().expect("in memory");
    assert!(stored.len() < 1 << 20);
    let diff: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let (dir, store) = store(RegistryConfig::default());
    let parts = Parts::of_diffs(vec![(format!("sha256:{diff}"), stored)]);
    let error = import(&store, parts.oci_archive("bomb")).await.expect_err("too large");
    assert!(error.to_string().contains("more than 536870912 bytes"), "{error}");
    for folder in ["layers", "ingest"] {
        assert_eq!(fs::read_dir(dir.path().join(folder)).expect("a folder").count(), 0);
    }
}

/// Paths of directories are kept in memory until the end of a layer.
#[tokio::test]
async fn names_take_no_more_memory_than_they_may() {
    let long = vec!["d".repeat(250); 15].join("/");
    let layer = tar(|a| {
        for number in 0..5_000 {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            let path = format!("{long}/{}", number % 7);
            a.append_data(&mut header, path, std::io::empty()).expect("in memory");
        }
    });
    let (_dir, store) = store(RegistryConfig::default());
    let parts = Parts::new(vec![(layer.clone(), layer)]);
    let error = import(&store, parts.oci_archive("names")).await.expect_err("too many");
    assert!(error.to_string().contains("too many long names"), "{error}");
}

/// The file system of the images is never filled completely.
#[tokio::test]
async fn something_of_the_disk_is_left() {
    let dir = TempDir::new().expect("a folder");
    let disk =
        sys::mount::new_filesystem("tmpfs", &[("size", Some("64m"))], 0).expect("a file system");
    let place = sys::descriptor::open_path(dir.path()).expect("a folder");
    sys::mount::attach_tree(disk, place).expect("mounted");
    let images = dir.path().join("images");
    let store = ImageStore::open(&images, RegistryConfig::default()).expect("a store");
    let layer = tar(|a| file(a, "zeros", &vec![0; 100 << 20]));
    let stored = gzip(&layer);
    let refused = import(&store, Parts::new(vec![(layer, stored)]).oci_archive("large")).await;
    let left = fs::read_dir(images.join("ingest")).expect("a folder").count();
    drop(store);
    sys::mount::lazy_unmount(dir.path()).expect("unmounted");
    let error = refused.expect_err("too large for the disk").to_string();
    assert!(error.contains("kept free"), "{error}");
    assert_eq!(left, 0);
}

/// A tree deeper than any path, made by links: removing it must not use paths or recursion.
#[tokio::test]
async fn a_deep_layer_is_removed_again() {
    let layer = tar(|a| {
        let step = ["d"; 200].join("/");
        file(a, &format!("{step}/file"), b"");
        let mut below = step.clone();
        for number in 0..60 {
            let link = format!("l{number}");
            entry_link(a, &link, &below);
            below = format!("{link}/{step}");
            file(a, &format!("{below}/file"), b"");
        }
        entry(a, "refused", EntryType::Link, "nowhere");
    });
    let (dir, store) = store(RegistryConfig::default());
    assert!(with_layer(&store, layer).await.is_err());
    assert_eq!(fs::read_dir(dir.path().join("ingest")).expect("a folder").count(), 0);
}

fn entry_link(archive: &mut Builder<Vec<u8>>, path: &str, to: &str) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    archive.append_link(&mut header, path, to).expect("in memory");
}

/// Configurations that would use unlimited memory, or create unlimited directories.
#[tokio::test]
async fn configurations_are_bounded() {
    let (_dir, store) = store(RegistryConfig::default());
    let layer = tar(|a| file(a, "file", b"1"));
    let volumes: serde_json::Map<_, _> =
        (0..10_000).map(|number| (format!("/v{number}"), json!({}))).collect();
    for config in [
        json!({"User": "u".repeat(1 << 20)}),
        json!({"WorkingDir": "/w".repeat(1 << 19)}),
        json!({"Env": vec!["e".repeat(1000); 5000]}),
        json!({"Volumes": volumes}),
    ] {
        let parts = Parts::with_config(vec![(layer.clone(), layer.clone())], &config);
        let error = import(&store, parts.oci_archive("big")).await.expect_err("too large");
        assert!(error.to_string().contains("image configuration with"), "{error}");
    }
    let labels = json!({"Labels": {"a": "l".repeat(1 << 20)}});
    let parts = Parts::with_config(vec![(layer.clone(), layer)], &labels);
    let image = import(&store, parts.oci_archive("labels")).await.expect("labels are for people");
    assert!(image.config.labels.is_empty());
}

/// A manifest that lies about sizes: they are what the node reports, and what garbage collection counts with.
#[tokio::test]
async fn sizes_are_those_of_the_content() {
    let (dir, store) = store(RegistryConfig::default());
    let layer = tar(|a| file(a, "file", b"1"));
    let mut parts = Parts::new(vec![(layer.clone(), layer)]);
    let honest = String::from_utf8(parts.manifest.clone()).expect("text");
    for size in ["18446744073709551615", "9223372036854775807", "1"] {
        let own = format!("\"size\":{}", parts.layers[0].len());
        parts.manifest = honest.replace(&own, &format!("\"size\":{size}")).into_bytes();
        let error = import(&store, parts.oci_archive("lies")).await.expect_err("another size");
        assert!(error.to_string().contains("its manifest says"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path().join("layers")).expect("a folder").count(), 0);
    parts.manifest = honest.into_bytes();
    let mut archive = parts.oci_archive("lies");
    let own = format!("\"size\":{}", parts.manifest.len());
    let at = archive.windows(own.len()).position(|text| text == own.as_bytes());
    let at = at.expect("what the index says of the manifest") + "\"size\":".len();
    archive[at] = b'9';
    let image = import(&store, archive).await.expect("only the index lies");
    let sum: usize = parts.blobs().map(Vec::len).sum();
    assert_eq!(image.size, (sum + parts.manifest.len()) as u64);
}
