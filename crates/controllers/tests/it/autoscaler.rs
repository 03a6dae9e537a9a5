use api::{apps::Deployment, autoscaling::HorizontalPodAutoscaler};

use crate::World;

/// Without metrics, min and max replicas are still enforced, and the missing metrics are reported.
#[tokio::test]
async fn an_autoscaler_keeps_bounds_and_tells_what_it_lacks() {
    let world = World::start(&["horizontalpodautoscaling"]).await;
    let deployment = r#"{"metadata":{"name":"web"},"spec":{"replicas":1,
        "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    world.make::<Deployment>(deployment).await;
    let scaler = r#"{"metadata":{"name":"web"},"spec":{"minReplicas":2,"maxReplicas":5,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}"#;
    world.make::<HorizontalPodAutoscaler>(scaler).await;
    let two = |deployment: &Deployment| deployment.spec().replicas() == 2;
    world.until_one::<Deployment>("web", "two replicas", two).await;
    let event = world.until_event("web", "SuccessfulRescale").await;
    let why = "New size: 2; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(event.message(), why);
    let told = |scaler: &HorizontalPodAutoscaler| {
        let status = scaler.status();
        let inactive = status.conditions().find(|one| one.type_() == "ScalingActive");
        status.desired_replicas() == 2
            && inactive.is_some_and(|one| one.reason() == "FailedGetResourceMetric")
    };
    world.until_one::<HorizontalPodAutoscaler>("web", "no metrics", told).await;
    world.stop().await;
}
