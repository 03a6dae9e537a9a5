//! Lists: pagination and selectors.

use api::core::ConfigMap;
use client::{DeleteParams, ListParams, Patch, Selectors};
use object::NamespacedName;
use testkit::TestCluster;

use crate::{config_map, labelled, name, of, tree};

#[tokio::test]
async fn all_pages_show_one_revision_whatever_happens_between_them() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for at in 0..10 {
        maps.create(labelled(&format!("m{at}"), "x")).await.unwrap();
    }
    let selection = Selectors::labels("app=x");
    let mut page = ListParams { limit: 3, ..ListParams::default() };
    let (mut found, mut revisions) = (Vec::new(), Vec::new());
    for round in 0.. {
        let list = maps.list(&selection, &page).await.unwrap();
        found.extend(list.items.iter().map(|item| name(item).to_owned()));
        revisions.push(list.revision);
        if list.continue_.is_empty() {
            break;
        }
        page.continue_ = list.continue_;
        maps.create(labelled(&format!("m{round}-late"), "x")).await.unwrap();
        maps.delete(
            &NamespacedName::new("default", &format!("m{}", 9 - round)),
            &DeleteParams::default(),
        )
        .await
        .unwrap();
        let away = Patch::Merge(tree(r#"{"metadata":{"labels":{"app":"y"}}}"#));
        maps.patch(&NamespacedName::new("default", &format!("m{}", 4 + round)), &away)
            .await
            .unwrap();
    }
    let expected: Vec<String> = (0..10).map(|at| format!("m{at}")).collect();
    assert_eq!(found, expected);
    assert!(revisions.windows(2).all(|pair| pair[0] == pair[1]), "{revisions:?}");
}

#[tokio::test]
async fn a_page_says_how_many_follow() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for at in 0..5 {
        maps.create(config_map(&format!("m{at}"))).await.unwrap();
    }
    let page = ListParams { limit: 2, ..ListParams::default() };
    let list = maps.list(&Selectors::default(), &page).await.unwrap();
    assert_eq!((list.items.len(), list.remaining), (2, Some(3)));
}

#[tokio::test]
async fn a_name_is_found_in_every_namespace() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    maps.create(config_map("same")).await.unwrap();
    maps.namespaced("kube-system").create(config_map("same")).await.unwrap();
    let all = maps.namespaced("");
    let list = all.list_all(&Selectors::fields("metadata.name=same")).await.unwrap();
    assert_eq!(list.items.len(), 2);
}

#[tokio::test]
async fn an_exact_list_shows_what_was() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let newest = maps.list_all(&Selectors::default()).await.unwrap().revision;
    let exact = ListParams {
        resource_version: newest.to_string(),
        resource_version_match: "Exact".to_owned(),
        ..ListParams::default()
    };
    maps.create(config_map("later")).await.unwrap();
    let then = maps.list(&Selectors::default(), &exact).await.unwrap();
    assert!(then.items.iter().all(|item| name(item) != "later"), "it shows what was");
}
