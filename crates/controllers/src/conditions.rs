//! The conditions of a status, whatever kind of condition they are: `type`, `status` and the time of
//! the last transition are the same for all.

use object::{Lens, List, Time, Value};

const TRANSITION: &str = "lastTransitionTime";

/// The conditions of one object, at most one of each type.
pub(crate) trait Conditions<C> {
    /// The condition of this type.
    fn condition(&self, ty: &str) -> Option<&C>;

    /// Sets a condition in place of the one of its type. The time of the last transition stays if
    /// the status does; otherwise it is `now`.
    fn set_condition(&mut self, condition: C, now: i64);

    /// Like `set_condition`, and moves the condition to the end of the list.
    fn set_last_condition(&mut self, condition: C, now: i64);

    /// Removes the condition of this type.
    fn remove_condition(&mut self, ty: &str);
}

impl<C: Lens> Conditions<C> for List<C> {
    fn condition(&self, ty: &str) -> Option<&C> {
        self.find(|condition| text(condition, "type") == ty)
    }

    fn set_condition(&mut self, condition: C, now: i64) {
        let condition = with_transition_time(self, condition, now);
        let ty = text(&condition, "type").to_owned();
        self.upsert(condition, |old| text(old, "type") == ty);
    }

    fn set_last_condition(&mut self, condition: C, now: i64) {
        let condition = with_transition_time(self, condition, now);
        self.remove_condition(text(&condition, "type"));
        self.push(condition);
    }

    fn remove_condition(&mut self, ty: &str) {
        if self.condition(ty).is_some() {
            let kept = self.iter().filter(|condition| text(*condition, "type") != ty);
            *self = kept.map(|condition| C::from(condition.tree().clone())).collect();
        }
    }
}

fn with_transition_time<C: Lens>(all: &List<C>, condition: C, now: i64) -> C {
    let old = all.condition(text(&condition, "type"));
    let unchanged = old.filter(|old| text(*old, "status") == text(&condition, "status"));
    let since = unchanged.map(|old| old.tree().get(TRANSITION).clone());
    let mut condition: Value = condition.into();
    condition[TRANSITION] = since.unwrap_or_else(|| Time::format(now).into());
    C::from(condition)
}

fn text<'a>(condition: &'a impl Lens, field: &str) -> &'a str {
    condition.tree().get(field).as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api::core::PodCondition;

    use super::*;

    #[test]
    fn a_transition_is_a_change_of_the_status() {
        let mut all = List::<PodCondition>::default();
        let new = |status: &str, reason: &str| {
            PodCondition::new().with_type("Ready").with_status(status).with_reason(reason)
        };
        all.set_condition(new("True", "a"), 10);
        all.set_condition(PodCondition::new().with_type("Other").with_status("True"), 11);
        for (status, reason, now, since) in
            [("True", "b", 20, 10), ("False", "b", 30, 30), ("False", "c", 40, 30)]
        {
            all.set_condition(new(status, reason), now);
            let kept = all.condition("Ready").expect("it was set");
            assert_eq!((kept.status(), kept.reason()), (status, reason));
            assert_eq!(kept.last_transition_time(), Time::format(since));
        }
        assert_eq!(all.iter().map(PodCondition::type_).collect::<Vec<_>>(), ["Ready", "Other"]);
        all.set_last_condition(new("False", "d"), 50);
        assert_eq!(all.iter().map(PodCondition::type_).collect::<Vec<_>>(), ["Other", "Ready"]);
        let kept = all.condition("Ready").map(PodCondition::last_transition_time);
        assert_eq!(kept, Some(&*Time::format(30)));
        all.remove_condition("Ready");
        assert_eq!((all.len(), all.condition("Ready")), (1, None));
    }
}
