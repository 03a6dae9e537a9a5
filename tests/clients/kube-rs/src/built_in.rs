//! A `ConfigMap` from creation to deletion, and a `Deployment` by its subresources.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::delete::delete_and_finalize,
};
use serde_json::json;

use crate::{NAMESPACE, watching::Seen};

pub(crate) async fn story(client: &Client) -> Result<()> {
    for streaming in [false, true] {
        config_map(client, streaming).await?;
    }
    lists(client).await?;
    deployment(client).await
}

async fn config_map(client: &Client, streaming: bool) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut seen = Seen::begin(&api, streaming).await?;
    let value = |object: &ConfigMap, key: &str| {
        object.data.as_ref().and_then(|data| data.get(key)).cloned().unwrap_or_default()
    };

    let object = serde_json::from_value(
        json!({"metadata": {"name": "one", "labels": {"story": "built-in"}}, "data": {"a": "1", "b": "2"}}),
    )?;
    let made = api.create(&PostParams::default(), &object).await?;
    ensure!(made.uid().is_some() && made.resource_version().is_some(), "{made:?}");
    seen.changed(|object| value(object, "a") == "1").await?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
        }
        other => anyhow::bail!("made twice: {other:?}"),
    }

    let mut changed = made.clone();
    changed.data.get_or_insert_default().insert("a".into(), "replaced".into());
    api.replace("one", &PostParams::default(), &changed).await?;
    seen.changed(|object| value(object, "a") == "replaced").await?;
    match api.replace("one", &PostParams::default(), &changed).await {
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "Conflict" => {}
        other => anyhow::bail!("replaced by an old one: {other:?}"),
    }

    let plain = PatchParams::default();
    let merge = json!({"data": {"a": "merged", "b": null}});
    let patched = api.patch("one", &plain, &Patch::Merge(&merge)).await?;
    ensure!(value(&patched, "b").is_empty(), "{patched:?}");
    seen.changed(|object| value(object, "a") == "merged").await?;
    let strategic =
        json!({"data": {"a": "strategic"}, "metadata": {"finalizers": ["example.com/wait"]}});
    api.patch("one", &plain, &Patch::Strategic(&strategic)).await?;
    seen.changed(|object| value(object, "a") == "strategic" && object.finalizers().len() == 1)
        .await?;
    let steps = serde_json::from_value(json!([
        {"op": "test", "path": "/data/a", "value": "strategic"},
        {"op": "replace", "path": "/data/a", "value": "json"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]))?;
    api.patch("one", &plain, &Patch::<ConfigMap>::Json(steps)).await?;
    seen.changed(|object| value(object, "a") == "json" && object.finalizers().is_empty()).await?;

    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "applied"}});
    match api.patch("one", &PatchParams::apply("kube-rs"), &Patch::Apply(&apply)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => anyhow::bail!("no conflict: {other:?}"),
    }
    let forced = PatchParams::apply("kube-rs").force();
    let applied = api.patch("one", &forced, &Patch::Apply(&apply)).await?;
    let manager = |object: &ConfigMap| {
        object.managed_fields().iter().any(|entry| entry.operation.as_deref() == Some("Apply"))
    };
    ensure!(manager(&applied), "{applied:?}");
    seen.changed(|object| value(object, "a") == "applied").await?;

    delete_and_finalize(api, "one", &DeleteParams::default()).await?;
    seen.deleted("one").await
}

/// Pages, metadata alone, deletion of all.
async fn lists(client: &Client) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    for number in 0..5 {
        let object =
            json!({"metadata": {"name": format!("page-{number}"), "labels": {"page": "yes"}}});
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    let mut names = Vec::new();
    let mut page = ListParams::default().labels("page=yes").limit(2);
    loop {
        let list = api.list(&page).await?;
        names.extend(list.iter().map(kube::ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    ensure!(names == ["page-0", "page-1", "page-2", "page-3", "page-4"], "{names:?}");
    let all = ListParams::default().labels("page=yes");
    ensure!(api.list_metadata(&all).await?.items.len() == 5, "metadata of five");
    ensure!(api.get_metadata("page-0").await?.metadata.uid.is_some(), "metadata of one");
    api.delete_collection(&DeleteParams::default(), &all).await?;
    ensure!(api.list(&all).await?.items.is_empty(), "some are left");
    Ok(())
}

/// A deployment that runs nothing: its scale and its status.
async fn deployment(client: &Client) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let object = serde_json::from_value(json!({
        "metadata": {"name": "none"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "none"}},
            "template": {
                "metadata": {"labels": {"app": "none"}},
                "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "main", "image": "tiphys.local/hello:1"}]},
            },
        },
    }))?;
    api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await?;
    ensure!(api.get_opt("none").await?.is_none(), "a dry run left something");
    api.create(&PostParams::default(), &object).await?;
    let params = PatchParams::default();
    let scale =
        api.patch_scale("none", &params, &Patch::Merge(json!({"spec": {"replicas": 2}}))).await?;
    ensure!(scale.spec.and_then(|spec| spec.replicas) == Some(2), "not scaled");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}}});
    let patched = api.patch("none", &params, &Patch::Strategic(image)).await?;
    let containers = patched.spec.template.spec.map(|spec| spec.containers);
    let kept =
        containers.is_some_and(|containers| containers.len() == 1 && containers[0].image.is_some());
    ensure!(kept, "a strategic patch lost the image");
    api.delete("none", &DeleteParams::foreground()).await?;
    Ok(())
}
