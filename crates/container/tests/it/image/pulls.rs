//! Pulls from a registry on loopback.

use std::{collections::BTreeMap, fs};

use container::image::{Error, RegistryAuth, RegistryConfig};
use serde_json::json;

use super::{
    registry::{Access, Registry},
    *,
};

fn parts() -> Parts {
    let low = tar(|archive| file(archive, "low", b"1"));
    let high = tar(|archive| file(archive, "high", b"2"));
    let zstd = zstd::encode_all(&high[..], 1).expect("in memory");
    Parts::new(vec![(low.clone(), gzip(&low)), (high, zstd)])
}

#[tokio::test]
async fn by_tag_and_digest_gzip_and_zstd() {
    let registry = Registry::start(Access::Open).await;
    registry.push("a/b", "v1", &parts());
    let (_dir, store) = store(RegistryConfig::default());
    let name = registry.name("a/b:v1");
    let image = store.pull(&name, None).await.expect("there");
    let digest = registry.name(&format!("a/b@{}", Digest::of(&parts().manifest)));
    assert_eq!((&image.repo_tags, &image.repo_digests), (&vec![name], &vec![digest.clone()]));
    assert_eq!(fs::read(image.layers[1].join("high")).expect("a file"), b"2");
    assert_eq!(store.pull(&digest, None).await.expect("there"), image);
    assert_eq!(registry.requests("/blobs/"), 3, "what is here is not asked for again");
}

#[tokio::test]
async fn an_index_gives_the_manifest_for_this_machine() {
    let registry = Registry::start(Access::Open).await;
    registry.push("a", "unused", &parts());
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let mut ours = describe(&parts().manifest);
    ours["platform"] = json!({"os": "linux", "architecture": architecture});
    let mut other = describe(b"other");
    other["platform"] = json!({"os": "linux", "architecture": "s390x"});
    let index = json!({"schemaVersion": 2, "manifests": [other, ours]}).to_string();
    registry.put("a/manifests/latest", index.as_bytes());
    let (_dir, store) = store(RegistryConfig::default());
    let image = store.pull(&registry.name("a"), None).await.expect("there");
    assert_eq!(image.id, Digest::of(&parts().config).to_string());
    assert_eq!(image.repo_digests, [registry.name(&format!("a@{}", Digest::of(index.as_bytes())))]);
}

#[tokio::test]
async fn credentials() {
    for access in [Access::Basic, Access::Token] {
        let registry = Registry::start(access).await;
        registry.push("private", "latest", &parts());
        let (_dir, store) = store(RegistryConfig::default());
        let name = registry.name("private");
        for auth in [None, Some(RegistryAuth::basic("u", "wrong"))] {
            let error = store.pull(&name, auth.as_ref()).await.expect_err("not ours");
            assert!(matches!(error, Error::Unauthorized { .. }), "{access:?}: {error}");
            assert!(
                error.to_string().contains(&name) && !error.to_string().contains("wrong"),
                "{error}"
            );
        }
        let auth = RegistryAuth::from_base64("dTpw").expect("u:p");
        store.pull(&name, Some(&auth)).await.expect("ours");
        assert!(!format!("{auth:?}").contains("\"p\""), "a password in a log");
        let tokens = usize::from(access == Access::Token);
        assert!(registry.requests("/token") <= 5 * tokens, "a token serves the whole pull");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_said() {
    let registry = Registry::start(Access::Open).await;
    registry.push("a", "latest", &parts());
    let (dir, store) = store(RegistryConfig::default());
    let missing = registry.name("nothing:1");
    let error = store.pull(&missing, None).await.expect_err("missing");
    assert_eq!(error.to_string(), format!("{missing}: not found"));

    let parts = parts();
    let layer = &parts.layers[0];
    let mut wrong = layer.clone();
    *wrong.last_mut().expect("not empty") ^= 1;
    registry.put(&format!("a/blobs/{}", Digest::of(layer)), &wrong);
    let error = store.pull(&registry.name("a"), None).await.expect_err("wrong bytes");
    assert!(error.to_string().contains("has digest"), "{error}");
    registry
        .put(&format!("a/blobs/{}", Digest::of(layer)), &[layer.clone(), vec![0; 100]].concat());
    let error = store.pull(&registry.name("a"), None).await.expect_err("too many bytes");
    assert!(error.to_string().contains("more than"), "{error}");
    let by_digest = registry.name(&format!("a@{}", Digest::of(b"x")));
    registry.put(&format!("a/manifests/{}", Digest::of(b"x")), &parts.manifest);
    let error = store.pull(&by_digest, None).await.expect_err("another manifest");
    assert!(error.to_string().contains("has digest"), "{error}");
    registry.put("huge/manifests/latest", &vec![b' '; 9 << 20]);
    let error = store.pull(&registry.name("huge"), None).await.expect_err("too large");
    assert!(error.to_string().contains("larger than"), "{error}");

    assert_eq!(store.list(), []);
    for part in ["layers", "ingest"] {
        assert_eq!(fs::read_dir(dir.path().join(part)).expect("a folder").count(), 0, "{part}");
    }
    assert!(matches!(store.pull("127.0.0.1:1/a", None).await, Err(Error::Registry(_))));
}

#[tokio::test]
async fn troubles_pass_and_mirrors_help() {
    let registry = Registry::start(Access::Open).await;
    registry.push("library/a", "latest", &parts());
    registry.fail(2);
    let mirrors = vec!["http://127.0.0.1:1".to_owned(), format!("http://{}", registry.address)];
    let endpoints = BTreeMap::from([("docker.io".to_owned(), mirrors)]);
    let (_dir, store) = store(RegistryConfig { endpoints, ..RegistryConfig::default() });
    let image = store.pull("a", None).await.expect("at the third try, from the second mirror");
    assert_eq!(image.repo_tags, ["docker.io/library/a:latest"]);

    let any = vec![format!("http://{}", registry.address)];
    let endpoints = BTreeMap::from([("*".to_owned(), any)]);
    let (_dir, store) = super::store(RegistryConfig { endpoints, ..RegistryConfig::default() });
    let image =
        store.pull("elsewhere.example/library/a", None).await.expect("from the one for all");
    assert_eq!(image.repo_tags, ["elsewhere.example/library/a:latest"]);
}

#[tokio::test]
async fn many_pulls_are_one() {
    let registry = Registry::start(Access::Open).await;
    registry.push("a", "latest", &parts());
    let (_dir, store) = store(RegistryConfig::default());
    let name = registry.name("a");
    let pulls = futures_util::future::join_all((0..10).map(|_| store.pull(&name, None))).await;
    assert!(pulls.iter().all(Result::is_ok));
    assert_eq!((registry.requests("/manifests/"), registry.requests("/blobs/")), (1, 3));
}
