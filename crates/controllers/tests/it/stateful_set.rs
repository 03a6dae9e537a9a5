use api::{
    apps::StatefulSet,
    core::{PersistentVolumeClaim, Pod},
};

use crate::{World, world::until};

const SET: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"serviceName":"web",
    "selector":{"matchLabels":{"app":"web"}},
    "volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],
        "resources":{"requests":{"storage":"1Gi"}}}}],
    "template":{"metadata":{"labels":{"app":"web"}},
        "spec":{"containers":[{"name":"c","image":"one"}]}}}}"#;

fn names(pods: &[Pod]) -> Vec<String> {
    let alive = pods.iter().filter(|pod| pod.is_active());
    alive.map(|pod| pod.metadata().name().to_owned()).collect()
}

#[tokio::test]
async fn pods_have_names_and_claims_and_roll_in_order() {
    let world = World::start(&["statefulset"]).await;
    world.make::<StatefulSet>(SET).await;
    world.until_all::<Pod>("the first", |pods| names(pods) == ["web-0"]).await;
    world.run_pods().await;
    world.until_all::<Pod>("the second", |pods| names(pods) == ["web-0", "web-1"]).await;
    world.run_pods().await;
    let full = |set: &StatefulSet| set.status().available_replicas() == 2;
    let set = world.until_one::<StatefulSet>("web", "both", full).await;
    assert_eq!(set.status().current_revision(), set.status().update_revision());
    let claims: Vec<String> = world
        .all::<PersistentVolumeClaim>()
        .await
        .iter()
        .map(|claim| claim.metadata().name().to_owned())
        .collect();
    assert_eq!(claims, ["data-web-0", "data-web-1"]);

    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"two"}]}}}}"#;
    world.change::<StatefulSet>("web", image).await;
    until("all pods of the new template", async || {
        world.run_pods().await;
        let set = world.get::<StatefulSet>("web").await;
        let status = set.status();
        let done = status.current_revision() == status.update_revision()
            && status.updated_replicas() == 2
            && set.metadata().generation() == status.observed_generation();
        if done { Ok(()) } else { Err(set) }
    })
    .await;
    let images = world.all::<Pod>().await;
    let image = |pod: &Pod| pod.spec().containers().iter().next().map(|c| c.image().to_owned());
    assert!(images.iter().all(|pod| image(pod).as_deref() == Some("two")));

    world.change::<StatefulSet>("web", r#"{"spec":{"replicas":0}}"#).await;
    world.until_all::<Pod>("none", |pods| names(pods).is_empty()).await;
    world.until_event("web", "SuccessfulCreate").await;
    world.until_event("web", "SuccessfulDelete").await;
    world.stop().await;
}
