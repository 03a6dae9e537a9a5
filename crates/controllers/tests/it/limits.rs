use api::{
    core::{Endpoints, Pod, ResourceQuota, Secret, Service},
    discovery::EndpointSlice,
    policy::PodDisruptionBudget,
    resource::ResourceClaim,
};

use crate::World;

fn pod(name: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{
        "containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"250m"}}}}}}]}}}}"#
    )
}

#[tokio::test]
async fn quotas_count_what_there_is() {
    let world = World::start(&["resourcequota"]).await;
    world.make::<Pod>(&pod("a")).await;
    let quota = r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"5","requests.cpu":"1",
        "secrets":"3","count/deployments.apps":"2"}}}"#;
    world.make::<ResourceQuota>(quota).await;
    let used = |pods: &str, cpu: &str, secrets: &str| {
        let wanted = [("pods", pods), ("requests.cpu", cpu), ("secrets", secrets)];
        let wanted = wanted.map(|(name, n)| (name.to_owned(), n.to_owned()));
        move |quota: &ResourceQuota| {
            let shown = |name: &str| quota.status().used().get(name).map(|n| n.to_string());
            wanted.iter().all(|(name, n)| shown(name).as_ref() == Some(n))
                && shown("count/deployments.apps").as_deref() == Some("0")
        }
    };
    world.until_one::<ResourceQuota>("q", "one pod", used("1", "250m", "0")).await;
    // Admission counts new objects, until one is deleted.
    world.make::<Pod>(&pod("b")).await;
    world.make::<Pod>(&pod("c")).await;
    world.make::<Secret>(r#"{"metadata":{"name":"s"}}"#).await;
    world.make::<Secret>(r#"{"metadata":{"name":"t"}}"#).await;
    world.delete::<Secret>("s").await;
    world.delete::<Pod>("a").await;
    world.until_one::<ResourceQuota>("q", "two pods", used("2", "500m", "1")).await;
    world.stop().await;
}

#[tokio::test]
async fn quotas_count_claims_and_their_devices() {
    let world = World::start(&["resourcequota"]).await;
    let devices = "gold.deviceclass.resource.k8s.io/devices";
    let claims = "count/resourceclaims.resource.k8s.io";
    let quota = format!(
        r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{{"{claims}":"5","{devices}":"3"}}}}}}"#
    );
    world.make::<ResourceQuota>(&quota).await;
    let used = |count: &'static str, amount: &'static str| {
        move |quota: &ResourceQuota| {
            let shown = |name: &str| quota.status().used().get(name).map(|n| n.to_string());
            shown(claims).as_deref() == Some(count) && shown(devices).as_deref() == Some(amount)
        }
    };
    world.until_one::<ResourceQuota>("q", "nothing", used("0", "0")).await;
    let claim = |name: &str, count: usize| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"devices":{{"requests":[{{"name":"r",
            "exactly":{{"deviceClassName":"gold","allocationMode":"ExactCount","count":{count}}}}}]}}}}}}"#
        )
    };
    world.make::<ResourceClaim>(&claim("a", 2)).await;
    world.make::<ResourceClaim>(&claim("b", 1)).await;
    world.until_one::<ResourceQuota>("q", "two claims", used("2", "3")).await;
    world.delete::<ResourceClaim>("a").await;
    world.until_one::<ResourceQuota>("q", "one claim", used("1", "1")).await;
    world.stop().await;
}

#[tokio::test]
async fn budgets_follow_pods() {
    let world = World::start(&["disruption"]).await;
    let budget = r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,
        "selector":{"matchLabels":{"app":"web"}}}}"#;
    world.make::<PodDisruptionBudget>(budget).await;
    let allowed = |n: i32| {
        move |budget: &PodDisruptionBudget| {
            let status = budget.status();
            status.disruptions_allowed() == n && status.observed_generation() == 1
        }
    };
    world.until_one::<PodDisruptionBudget>("b", "none", allowed(0)).await;
    world.until_event("b", "NoPods").await;
    world.make::<Pod>(&pod("a")).await;
    world.make::<Pod>(&pod("b")).await;
    world.run_pods().await;
    world.until_one::<PodDisruptionBudget>("b", "one", allowed(1)).await;
    world.delete::<Pod>("a").await;
    world.until_one::<PodDisruptionBudget>("b", "none", allowed(0)).await;
    world.stop().await;
}

#[tokio::test]
async fn endpoints_that_people_make_are_mirrored() {
    let world = World::start(&["endpointslicemirroring"]).await;
    world.make::<Service>(r#"{"metadata":{"name":"x"},"spec":{"ports":[{"port":80}]}}"#).await;
    let endpoints = r#"{"metadata":{"name":"x"},"subsets":[{"addresses":[{"ip":"192.0.2.1"}],
        "ports":[{"port":80}]}]}"#;
    world.make::<Endpoints>(endpoints).await;
    let addresses = |wanted: &'static [&'static str]| {
        move |slices: &[EndpointSlice]| {
            let ours = slices.iter().filter(|slice| {
                slice.metadata().labels().get("kubernetes.io/service-name") == Some("x")
            });
            let all = ours.flat_map(|slice| slice.endpoints().iter());
            let mut all: Vec<&str> = all.flat_map(|it| it.addresses().iter()).collect();
            all.sort_unstable();
            all == wanted
        }
    };
    world.until_all::<EndpointSlice>("one", addresses(&["192.0.2.1"])).await;
    let more = r#"{"subsets":[{"addresses":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}],
        "ports":[{"port":80}]}]}"#;
    world.change::<Endpoints>("x", more).await;
    world.until_all::<EndpointSlice>("two", addresses(&["192.0.2.1", "192.0.2.2"])).await;
    world.delete::<Endpoints>("x").await;
    world.until_all::<EndpointSlice>("none", addresses(&[])).await;
    world.stop().await;
}
