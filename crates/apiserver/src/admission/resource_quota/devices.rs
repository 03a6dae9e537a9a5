//! What a claim of devices counts for: so many of each class, at worst.

use std::collections::BTreeMap;

use object::Value;

use super::usage::{Amounts, number};

const BY_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Who asks for all devices may get so many.
const MOST: usize = 32;

/// Whether a quota of this name is about devices of a class.
pub(super) fn counts(name: &str) -> bool {
    name.ends_with(BY_CLASS)
}

pub(super) fn claim(claim: &Value, used: &mut Amounts) {
    for request in claim.get("spec").get("devices").get("requests").items() {
        let choices = match request.get("firstAvailable").items() {
            [] => std::slice::from_ref(request.get("exactly")),
            choices => choices,
        };
        // One of the choices is taken: that with the most, if several are of one class.
        let mut most: BTreeMap<&str, usize> = BTreeMap::new();
        for choice in choices.iter().filter(|choice| choice.is_object()) {
            let class = choice.get("deviceClassName").as_str().unwrap_or_default();
            let count = most.entry(class).or_default();
            *count = (*count).max(devices(choice));
        }
        for (class, count) in most {
            *used.entry(format!("{class}{BY_CLASS}").into()).or_default() += &number(count);
        }
    }
}

fn devices(request: &Value) -> usize {
    let count = request.get("count").as_i64().unwrap_or(1);
    match request.get("allocationMode").as_str().unwrap_or("ExactCount") {
        "ExactCount" => usize::try_from(count).unwrap_or_default(),
        "All" => MOST,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut used = Amounts::new();
        claim(&tree, &mut used);
        let used: Vec<String> =
            used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(
            used,
            ["x.deviceclass.resource.k8s.io/devices=5", "y.deviceclass.resource.k8s.io/devices=32"]
        );
        assert!(counts("x.deviceclass.resource.k8s.io/devices") && !counts("pods"));
    }
}
