use api::{
    apps::DaemonSet,
    core::{Pod, ServiceAccount},
};
use client::{Api, Client, Selectors};
use controllers::{Config, service_account_client};
use object::NamespacedName;
use runtime::Context;
use testkit::TestCluster;

use crate::world::{tree, until};

/// With its own token a controller may do what its service account may, and no more.
#[tokio::test]
async fn a_controller_shows_its_own_token() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let nobody = cluster.client_with_auth(client::Auth::None);
    let account = |name: &str| service_account_client(&admin, nobody.config(), name);

    let cx = Context::new(&admin);
    let config = Config { controllers: vec!["daemonset".into()], ..Config::default() };
    controllers::start(&cx, &config, &account);
    let text = r#"{"metadata":{"name":"default","namespace":"default"}}"#;
    Api::<ServiceAccount>::new(&admin).create(tree(text).into()).await.unwrap();
    let node = tree(r#"{"metadata":{"name":"a"}}"#);
    let nodes = Api::<api::core::Node>::new(&admin);
    nodes.create(node.into()).await.unwrap();
    let ready = client::Patch::Merge(tree(r#"{"spec":{"taints":null}}"#));
    nodes.patch(&object::NamespacedName::new("", "a"), &ready).await.unwrap();
    let set = r#"{"metadata":{"name":"ds","namespace":"default"},"spec":{
        "selector":{"matchLabels":{"app":"ds"}},"template":{"metadata":{"labels":{"app":"ds"}},
        "spec":{"containers":[{"name":"c","image":"one"}]}}}}"#;
    Api::<DaemonSet>::new(&admin).create(tree(set).into()).await.unwrap();
    let pods = Api::<Pod>::new(&admin).namespaced("default");
    until("a pod", async || {
        let all = pods.list_all(&Selectors::default()).await.unwrap().items;
        if all.len() == 1 { Ok(()) } else { Err(all) }
    })
    .await;
    let accounts = Api::<ServiceAccount>::new(&admin);
    let made = accounts.get(&NamespacedName::new("kube-system", "daemon-set-controller")).await;
    assert!(made.is_ok(), "the account was made for it");

    let nodes = |client: &Client| {
        let nodes = Api::<api::core::Node>::new(client);
        async move { nodes.list_all(&Selectors::default()).await }
    };
    assert!(nodes(&account("job-controller")).await.unwrap_err().is_forbidden());
    assert!(nodes(&account("daemon-set-controller")).await.is_ok());
    cx.stop().await;
    cluster.stop().await;
}
