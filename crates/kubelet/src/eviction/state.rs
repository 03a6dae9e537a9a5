//! Which eviction thresholds are met and which pressure conditions hold: a pure state machine over the observations.

use std::collections::BTreeMap;

use super::{
    EvictionConfig,
    threshold::{Pressure, Signal, SignalObservation, Threshold},
};

/// The signals that were observed at one time.
pub type SignalObservations = BTreeMap<Signal, SignalObservation>;

/// State between eviction passes. A threshold is identified by its index in the configuration.
#[derive(Clone, Debug, Default)]
pub struct EvictionState {
    /// Since when each threshold has been met.
    first_observed_at: BTreeMap<usize, i64>,
    /// Thresholds that have been met for their grace period. They stay met until the minimum reclaim is freed too.
    thresholds_met: Vec<usize>,
    /// When each pressure condition was last observed.
    conditions_last_observed_at: BTreeMap<Pressure, i64>,
}

impl EvictionState {
    /// Processes the observations of the time `now` (seconds by the steady clock); returns the threshold to reclaim resources for first.
    pub fn observe<'a>(
        &mut self,
        settings: &'a EvictionConfig,
        seen: &SignalObservations,
        now: i64,
    ) -> Option<&'a Threshold> {
        let all = &settings.thresholds;
        let is_met = |at: usize, reclaiming: bool| {
            all.get(at).is_some_and(|threshold| {
                seen.get(&threshold.signal).is_some_and(|left| threshold.is_met(*left, reclaiming))
            })
        };
        let met: Vec<usize> = (0..all.len())
            .filter(|at| {
                is_met(*at, false) || self.thresholds_met.contains(at) && is_met(*at, true)
            })
            .collect();
        self.first_observed_at.retain(|at, _| met.contains(at));
        for at in &met {
            self.first_observed_at.entry(*at).or_insert(now);
            let pressure = all.get(*at).map(|threshold| threshold.signal.pressure());
            self.conditions_last_observed_at.extend(pressure.map(|pressure| (pressure, now)));
        }
        self.conditions_last_observed_at
            .retain(|_, last| now.saturating_sub(*last) <= settings.pressure_transition_period);
        let lasted = |at: &usize| {
            let first = self.first_observed_at.get(at).copied().unwrap_or(now);
            let grace_period = all.get(*at).and_then(|threshold| threshold.grace_period);
            now.saturating_sub(first) >= grace_period.unwrap_or(0)
        };
        self.thresholds_met = met.into_iter().filter(lasted).collect();
        let mut met = self.thresholds_met.iter().filter_map(|at| all.get(*at));
        let memory = met.clone().find(|threshold| threshold.signal == Signal::MemoryAvailable);
        memory.or_else(|| met.next())
    }

    /// The pressure conditions of the node. Each one is kept for the transition period after it was last observed.
    pub fn pressure(&self) -> Vec<Pressure> {
        self.conditions_last_observed_at.keys().copied().collect()
    }
}

/// Whether any threshold is still met, with its minimum reclaim added.
pub(super) fn any_threshold_met(settings: &EvictionConfig, seen: &SignalObservations) -> bool {
    settings.thresholds.iter().any(|threshold| {
        seen.get(&threshold.signal).is_some_and(|left| threshold.is_met(*left, true))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::threshold::thresholds, *};

    fn settings(hard: &str, soft: &str, graces: &str, reclaim: &str) -> EvictionConfig {
        let thresholds = thresholds(hard, soft, graces, reclaim).unwrap();
        EvictionConfig { thresholds, pressure_transition_period: 300, max_pod_grace_period: 0 }
    }

    fn left(signal: Signal, available: i64) -> SignalObservations {
        [(signal, SignalObservation { capacity: 1000, available })].into()
    }

    #[test]
    fn soft_thresholds_wait_and_hard_ones_do_not() {
        let settings =
            settings("memory.available<100", "memory.available<200", "memory.available=30s", "");
        let mut state = EvictionState::default();
        assert_eq!(state.observe(&settings, &left(Signal::MemoryAvailable, 150), 0), None);
        assert_eq!(state.pressure(), [Pressure::Memory], "told at once");
        let soft = state.observe(&settings, &left(Signal::MemoryAvailable, 150), 30).unwrap();
        assert_eq!(soft.grace_period, Some(30));
        let mut state = EvictionState::default();
        let hard = state.observe(&settings, &left(Signal::MemoryAvailable, 50), 0).unwrap();
        assert_eq!(hard.grace_period, None);
        // one observation above the threshold restarts the grace period
        let mut state = EvictionState::default();
        for (available, now) in [(150, 0), (250, 10), (150, 20), (150, 40)] {
            assert_eq!(
                state.observe(&settings, &left(Signal::MemoryAvailable, available), now),
                None
            );
        }
        assert!(state.observe(&settings, &left(Signal::MemoryAvailable, 150), 50).is_some());
    }

    #[test]
    fn pressure_is_told_for_a_while_after_it_was_true() {
        let settings = settings("nodefs.available<10%", "", "", "nodefs.available=10%");
        let mut state = EvictionState::default();
        assert!(state.observe(&settings, &left(Signal::NodeFsAvailable, 50), 0).is_some());
        let more = left(Signal::NodeFsAvailable, 150);
        assert!(state.observe(&settings, &more, 10).is_some(), "not enough was won back");
        let plenty = left(Signal::NodeFsAvailable, 200);
        assert_eq!(state.observe(&settings, &plenty, 20), None);
        assert_eq!(state.pressure(), [Pressure::Disk]);
        state.observe(&settings, &plenty, 311);
        assert_eq!(state.pressure(), []);
    }

    #[test]
    fn memory_comes_first() {
        let settings = settings("nodefs.available<10%,memory.available<100", "", "", "");
        let mut seen = left(Signal::NodeFsAvailable, 1);
        seen.extend(left(Signal::MemoryAvailable, 1));
        let first = EvictionState::default().observe(&settings, &seen, 0).unwrap().signal;
        assert_eq!(first, Signal::MemoryAvailable);
        assert!(any_threshold_met(&settings, &seen));
        assert!(!any_threshold_met(&settings, &left(Signal::MemoryAvailable, 100)));
    }
}
