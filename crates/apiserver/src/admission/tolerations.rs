//! Comparing and merging lists of tolerations.

use api::core::Toleration;
use object::{Lens, List};

/// Appends the second list to the first, without the tolerations that another one covers.
pub(super) fn merged(first: &List<Toleration>, second: &[Toleration]) -> List<Toleration> {
    let all: Vec<&Toleration> = first.iter().chain(second).collect();
    let mut merged: Vec<&Toleration> = Vec::new();
    for (at, own) in all.iter().enumerate() {
        let before = merged.iter().any(|other| is_superset(other, own));
        let later = || {
            all[at + 1..].iter().any(|other| own.tree() != other.tree() && is_superset(other, own))
        };
        if !before && !later() {
            merged.push(own);
        }
    }
    merged.into_iter().cloned().collect()
}

/// Whether `own` tolerates everything that `other` does.
pub(super) fn is_superset(own: &Toleration, other: &Toleration) -> bool {
    if own.tree() == other.tree() {
        return true;
    }
    let key = own.key() == other.key() || (own.key().is_empty() && own.operator() == "Exists");
    let effect = own.effect().is_empty() || own.effect() == other.effect();
    let time = match (own.toleration_seconds(), other.toleration_seconds()) {
        (Some(own), Some(other)) => own >= other,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let value = match own.operator() {
        "Exists" => true,
        "" | "Equal" => other.operator() == "Equal" && own.value() == other.value(),
        _ => false,
    };
    key && effect && (time || own.effect() != "NoExecute") && value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, operator: &str, effect: &str, seconds: Option<i64>) -> Toleration {
        let toleration =
            Toleration::new().with_key(key).with_operator(operator).with_effect(effect);
        match seconds {
            Some(seconds) => toleration.with_toleration_seconds(seconds),
            None => toleration,
        }
    }

    #[test]
    fn the_wider_one_covers() {
        let all = one("", "Exists", "", None);
        let key = one("a", "Exists", "NoExecute", Some(10));
        assert!(is_superset(&all, &key) && !is_superset(&key, &all));
        assert!(is_superset(&key, &one("a", "Equal", "NoExecute", Some(5))));
        assert!(!is_superset(&key, &one("a", "Equal", "NoExecute", Some(50))));
        assert!(!is_superset(&key, &one("a", "Equal", "NoExecute", None)), "for ever");
        assert!(!is_superset(&one("", "Equal", "", None), &one("a", "Equal", "", None)));
        let short = one("a", "Exists", "NoSchedule", Some(1));
        assert!(
            is_superset(&short, &one("a", "Equal", "NoSchedule", None)),
            "time means nothing here"
        );
    }

    #[test]
    fn what_is_covered_goes() {
        let (all, key) = (one("", "Exists", "", None), one("a", "Exists", "NoExecute", None));
        let list = |all: &[&Toleration]| all.iter().copied().cloned().collect::<List<_>>();
        assert_eq!(merged(&list(&[&key]), std::slice::from_ref(&all)), list(&[&all]));
        assert_eq!(merged(&list(&[&all]), std::slice::from_ref(&key)), list(&[&all]));
        assert_eq!(merged(&list(&[&key]), std::slice::from_ref(&key)), list(&[&key]));
    }
}
