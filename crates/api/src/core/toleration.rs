//! core/v1: toleration.

use std::collections::BTreeSet;

use macros::api;
use object::{List, Time, names};
use schema::{ErrorList, FieldPath};

use crate::{rules::ValidateField, shown::format_go};

/// In the order in which messages name them.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[api]
pub struct Toleration {
    /// Key of the taint. If empty, with operator Exists, every taint is tolerated.
    key: String,
    /// How key and value are compared: Equal (default), Exists, Lt or Gt.
    #[api(go_type = "v1.TolerationOperator", enum_values("Equal", "Exists", "Gt", "Lt"))]
    operator: String,
    /// Value of the taint.
    value: String,
    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. If empty, all of them.
    #[api(go_type = "v1.TaintEffect", enum_values("NoExecute", "NoSchedule", "PreferNoSchedule"))]
    effect: String,
    /// Seconds that a NoExecute taint is tolerated before the pod is evicted. If not set, forever.
    toleration_seconds: Option<i64>,
}

#[api]
pub struct Taint {
    /// Key of the taint.
    key: Must<String>,
    /// Value of the taint.
    value: String,
    /// What happens to pods that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute.
    #[api(go_type = "v1.TaintEffect", enum_values("NoExecute", "NoSchedule", "PreferNoSchedule"))]
    effect: Must<String>,
    /// When a NoExecute taint was added.
    time_added: Option<Time>,
}

impl Toleration {
    /// Whether the taint does not keep the pod away.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let same_effect = self.effect().is_empty() || self.effect() == taint.effect();
        let same_key = self.key().is_empty() || self.key() == taint.key();
        let number = |text: &str| text.parse::<i64>().ok();
        same_effect
            && same_key
            && match self.operator() {
                "" | "Equal" => self.value() == taint.value(),
                "Exists" => true,
                "Lt" => number(taint.value()).zip(number(self.value())).is_some_and(|(t, b)| t < b),
                "Gt" => number(taint.value()).zip(number(self.value())).is_some_and(|(t, b)| t > b),
                _ => false,
            }
    }

    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (key, operator, value) = (self.key(), self.operator(), self.value());
        if !key.is_empty() {
            errs.qualified(&at.field("key"), key);
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
            errs.invalid(&at.field("operator"), operator, why);
        }
        if self.toleration_seconds().is_some() && self.effect() != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errs.invalid(&at.field("effect"), self.effect(), why);
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errs.invalid(&at.field("operator"), value, wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errs.invalid(&at.field("operator"), value, why);
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errs.not_supported(&at.field("operator"), operator, &known);
            }
            other => errs.not_supported(&at.field("operator"), other, &["Equal", "Exists"]),
        }
        if !self.effect().is_empty() {
            errs.one_of(&at.field("effect"), self.effect(), &EFFECTS);
        }
    }
}

pub(crate) fn check_tolerations(all: &List<Toleration>, at: &FieldPath, errs: &mut ErrorList) {
    at.for_each_item(all.iter(), |toleration, at| toleration.check(at, errs));
}

/// The first taint with one of these effects that is not tolerated.
pub fn untolerated<'a>(
    taints: &'a List<Taint>,
    tolerations: &List<Toleration>,
    effects: &[&str],
) -> Option<&'a Taint> {
    taints.find(|taint| {
        effects.contains(&taint.effect())
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

/// The taints of a node.
pub(crate) fn check_taints(taints: &List<Taint>, at: &FieldPath, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    at.for_each_item(taints.iter(), |taint, at| {
        errs.qualified(&at.field("key"), taint.key());
        errs.invalid_each(&at.field("value"), taint.value(), names::label_value(taint.value()));
        errs.required_one_of(&at.field("effect"), taint.effect(), &EFFECTS);
        if !seen.insert((taint.key(), taint.effect())) {
            let why = "taints must be unique by key and effect pair";
            errs.duplicate_formatted(at, format_go(taint), why);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerates_by_key_value_and_effect() {
        let taint = Taint::new().with_key("a").with_value("1").with_effect("NoSchedule");
        let any = Toleration::new().with_operator("Exists");
        let equal = Toleration::new().with_key("a").with_value("1");
        let other = Toleration::new().with_key("a").with_value("2");
        let execute = any.clone().with_effect("NoExecute");
        let found = [&any, &equal, &other, &execute].map(|toleration| toleration.tolerates(&taint));
        assert_eq!(found, [true, true, false, false]);
        let taints = List::from([taint]);
        assert!(untolerated(&taints, &List::from([other]), &["NoSchedule"]).is_some());
        assert!(untolerated(&taints, &List::from([any]), &["NoSchedule"]).is_none());
    }
}
