//! What a node is short of, as it changes: a pure function of what was seen when.

use std::collections::BTreeMap;

use super::{
    Settings,
    threshold::{Left, Pressure, Signal, Threshold},
};

/// What was seen at one time.
pub type Observed = BTreeMap<Signal, Left>;

/// What is remembered between looks. Thresholds are known by their place in the settings.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Since when each has been met.
    since: BTreeMap<usize, i64>,
    /// Those that were acted on and may not be over yet.
    acted: Vec<usize>,
    /// When the node was last short.
    pressed: BTreeMap<Pressure, i64>,
}

impl State {
    /// Takes in what is seen at `now` (seconds); says what must be won back first.
    pub fn observe<'a>(
        &mut self,
        settings: &'a Settings,
        seen: &Observed,
        now: i64,
    ) -> Option<&'a Threshold> {
        let all = &settings.thresholds;
        let is_met = |at: usize, reclaiming: bool| {
            seen.get(&all[at].signal).is_some_and(|left| all[at].is_met(*left, reclaiming))
        };
        let met: Vec<usize> = (0..all.len())
            .filter(|at| is_met(*at, false) || self.acted.contains(at) && is_met(*at, true))
            .collect();
        self.since.retain(|at, _| met.contains(at));
        for at in &met {
            self.since.entry(*at).or_insert(now);
            self.pressed.insert(all[*at].signal.pressure(), now);
        }
        self.pressed.retain(|_, last| now - *last <= settings.transition);
        let lasted = |at: &usize| now - self.since[at] >= all[*at].grace.unwrap_or(0);
        self.acted = met.into_iter().filter(lasted).collect();
        let first = self.acted.iter().find(|at| all[**at].signal == Signal::Memory);
        first.or(self.acted.first()).map(|at| &all[*at])
    }

    /// What the node says of itself: for some time after it was last true.
    pub fn pressure(&self) -> Vec<Pressure> {
        self.pressed.keys().copied().collect()
    }
}

/// Whether anything is still short, with all that must be won back besides.
pub(super) fn is_short(settings: &Settings, seen: &Observed) -> bool {
    settings.thresholds.iter().any(|threshold| {
        seen.get(&threshold.signal).is_some_and(|left| threshold.is_met(*left, true))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::threshold::thresholds, *};

    fn settings(hard: &str, soft: &str, graces: &str, reclaim: &str) -> Settings {
        let thresholds = thresholds(hard, soft, graces, reclaim).unwrap();
        Settings { thresholds, transition: 300, most_grace: 0 }
    }

    fn left(signal: Signal, available: i64) -> Observed {
        [(signal, Left { capacity: 1000, available })].into()
    }

    #[test]
    fn soft_thresholds_wait_and_hard_ones_do_not() {
        let settings =
            settings("memory.available<100", "memory.available<200", "memory.available=30s", "");
        let mut state = State::default();
        assert_eq!(state.observe(&settings, &left(Signal::Memory, 150), 0), None);
        assert_eq!(state.pressure(), [Pressure::Memory], "told at once");
        let soft = state.observe(&settings, &left(Signal::Memory, 150), 30).unwrap();
        assert_eq!(soft.grace, Some(30));
        let mut state = State::default();
        let hard = state.observe(&settings, &left(Signal::Memory, 50), 0).unwrap();
        assert_eq!(hard.grace, None);
        // a moment of plenty starts the clock again
        let mut state = State::default();
        for (available, now) in [(150, 0), (250, 10), (150, 20), (150, 40)] {
            assert_eq!(state.observe(&settings, &left(Signal::Memory, available), now), None);
        }
        assert!(state.observe(&settings, &left(Signal::Memory, 150), 50).is_some());
    }

    #[test]
    fn pressure_is_told_for_a_while_after_it_was_true() {
        let settings = settings("nodefs.available<10%", "", "", "nodefs.available=10%");
        let mut state = State::default();
        assert!(state.observe(&settings, &left(Signal::NodeDisk, 50), 0).is_some());
        let more = left(Signal::NodeDisk, 150);
        assert!(state.observe(&settings, &more, 10).is_some(), "not enough was won back");
        let plenty = left(Signal::NodeDisk, 200);
        assert_eq!(state.observe(&settings, &plenty, 20), None);
        assert_eq!(state.pressure(), [Pressure::Disk]);
        state.observe(&settings, &plenty, 311);
        assert_eq!(state.pressure(), []);
    }

    #[test]
    fn memory_comes_first() {
        let settings = settings("nodefs.available<10%,memory.available<100", "", "", "");
        let mut seen = left(Signal::NodeDisk, 1);
        seen.extend(left(Signal::Memory, 1));
        let first = State::default().observe(&settings, &seen, 0).unwrap().signal;
        assert_eq!(first, Signal::Memory);
        assert!(is_short(&settings, &seen));
        assert!(!is_short(&settings, &left(Signal::Memory, 100)));
    }
}
