//! Restart of a server: objects persist, and watches resume.

use api::core::ConfigMap;
use client::{Selectors, WatchStart};
use object::NamespacedName;
use testkit::TestCluster;

use crate::{config_map, of, revision, watches::next};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_stay_and_a_watch_resumes() {
    let folder = tempfile::TempDir::new().unwrap();
    let (seen, missed) = {
        let cluster = TestCluster::start_on_disk(folder.path()).await;
        let maps = of::<ConfigMap>(&cluster.admin_client());
        let seen = maps.create(config_map("seen")).await.unwrap();
        let missed = maps.create(config_map("missed")).await.unwrap();
        cluster.stop().await;
        (seen, missed)
    };
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let read = maps.get(&NamespacedName::new("default", "seen")).await.unwrap();
    assert_eq!(read, seen);
    let mut watch =
        maps.watch(&Selectors::default(), WatchStart::After(revision(&seen))).await.unwrap();
    assert_eq!(next(&mut watch).await, ("added", "missed".to_owned()));
    let newer = maps.create(config_map("newer")).await.unwrap();
    assert_eq!(next(&mut watch).await, ("added", "newer".to_owned()));
    assert!(revision(&newer) > revision(&missed));
}
