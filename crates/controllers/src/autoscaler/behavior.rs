//! Limits how fast an autoscaler changes replicas: the stabilization window and the scaling
//! policies of `spec.behavior`.

use api::autoscaling::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior,
};
use object::List;

/// Default stabilization window for scaling down, in seconds.
const DOWN_WINDOW: i64 = 300;
/// How long scale events are kept, in seconds.
const MAX_HISTORY_SECONDS: i64 = 3600;

/// Recent recommendations and scale events of one autoscaler.
#[derive(Clone, Debug, Default)]
pub(super) struct ScaleHistory {
    /// Time of each recommendation, and the recommended number of replicas.
    recommendations: Vec<(i64, i32)>,
    /// Time of each scale event, and by how much the number of replicas changed.
    scale_events: Vec<(i64, i32)>,
}

/// A condition's reason and message.
pub(super) type ConditionReason = (&'static str, &'static str);

const UP: ConditionReason = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN: ConditionReason = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent \
     recommendation",
);

/// The number of replicas to scale to after stabilization and limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScaleDecision {
    pub(super) replicas: i32,
    /// The `AbleToScale` reason if an earlier recommendation was used instead of the current one.
    pub(super) stabilized: Option<ConditionReason>,
    /// Whether a limit changed the stabilized recommendation, and the `ScalingLimited` reason.
    pub(super) limited: (bool, ConditionReason),
}

impl ScaleHistory {
    /// Records a scale event.
    pub(super) fn changed(&mut self, from: i32, to: i32, now: i64) {
        self.scale_events.retain(|(at, _)| at + MAX_HISTORY_SECONDS > now);
        self.scale_events.push((now, to.saturating_sub(from)));
    }

    /// Records a recommendation, and applies the stabilization windows and scaling policies to it.
    pub(super) fn normalize(
        &mut self,
        scaler: &HorizontalPodAutoscaler,
        current: i32,
        wish: i32,
        now: i64,
    ) -> ScaleDecision {
        let behavior = scaler.spec().behavior();
        let rules = |of: Option<&HPAScalingRules>, window: i64| {
            let own = of.and_then(HPAScalingRules::stabilization_window_seconds);
            own.map_or(window, i64::from)
        };
        let up = behavior.and_then(HorizontalPodAutoscalerBehavior::scale_up);
        let down = behavior.and_then(HorizontalPodAutoscalerBehavior::scale_down);
        let (up_window, down_window) = (rules(up, 0), rules(down, DOWN_WINDOW));
        let recent = |window: i64| {
            self.recommendations.iter().filter(move |(at, _)| at + window > now).map(|(_, n)| *n)
        };
        let lowest = recent(up_window).chain([wish]).min().unwrap_or(wish);
        let highest = recent(down_window).chain([wish]).max().unwrap_or(wish);
        let stable = current.max(lowest).min(highest);
        let keep = up_window.max(down_window);
        self.recommendations.retain(|(at, _)| at + keep > now);
        self.recommendations.push((now, wish));
        let why = if wish >= current { UP } else { DOWN };
        let stabilized = (stable != wish).then_some(why);
        let (replicas, why) = self.limit(scaler, (current, stable), (up, down), now);
        ScaleDecision { replicas, stabilized, limited: (replicas != stable, why) }
    }

    fn limit(
        &self,
        scaler: &HorizontalPodAutoscaler,
        (current, wish): (i32, i32),
        (up, down): (Option<&HPAScalingRules>, Option<&HPAScalingRules>),
        now: i64,
    ) -> (i32, ConditionReason) {
        const WITHIN: ConditionReason =
            ("DesiredWithinRange", "the desired count is within the acceptable range");
        let (least, most) = (scaler.spec().min_replicas(), scaler.spec().max_replicas());
        if wish > current {
            let fastest = self.policy_limit(up, current, now, true).max(current);
            let (most, why) = if most > fastest {
                (
                    fastest,
                    (
                        "ScaleUpLimit",
                        "the desired replica count is increasing faster than the maximum scale rate",
                    ),
                )
            } else {
                (
                    most,
                    (
                        "TooManyReplicas",
                        "the desired replica count is more than the maximum replica count",
                    ),
                )
            };
            if wish > most { (most, why) } else { (wish, WITHIN) }
        } else if wish < current {
            let fastest = self.policy_limit(down, current, now, false).min(current);
            let (least, why) = if least < fastest {
                (
                    fastest,
                    (
                        "ScaleDownLimit",
                        "the desired replica count is decreasing faster than the maximum scale rate",
                    ),
                )
            } else {
                (
                    least,
                    (
                        "TooFewReplicas",
                        "the desired replica count is less than the minimum replica count",
                    ),
                )
            };
            if wish < least { (least, why) } else { (wish, WITHIN) }
        } else if wish < least {
            (
                least,
                (
                    "TooFewReplicas",
                    "the desired replica count is less than the minimum replica count",
                ),
            )
        } else if wish > most {
            (
                most,
                (
                    "TooManyReplicas",
                    "the desired replica count is more than the maximum replica count",
                ),
            )
        } else {
            (wish, WITHIN)
        }
    }

    /// The number of replicas that the scaling policies permit now, in one direction.
    fn policy_limit(
        &self,
        rules: Option<&HPAScalingRules>,
        current: i32,
        now: i64,
        up: bool,
    ) -> i32 {
        let policies = match rules.map(HPAScalingRules::policies).filter(|all| !all.is_empty()) {
            Some(own) => own.clone(),
            None => default_policies(up),
        };
        let proposals = policies.iter().map(|policy| {
            let period = i64::from(policy.period_seconds());
            let recent = self.scale_events.iter().filter(|(at, _)| at + period > now);
            let start = recent.fold(current, |start, (_, change)| start.saturating_sub(*change));
            let part = policy.type_() == "Percent";
            let share = i64::from(start) * i64::from(policy.value());
            let step = if part { (share + 99).div_euclid(100) } else { policy.value().into() };
            let step = i32::try_from(step).unwrap_or(i32::MAX);
            if up { start.saturating_add(step) } else { start.saturating_sub(step) }
        });
        let least_change = match rules.and_then(HPAScalingRules::select_policy) {
            Some("Disabled") => return current,
            choice => choice == Some("Min"),
        };
        let found = if up == least_change { proposals.min() } else { proposals.max() };
        found.unwrap_or(current)
    }
}

/// The policies that apply if the spec has none: up by 100% or 4 pods every 15 seconds, whichever
/// is more; down by 100%.
fn default_policies(up: bool) -> List<HPAScalingPolicy> {
    let policy = |what: &str, value| {
        HPAScalingPolicy::new().with_type(what).with_value(value).with_period_seconds(15)
    };
    if up {
        List::from([policy("Pods", 4), policy("Percent", 100)])
    } else {
        List::from([policy("Percent", 100)])
    }
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn scaler(behavior: &str) -> HorizontalPodAutoscaler {
        let text = format!(r#"{{"spec":{{"minReplicas":1,"maxReplicas":50{behavior}}}}}"#);
        HorizontalPodAutoscaler::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    #[test]
    fn fewer_wait_and_more_do_not_come_at_once() {
        let (plain, mut memory) = (scaler(""), ScaleHistory::default());
        let up = memory.normalize(&plain, 2, 40, 1000);
        assert_eq!((up.replicas, up.limited.0, up.limited.1.0), (6, true, "ScaleUpLimit"));
        let mut memory = ScaleHistory::default();
        assert_eq!(memory.normalize(&plain, 10, 10, 1000).replicas, 10);
        let down = memory.normalize(&plain, 10, 3, 1100);
        assert_eq!((down.replicas, down.stabilized.unwrap().0), (10, "ScaleDownStabilized"));
        assert_eq!(memory.normalize(&plain, 10, 3, 1301).replicas, 3);
        let none = memory.normalize(&plain, 10, 0, 5000);
        assert_eq!((none.replicas, none.limited.1.0), (1, "TooFewReplicas"));
    }

    #[test]
    fn policies_bound_changes_in_a_period() {
        let slow = scaler(
            r#","behavior":{"scaleUp":{"stabilizationWindowSeconds":0,"policies":
            [{"type":"Pods","value":2,"periodSeconds":60}]},"scaleDown":
            {"stabilizationWindowSeconds":0,"selectPolicy":"Min","policies":
            [{"type":"Percent","value":50,"periodSeconds":60},{"type":"Pods","value":1,"periodSeconds":60}]}}"#,
        );
        let mut memory = ScaleHistory::default();
        assert_eq!(memory.normalize(&slow, 4, 20, 0).replicas, 6);
        memory.changed(4, 6, 0);
        assert_eq!(memory.normalize(&slow, 6, 20, 30).replicas, 6, "not twice in a minute");
        assert_eq!(memory.normalize(&slow, 6, 20, 61).replicas, 8);
        assert_eq!(
            ScaleHistory::default().normalize(&slow, 10, 1, 0).replicas,
            9,
            "the smaller change"
        );
        let never = scaler(
            r#","behavior":{"scaleDown":{"stabilizationWindowSeconds":0,"selectPolicy":"Disabled"}}"#,
        );
        assert_eq!(ScaleHistory::default().normalize(&never, 10, 1, 0).replicas, 10);
    }
}
