//! What a ResourceClaim takes of a quota: devices of each class, in the worst case.

use std::collections::BTreeMap;

use object::Value;

use super::{ResourceList, number};

const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// A request for all devices is allocated at most so many.
const MOST: i64 = 32;

/// Whether an amount in a quota is about devices of a class.
pub fn is_devices(name: &str) -> bool {
    name.ends_with(OF_CLASS)
}

/// Adds the devices that a ResourceClaim requests.
pub fn add_devices(claim: &Value, used: &mut ResourceList) {
    for request in claim.get("spec").get("devices").get("requests").items() {
        let choices = match request.get("firstAvailable").items() {
            [] => std::slice::from_ref(request.get("exactly")),
            choices => choices,
        };
        // One of the choices is allocated: of those of one class, the largest counts.
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for choice in choices.iter().filter(|choice| choice.is_object()) {
            let class = choice.get("deviceClassName").as_str().unwrap_or_default();
            let count = most.entry(class).or_default();
            *count = (*count).max(devices(choice));
        }
        for (class, count) in most {
            *used.entry(format!("{class}{OF_CLASS}").into()).or_default() += &number(count);
        }
    }
}

fn devices(request: &Value) -> i64 {
    match request.get("allocationMode").as_str().unwrap_or("ExactCount") {
        "ExactCount" => request.get("count").as_i64().unwrap_or(1).max(0),
        "All" => MOST,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_worst_case_counts() {
        let tree = object::from_json(
            br#"{"spec":{"devices":{"requests":[
                {"name":"a","exactly":{"deviceClassName":"x","allocationMode":"ExactCount","count":2}},
                {"name":"b","firstAvailable":[
                    {"deviceClassName":"x","allocationMode":"ExactCount","count":1},
                    {"deviceClassName":"x","allocationMode":"ExactCount","count":3},
                    {"deviceClassName":"y","allocationMode":"All"}]}]}}}"#,
        )
        .unwrap();
        let used = crate::core::usage::usage("resourceclaims.resource.k8s.io", &tree, 0);
        let used: Vec<String> =
            used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(
            used,
            [
                "count/resourceclaims.resource.k8s.io=1",
                "x.deviceclass.resource.k8s.io/devices=5",
                "y.deviceclass.resource.k8s.io/devices=32"
            ]
        );
        for name in
            ["x.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io"]
        {
            assert_eq!(
                super::super::counted_resource(name),
                Some("resourceclaims.resource.k8s.io")
            );
        }
    }
}
