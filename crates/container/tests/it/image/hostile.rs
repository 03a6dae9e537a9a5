//! Archives made to harm: nothing may come to lie outside, nothing may be left behind.

use std::{fs, path::Path};

use container::image::{Image, Registries, Result};
use tar::EntryType;

use super::*;

type Fill<'a> = dyn Fn(&mut Builder<Vec<u8>>) + 'a;

/// Imports an image with this one layer.
async fn with_layer(store: &Store, layer: Vec<u8>) -> Result<Image> {
    import(store, Parts::new(vec![(layer.clone(), layer)]).oci_archive("hostile")).await
}

#[tokio::test]
async fn no_entry_leads_out() {
    let outside = TempDir::new().expect("a folder");
    fs::write(outside.path().join("secret"), b"untouched").expect("a file");
    let target = outside.path().to_str().expect("text");
    let (dir, store) = store(Registries::default());
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
    let (_dir, store) = store(Registries::default());
    // `out` is an absolute link; a file below it lands inside the layer or nowhere.
    let layer = tar(|a| {
        entry(a, "out", EntryType::Symlink, target);
        file(a, "out/file", b"hostile");
    });
    assert!(with_layer(&store, layer).await.is_err(), "the target does not exist inside");
    let layer = tar(|a| {
        file(a, &format!("{}/inside", target.trim_start_matches('/')), b"");
        entry(a, "out", EntryType::Symlink, target);
        file(a, "out/file", b"hostile");
        // a file replaces the link, it is not written through
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
    let (_dir, store) = store(Registries::default());
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
