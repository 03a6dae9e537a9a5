//! The rules for those who respond to an eviction: one after the other, each in its time.

use std::cmp::Ordering;

use object::{Condition, Lens, List, Time, Value, View};
use schema::{ErrorList, FieldPath, format_go_value};

use super::{EvictionStatus, ResponderStatus, TargetResponder};
use crate::{
    rules::ValidateField,
    shown::{format_go as go, format_go_list},
};

/// How many may respond to one eviction.
const MOST: usize = 11;
/// How long a responder may be silent, how far clocks may differ, and how far off the
/// end may be, in seconds.
const SILENCE: i64 = 20 * 60;
const SKEW: i64 = 30;
const TEN_YEARS: i64 = 10 * 365 * 86_400;
/// The responder that deletes the pod at last, and its priority.
const IMPERATIVE: (&str, i32) = ("imperative-eviction.k8s.io/evictor", 100);
const RESERVED: i32 = 1000;
const ENDED: [&str; 3] = ["Canceled", "Completed", "Interrupted"];

/// A change of the status as seen now.
struct Change<'a> {
    new: &'a EvictionStatus,
    old: &'a EvictionStatus,
    now: i64,
    /// Whether the pod is gone, or all has failed.
    is_final: bool,
}

pub(super) fn check_status(
    new: &EvictionStatus,
    old: &EvictionStatus,
    now: i64,
    errs: &mut ErrorList,
) {
    let at = FieldPath::STATUS.field("conditions");
    errs.conditions(&at, new.conditions());
    let find = |status: &EvictionStatus, ty: &str| {
        status.conditions().find(|condition| condition.type_() == ty).cloned()
    };
    let mut is_final = false;
    for ty in ["TargetEvicted", "Failed"] {
        let (is, was) = (find(new, ty), find(old, ty));
        let holds = |it: &Option<Condition>| it.as_ref().is_some_and(|it| it.status() == "True");
        let reverted = holds(&was)
            && is.as_ref().is_none_or(|is| {
                is.status() == "False" || Some(is.reason()) != was.as_ref().map(Condition::reason)
            });
        if reverted {
            let shown = format_go_value(List::<Condition>::TYPE, new.tree().get("conditions"));
            errs.invalid_formatted(&at, shown, format!("{ty} condition status cannot be reverted"));
        }
        is_final |= reverted || holds(&is);
    }
    let change = Change { new, old, now, is_final };
    change.check_targets(&FieldPath::STATUS.field("targetResponders"), errs);
    change.check_responders(&FieldPath::STATUS.field("responders"), errs);
}

impl Change<'_> {
    fn check_targets(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (new, old) = (self.new.target_responders(), self.old.target_responders());
        let all = || format_go_list(self.new.target_responders());
        if !old.is_empty() {
            if new.len() != old.len() {
                let why = "must preserve the same length and the same keys";
                return errs.invalid_formatted(at, all(), why);
            }
            let names = new.by_key(|it| it.name());
            if old.iter().any(|old| !names.contains_key(old.name())) {
                return errs.invalid_formatted(at, all(), "must preserve the same keys");
            }
        }
        if new.is_empty() || new.len() > MOST || repeats(new.iter().map(TargetResponder::name)) {
            return;
        }
        let (new, old) = (in_order(new), in_order(old));
        let active = old.iter().position(|(_, old)| old.state() == "Active");
        let changed = active.is_some_and(|at| new[at].1.state() != "Active");
        let last = old.last().map_or("Inactive", |(_, last)| last.state());
        let all_done = self.is_final || ENDED.contains(&last);
        for (i, (place, responder)) in new.iter().enumerate() {
            let (expected, because): (&[&str], _) = match active {
                Some(active) if i < active => (&[old[i].1.state()], "final state is immutable"),
                None if !old.is_empty() && all_done => {
                    (&[old[i].1.state()], "final state is immutable")
                }
                Some(active) if i == active && changed => {
                    (&ENDED, "this responder must reach a final state")
                }
                Some(active) if i == active && self.is_final => {
                    (&ENDED, "the eviction request has finished processing")
                }
                Some(active) if i == active => (&["Active"], "the eviction request stays active"),
                _ if (i == 0 && old.is_empty())
                    || (changed && active.is_some_and(|active| i == active + 1)) =>
                {
                    match self.is_final {
                        true => (&["Inactive"], "the eviction request has finished processing"),
                        false => (&["Active"], "this responder is next in line"),
                    }
                }
                _ => (&["Inactive"], "the previously active has not finished processing"),
            };
            self.check_target(responder, (expected, because), &at.index(*place), errs);
        }
    }

    fn check_target(
        &self,
        responder: &TargetResponder,
        (expected, because): (&[&str], &str),
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let name = responder.name();
        let Some(status) = self.new.responders().find(|status| status.name() == name) else {
            let why = format!("{name:?} has to be tracked in status.responders first");
            let shown = go(responder);
            return errs.invalid_formatted(at, shown, why);
        };
        if let Some(priority) = responder.priority().filter(|priority| *priority >= 0) {
            let at = at.field("priority");
            if name == IMPERATIVE.0 {
                if priority != IMPERATIVE.1 {
                    let why = format!(
                        "core k8s responder is expected to have priority: {}",
                        IMPERATIVE.1
                    );
                    errs.invalid(&at, priority, why);
                }
            } else if priority < RESERVED {
                let why = "priorities 0-999 are reserved for responders with *.k8s.io suffix";
                errs.invalid(&at, priority, why);
            }
        }
        let (state, at) = (responder.state(), at.field("state"));
        if !expected.contains(&state) {
            let why = format!("must be one of: {}, because {because}", expected.join(", "));
            return errs.invalid(&at, state, why);
        }
        let at_work = status.start_time().filter(|_| status.completion_time().is_none());
        if let Some(start) = at_work.filter(|_| state != "Active" && !self.is_final) {
            let beat = seconds(status.heartbeat_time().unwrap_or(start));
            if self.now < beat + SILENCE - SKEW {
                let why = "must stay Active because the responder is in progress and it should \
                           report status.responders.heartbeatTime or \
                           status.responders.completionTime";
                errs.forbidden(&at, why);
            }
        }
        if state == "Completed" && status.completion_time().is_none() {
            let why = "cannot become Completed because the responder didn't report \
                       status.responders.completionTime";
            errs.invalid(&at, state, why);
        }
    }

    fn check_responders(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (targets, new) = (self.new.target_responders(), self.new.responders());
        let all = || format_go_list(self.new.responders());
        if targets.len() != new.len() {
            let why =
                "must be the same length as status.targetResponders and contain the same keys";
            return errs.invalid_formatted(at, all(), why);
        }
        let names = new.by_key(|it| it.name());
        if targets.iter().any(|target| !names.contains_key(target.name())) {
            let why = "must contain the same keys as status.targetResponders";
            return errs.invalid_formatted(at, all(), why);
        }
        if new.is_empty() || new.len() > MOST || repeats(new.iter().map(ResponderStatus::name)) {
            return;
        }
        for (i, status) in new.iter().enumerate() {
            let target = targets.find(|target| target.name() == status.name());
            let active = target.is_some_and(|target| target.state() == "Active");
            self.check_responder(status, active, &at.index(i), errs);
        }
    }

    fn check_responder(
        &self,
        new: &ResponderStatus,
        active: bool,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let old = self.old.responders().find(|old| old.name() == new.name());
        if old.is_some_and(|old| old != new) && !active {
            let shown = go(new);
            return errs.invalid_formatted(at, shown, "field is immutable");
        }
        let before = |of: fn(&ResponderStatus) -> Option<&str>| old.and_then(of);
        let (start, had) = (new.start_time(), before(ResponderStatus::start_time));
        if had.is_none() {
            match start {
                None if active => {
                    let why = "is required for an active responder";
                    errs.required(&at.field("startTime"), why);
                }
                Some(start) if !self.is_now(start) => {
                    invalid_time(at, "startTime", start, "must be set to the present time", errs);
                }
                _ => {}
            }
        }
        self.check_heartbeat(new, before(ResponderStatus::heartbeat_time), at, errs);
        self.check_expectation(new, before(ResponderStatus::expected_completion_time), at, errs);
        let had = before(ResponderStatus::completion_time);
        let Some(end) = new.completion_time().filter(|end| had.is_none_or(|had| had == *end))
        else {
            return;
        };
        if !began(new, "completionTime", end, at, errs) {
            return;
        }
        if had.is_none() && !self.is_now(end) {
            invalid_time(at, "completionTime", end, "must be set to the present time", errs);
        }
    }

    fn check_heartbeat(
        &self,
        new: &ResponderStatus,
        had: Option<&str>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let name = "heartbeatTime";
        let Some(beat) = new.heartbeat_time() else {
            if had.is_some() {
                errs.required(&at.field(name), "is required once set");
            }
            return;
        };
        if had == Some(beat) {
            return;
        }
        match new.start_time() {
            Some(_) if had.is_some_and(|had| seconds(beat) < seconds(had)) => {
                invalid_time(at, name, beat, "cannot be decreased", errs);
            }
            _ if !began(new, name, beat, at, errs) => {}
            _ if !self.is_now(beat) => {
                invalid_time(at, name, beat, "must be set to the present time", errs);
            }
            _ => {}
        }
    }

    fn check_expectation(
        &self,
        new: &ResponderStatus,
        had: Option<&str>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let name = "expectedCompletionTime";
        let Some(end) = new.expected_completion_time().filter(|end| had != Some(*end)) else {
            return;
        };
        if !began(new, name, end, at, errs) {
            return;
        }
        if seconds(end) < self.now - SKEW {
            invalid_time(at, name, end, "cannot be set to the past time", errs);
        } else if seconds(end) > self.now + TEN_YEARS {
            invalid_time(at, name, end, "must complete within 10 years", errs);
        }
    }

    fn is_now(&self, time: &str) -> bool {
        (seconds(time) - self.now).abs() < SKEW
    }
}

/// Whether a responder had begun at this time.
fn began(
    status: &ResponderStatus,
    name: &str,
    time: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) -> bool {
    let start_at = at.field("startTime");
    match status.start_time() {
        None => {
            invalid_time(at, name, time, &format!("cannot be set before {start_at} is set"), errs);
        }
        Some(start) if seconds(time) < seconds(start) => {
            invalid_time(at, name, time, &format!("must occur after {start_at}"), errs);
        }
        Some(_) => return true,
    }
    false
}

fn invalid_time(at: &FieldPath, name: &str, time: &str, why: &str, errs: &mut ErrorList) {
    errs.invalid(&at.field(name), Value::from(time), why);
}

fn seconds(time: &str) -> i64 {
    Time::parse_seconds(time).unwrap_or_default()
}

fn repeats<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    !names.into_iter().all(|name| seen.insert(name))
}

/// Responders in the order of their turns, with their places in the list.
fn in_order(all: &List<TargetResponder>) -> Vec<(usize, &TargetResponder)> {
    let mut all: Vec<_> = all.iter().enumerate().collect();
    all.sort_by(|(_, a), (_, b)| compare_order(a, b));
    all
}

/// The highest priority first, then by domain from its end.
fn compare_order(a: &TargetResponder, b: &TargetResponder) -> Ordering {
    let parts = |name: &str| -> (Vec<String>, String) {
        let (domain, key) = name.split_once('/').unwrap_or((name, ""));
        (domain.rsplit('.').map(str::to_owned).collect(), key.to_owned())
    };
    match (a.priority(), b.priority()) {
        (Some(a), Some(b)) if a != b => b.cmp(&a),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        _ => parts(a.name()).cmp(&parts(b.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_has_its_turn_first() {
        let of = |name: &str, priority: i32| {
            TargetResponder::new().with_name(name).with_priority(priority)
        };
        let all: List<TargetResponder> =
            [of("b.com/x", 1), of("a.org/x", 1), of("c.com/x", 2)].into_iter().collect();
        let names: Vec<_> = in_order(&all).iter().map(|(_, it)| it.name().to_owned()).collect();
        assert_eq!(names, ["c.com/x", "b.com/x", "a.org/x"]);
    }

    #[test]
    fn the_first_becomes_active() {
        let status = |state: &str| {
            let target = TargetResponder::new().with_name("a.com/x").with_state(state);
            let responder = ResponderStatus::new()
                .with_name("a.com/x")
                .with_start_time(Time::format(100).as_str());
            let mut status = EvictionStatus::new();
            status.target_responders_mut().push(target);
            status.responders_mut().push(responder);
            status
        };
        let told = |state: &str| {
            let mut errs = ErrorList::default();
            check_status(&status(state), &EvictionStatus::new(), 100, &mut errs);
            errs.0.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        assert!(told("Active").is_empty());
        assert_eq!(
            told("Inactive"),
            ["must be one of: Active, because this responder is next in line"]
        );
    }
}
