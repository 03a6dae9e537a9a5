//! How little of something a node may have left before pods must go.

use std::{collections::BTreeMap, str::FromStr};

use object::Quantity;

/// What a node can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    Memory,
    NodeDisk,
    NodeInodes,
    ImageDisk,
    ImageInodes,
    Processes,
}

/// What a node says of itself while it is short of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    Memory,
    Disk,
    Processes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Whole(i64),
    /// Thousandths of a hundredth of what there is.
    Part(i64),
}

/// Fewer left than that is too few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub signal: Signal,
    pub least: Amount,
    /// Seconds that it may last; absent: pods go at once.
    pub grace: Option<i64>,
    /// How much more than the least must be there before it is over.
    pub reclaim: Amount,
}

/// How much there is, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub capacity: i64,
    pub available: i64,
}

const SIGNALS: [(&str, Signal); 6] = [
    ("memory.available", Signal::Memory),
    ("nodefs.available", Signal::NodeDisk),
    ("nodefs.inodesFree", Signal::NodeInodes),
    ("imagefs.available", Signal::ImageDisk),
    ("imagefs.inodesFree", Signal::ImageInodes),
    ("pid.available", Signal::Processes),
];

impl Signal {
    pub fn pressure(self) -> Pressure {
        match self {
            Self::Memory => Pressure::Memory,
            Self::Processes => Pressure::Processes,
            _ => Pressure::Disk,
        }
    }

    /// The resource that messages name.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::NodeDisk | Self::ImageDisk => "ephemeral-storage",
            Self::NodeInodes | Self::ImageInodes => "inodes",
            Self::Processes => "pids",
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
    /// The type of the node's condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Processes => "PIDPressure",
        }
    }
}

impl Amount {
    pub const NOTHING: Self = Self::Whole(0);

    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Whole(amount) => amount,
            Self::Part(part) => {
                let share = i128::from(capacity) * i128::from(part) / 100_000;
                i64::try_from(share).unwrap_or(i64::MAX)
            }
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: object::quantity::QuantityError| format!("{text}: {error}");
        let Some(part) = text.strip_suffix('%') else {
            return Ok(Self::Whole(text.parse::<Quantity>().map_err(wrong)?.value()));
        };
        match part.parse::<Quantity>().map_err(wrong)?.milli_value() {
            part @ 0..=100_000 => Ok(Self::Part(part)),
            _ => Err(format!("{text}: a part is between 0% and 100%")),
        }
    }
}

impl Threshold {
    /// Whether too little is left; `reclaiming`: with what must be won besides.
    pub fn is_met(&self, left: Left, reclaiming: bool) -> bool {
        let more = if reclaiming { self.reclaim.of(left.capacity) } else { 0 };
        left.available < self.least.of(left.capacity).saturating_add(more)
    }
}

/// Reads upstream's four flags: `--eviction-hard`, `--eviction-soft`,
/// `--eviction-soft-grace-period` and `--eviction-minimum-reclaim`.
pub fn thresholds(
    hard: &str,
    soft: &str,
    graces: &str,
    reclaims: &str,
) -> Result<Vec<Threshold>, String> {
    let mut grace: BTreeMap<Signal, i64> = BTreeMap::new();
    for (signal, text) in pairs(graces, '=') {
        let nanos = object::Duration::nanos(text)?;
        if nanos <= 0 {
            return Err(format!("invalid eviction grace period specified: {text}"));
        }
        grace.insert(signal.parse()?, nanos / 1_000_000_000);
    }
    let mut reclaim: BTreeMap<Signal, Amount> = BTreeMap::new();
    for (signal, text) in pairs(reclaims, '=') {
        reclaim.insert(signal.parse()?, text.parse()?);
    }
    let mut found = Vec::new();
    for (list, is_soft) in [(hard, false), (soft, true)] {
        for (name, text) in pairs(list, '<') {
            let signal: Signal = name.parse()?;
            let least = text.parse()?;
            if matches!(least, Amount::Part(0 | 100_000)) {
                continue; // says that the signal does not count
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
            let reclaim = reclaim.get(&signal).copied().unwrap_or(Amount::NOTHING);
            found.push(Threshold { signal, least, grace, reclaim });
        }
    }
    Ok(found)
}

fn pairs(list: &str, between: char) -> impl Iterator<Item = (&str, &str)> {
    let all = list.split(',').map(str::trim).filter(|one| !one.is_empty());
    // without a value the signal's own parser complains
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
        let of = |signal, least, grace, reclaim| Threshold { signal, least, grace, reclaim };
        let more = Amount::Whole(50 << 20);
        let want = [
            of(Signal::Memory, Amount::Whole(100 << 20), None, more),
            of(Signal::NodeDisk, Amount::Part(10_000), None, Amount::NOTHING),
            of(Signal::Memory, Amount::Whole(1 << 30), Some(90), more),
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
        let left = |available| Left { capacity: 1000, available };
        assert!(all[0].is_met(left(99), false) && !all[0].is_met(left(100), false));
        assert!(all[0].is_met(left(149), true) && !all[0].is_met(left(150), true));
    }
}
