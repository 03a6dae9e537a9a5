//! Eviction signals and thresholds, and the flags that set them.

use std::{collections::BTreeMap, str::FromStr};

use object::Quantity;

/// An eviction signal: a resource that a node can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    MemoryAvailable,
    NodeFsAvailable,
    NodeFsInodesFree,
    ImageFsAvailable,
    ImageFsInodesFree,
    PidAvailable,
}

/// A pressure condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    Memory,
    Disk,
    Processes,
}

/// The value of a threshold: an amount, or a percentage of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdValue {
    Quantity(i64),
    /// In thousandths of a percent of the capacity.
    Percentage(i64),
}

/// An eviction threshold. It is met when less than `value` is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub signal: Signal,
    pub value: ThresholdValue,
    /// Seconds that a soft threshold must stay met before pods are evicted; `None`: a hard threshold, pods are evicted
    /// at once.
    pub grace_period: Option<i64>,
    /// Minimum reclaim: how much more than `value` must be available before the threshold is no longer met.
    pub min_reclaim: ThresholdValue,
}

/// Capacity of a resource, and how much of it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalObservation {
    pub capacity: i64,
    pub available: i64,
}

const SIGNALS: [(&str, Signal); 6] = [
    ("memory.available", Signal::MemoryAvailable),
    ("nodefs.available", Signal::NodeFsAvailable),
    ("nodefs.inodesFree", Signal::NodeFsInodesFree),
    ("imagefs.available", Signal::ImageFsAvailable),
    ("imagefs.inodesFree", Signal::ImageFsInodesFree),
    ("pid.available", Signal::PidAvailable),
];

impl Signal {
    /// The pressure condition that the signal belongs to.
    pub fn pressure(self) -> Pressure {
        match self {
            Self::MemoryAvailable => Pressure::Memory,
            Self::PidAvailable => Pressure::Processes,
            _ => Pressure::Disk,
        }
    }

    /// The resource that eviction messages name.
    pub fn resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory",
            Self::NodeFsAvailable | Self::ImageFsAvailable => "ephemeral-storage",
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => "inodes",
            Self::PidAvailable => "pids",
        }
    }

    pub fn is_of_disks(self) -> bool {
        self.pressure() == Pressure::Disk
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SIGNALS.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, signal)| *signal)
            .ok_or_else(|| format!("unsupported eviction signal {text}"))
    }
}

impl Pressure {
    /// The type of the node condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Processes => "PIDPressure",
        }
    }
}

impl ThresholdValue {
    pub const NOTHING: Self = Self::Quantity(0);

    /// The threshold as an amount of a resource with this capacity.
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Quantity(amount) => amount,
            Self::Percentage(part) => {
                let share = i128::from(capacity) * i128::from(part) / 100_000;
                i64::try_from(share).unwrap_or(i64::MAX)
            }
        }
    }
}

impl FromStr for ThresholdValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: object::quantity::QuantityError| format!("{text}: {error}");
        let Some(part) = text.strip_suffix('%') else {
            return Ok(Self::Quantity(text.parse::<Quantity>().map_err(wrong)?.value()));
        };
        match part.parse::<Quantity>().map_err(wrong)?.milli_value() {
            part @ 0..=100_000 => Ok(Self::Percentage(part)),
            _ => Err(format!("{text}: a part is between 0% and 100%")),
        }
    }
}

impl Threshold {
    /// Whether less than the threshold is available; if `reclaiming`, with the minimum reclaim added.
    pub fn is_met(&self, left: SignalObservation, reclaiming: bool) -> bool {
        let more = if reclaiming { self.min_reclaim.of(left.capacity) } else { 0 };
        left.available < self.value.of(left.capacity).saturating_add(more)
    }
}

/// Parses upstream's four flags: `--eviction-hard`, `--eviction-soft`, `--eviction-soft-grace-period` and
/// `--eviction-minimum-reclaim`.
pub fn thresholds(
    hard: &str,
    soft: &str,
    graces: &str,
    reclaims: &str,
) -> Result<Vec<Threshold>, String> {
    let mut grace: BTreeMap<Signal, i64> = BTreeMap::new();
    for (signal, text) in pairs(graces, '=') {
        let nanos = object::Duration::parse_nanos(text)?;
        if nanos <= 0 {
            return Err(format!("invalid eviction grace period specified: {text}"));
        }
        grace.insert(signal.parse()?, nanos / 1_000_000_000);
    }
    let mut reclaim: BTreeMap<Signal, ThresholdValue> = BTreeMap::new();
    for (signal, text) in pairs(reclaims, '=') {
        reclaim.insert(signal.parse()?, text.parse()?);
    }
    let mut found = Vec::new();
    for (list, is_soft) in [(hard, false), (soft, true)] {
        for (name, text) in pairs(list, '<') {
            let signal: Signal = name.parse()?;
            let least = text.parse()?;
            if matches!(least, ThresholdValue::Percentage(0 | 100_000)) {
                continue; // 0% and 100% disable the threshold
            }
            if least.of(100) <= 0 {
                return Err(format!("eviction threshold {name} must be positive: {text}"));
            }
            let grace = grace.get(&signal).copied();
            if is_soft && grace.is_none() {
                return Err(format!(
                    "grace period must be specified for the soft eviction threshold {name}"
                ));
            }
            let grace = grace.filter(|_| is_soft);
            let reclaim = reclaim.get(&signal).copied().unwrap_or(ThresholdValue::NOTHING);
            found.push(Threshold {
                signal,
                value: least,
                grace_period: grace,
                min_reclaim: reclaim,
            });
        }
    }
    Ok(found)
}

fn pairs(list: &str, between: char) -> impl Iterator<Item = (&str, &str)> {
    let all = list.split(',').map(str::trim).filter(|one| !one.is_empty());
    // without a value, parsing the quantity fails with an error that names it
    all.map(move |one| one.split_once(between).unwrap_or((one, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_upstream_reads_them() {
        let hard = "memory.available<100Mi,nodefs.available<10%,pid.available<0%";
        let soft = "memory.available<1Gi";
        let graces = "memory.available=1m30s";
        let got = thresholds(hard, soft, graces, "memory.available=50Mi").unwrap();
        let of = |signal, least, grace, reclaim| Threshold {
            signal,
            value: least,
            grace_period: grace,
            min_reclaim: reclaim,
        };
        let more = ThresholdValue::Quantity(50 << 20);
        let want = [
            of(Signal::MemoryAvailable, ThresholdValue::Quantity(100 << 20), None, more),
            of(
                Signal::NodeFsAvailable,
                ThresholdValue::Percentage(10_000),
                None,
                ThresholdValue::NOTHING,
            ),
            of(Signal::MemoryAvailable, ThresholdValue::Quantity(1 << 30), Some(90), more),
        ];
        assert_eq!(got, want);
        for (hard, soft, why) in [
            ("disk<1", "", "unsupported eviction signal disk"),
            ("memory.available<0", "", "eviction threshold memory.available must be positive: 0"),
            ("memory.available<101%", "", "101%: a part is between 0% and 100%"),
            (
                "",
                "memory.available<1Gi",
                "grace period must be specified for the soft eviction threshold memory.available",
            ),
        ] {
            assert_eq!(thresholds(hard, soft, "", "").unwrap_err(), why);
        }
        assert!(thresholds("memory.available", "", "", "").is_err());
    }

    #[test]
    fn what_was_short_must_be_plenty_before_it_is_over() {
        let all = thresholds("nodefs.available<10%", "", "", "nodefs.available=5%").unwrap();
        let left = |available| SignalObservation { capacity: 1000, available };
        assert!(all[0].is_met(left(99), false) && !all[0].is_met(left(100), false));
        assert!(all[0].is_met(left(149), true) && !all[0].is_met(left(150), true));
    }
}
