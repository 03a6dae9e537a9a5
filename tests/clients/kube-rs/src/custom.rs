//! A custom kind, typed and as plain JSON.

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    runtime::{
        conditions,
        wait::{await_condition, delete::delete_and_finalize},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{NAMESPACE, watching::Seen};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "kube-rs.example.com", version = "v1", kind = "Boat", namespaced, shortname = "bt")]
#[kube(
    status = "BoatStatus",
    scale(spec_replicas_path = ".spec.oars", status_replicas_path = ".status.oars")
)]
pub(crate) struct BoatSpec {
    #[schemars(length(min = 1))]
    name: String,
    #[serde(default = "two")]
    #[schemars(range(max = 8))]
    oars: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct BoatStatus {
    oars: i32,
}

fn two() -> i32 {
    2
}

pub(crate) async fn story(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = Boat::crd();
    let name = definition.name_any();
    let apply = PatchParams::apply("kube-rs").force();
    definitions.patch(&name, &apply, &Patch::Apply(&definition)).await?;
    await_condition(definitions.clone(), &name, conditions::is_crd_established()).await?;
    let ended = boats(client).await;
    delete_and_finalize(definitions, &name, &DeleteParams::default()).await?;
    ended
}

async fn boats(client: &Client) -> Result<()> {
    let api: Api<Boat> = Api::namespaced(client.clone(), NAMESPACE);
    let mut seen = Seen::begin(&api, true).await?;
    let labelled = json!({
        "apiVersion": "kube-rs.example.com/v1", "kind": "Boat",
        "metadata": {"name": "argo", "labels": {"story": "custom"}}, "spec": {"name": "Argo"},
    });
    // as JSON: no field of the type is filled in on this side
    let plain: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::erase::<Boat>(&()));
    plain.create(&PostParams::default(), &serde_json::from_value(labelled.clone())?).await?;
    seen.changed(|boat| boat.spec.oars == 2).await?;

    let params = PatchParams::default();
    match api.patch("argo", &params, &Patch::Merge(json!({"spec": {"oars": 9}}))).await {
        Err(kube::Error::Api(status)) if status.code == 422 => {}
        other => anyhow::bail!("more oars than the schema allows: {other:?}"),
    }
    api.patch("argo", &params, &Patch::Merge(json!({"spec": {"oars": 3}}))).await?;
    seen.changed(|boat| boat.spec.oars == 3).await?;
    let steps =
        serde_json::from_value(json!([{"op": "replace", "path": "/spec/oars", "value": 4}]))?;
    api.patch("argo", &params, &Patch::<Boat>::Json(steps)).await?;
    seen.changed(|boat| boat.spec.oars == 4).await?;
    match api.patch("argo", &params, &Patch::Strategic(json!({"spec": {"oars": 5}}))).await {
        Err(kube::Error::Api(status)) if status.code == 415 => {}
        other => anyhow::bail!("custom kinds take no strategic patch: {other:?}"),
    }
    let mut apply = labelled;
    apply["spec"]["oars"] = 6.into();
    api.patch("argo", &PatchParams::apply("kube-rs").force(), &Patch::Apply(&apply)).await?;
    seen.changed(|boat| boat.spec.oars == 6).await?;

    let status = api
        .patch_status(
            "argo",
            &params,
            &Patch::Merge(json!({"status": {"oars": 6}, "spec": {"oars": 1}})),
        )
        .await?;
    ensure!(status.spec.oars == 6, "a status patch changed the spec");
    seen.changed(|boat| boat.status.as_ref().is_some_and(|status| status.oars == 6)).await?;
    let scale = api.get_scale("argo").await?;
    ensure!(scale.status.is_some_and(|status| status.replicas == 6), "not the status's replicas");
    api.patch_scale("argo", &params, &Patch::Merge(json!({"spec": {"replicas": 7}}))).await?;
    let boat = seen.changed(|boat| boat.spec.oars == 7).await?;
    ensure!(boat.metadata.generation == Some(5), "generation {:?}", boat.metadata.generation);

    api.delete("argo", &DeleteParams::default()).await?;
    seen.deleted("argo").await
}
