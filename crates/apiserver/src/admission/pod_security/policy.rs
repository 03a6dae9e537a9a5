//! The Pod Security policy of a namespace: a level and a version for each of the modes enforce,
//! audit and warn.

use std::fmt;

use object::Map;
use schema::{ErrorList, FieldPath};

/// The newest minor version of the checks.
pub(super) const LATEST: u32 = 37;
const LABELS: &str = "pod-security.kubernetes.io";

/// A level of the Pod Security Standards; a greater one is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

pub(super) const LEVELS: &str = "must be one of privileged, baseline, restricted";
const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

impl Level {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }

    /// The name of the level in labels.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level at a minor version; `None` means the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) minor: Option<u32>,
}

impl LevelVersion {
    /// The minor version whose checks apply, at most the latest.
    pub(super) fn version(self) -> u32 {
        self.minor.unwrap_or(LATEST).min(LATEST)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.word();
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The level and version of each mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// Reads the labels of a namespace. Missing labels come from `defaults`. An invalid value means
    /// restricted for `enforce` and privileged for the other modes.
    pub(super) fn of(labels: &Map<String>, defaults: Self, errs: &mut ErrorList) -> Self {
        let before = errs.0.len();
        let enforce = rules(labels, "enforce", (defaults.enforce, Level::Restricted), errs);
        let enforced = labels.get(&format!("{LABELS}/enforce")).is_some()
            && errs.0[before..].iter().all(|error| error.path.contains("-version"));
        let audit = rules(labels, "audit", (defaults.audit, Level::Privileged), errs);
        let mut warn = rules(labels, "warn", (defaults.warn, Level::Privileged), errs);
        let silent = labels.get(&format!("{LABELS}/warn")).is_none();
        if silent && enforced && enforce.level > warn.level {
            warn.level = enforce.level;
            if labels.get(&format!("{LABELS}/warn-version")).is_none() {
                warn.minor = enforce.minor;
            }
        }
        Self { enforce, audit, warn }
    }

    pub(super) fn modes(self) -> [(&'static str, LevelVersion); 3] {
        [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)]
    }

    /// Whether every mode is privileged; `enforce` counts only for pods, because controllers are
    /// never rejected.
    pub(super) fn is_fully_privileged(self, enforce: bool) -> bool {
        let mut modes = self.modes().into_iter().filter(|(mode, _)| enforce || *mode != "enforce");
        modes.all(|(_, rules)| rules.level == Level::Privileged)
    }
}

fn rules(
    labels: &Map<String>,
    mode: &str,
    (default, otherwise): (LevelVersion, Level),
    errs: &mut ErrorList,
) -> LevelVersion {
    let metadata = FieldPath::Root.field("metadata");
    let at = metadata.field("labels");
    let mut rules = default;
    let label = format!("{LABELS}/{mode}");
    if let Some(text) = labels.get(&label) {
        rules.level = Level::parse(text).unwrap_or_else(|| {
            errs.invalid(&at.key(&label), text, LEVELS);
            otherwise
        });
    }
    let label = format!("{LABELS}/{mode}-version");
    if let Some(text) = labels.get(&label) {
        rules.minor = minor(text).unwrap_or_else(|why| {
            errs.invalid(&at.key(&label), text, why);
            None
        });
    }
    rules
}

/// Parses `v1.x`, or `latest` as `None`; the error is upstream's text.
pub(super) fn minor(text: &str) -> Result<Option<u32>, &'static str> {
    if text == "latest" {
        return Ok(None);
    }
    let digits = text.strip_prefix("v1.").filter(|rest| *rest == "0" || !rest.starts_with('0'));
    let digits = digits.filter(|rest| rest.bytes().all(|c| c.is_ascii_digit()));
    digits.and_then(|rest| rest.parse().ok()).map(Some).ok_or(VERSIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_what_holds() {
        let mut errs = ErrorList::default();
        let labels = Map::<String>::from([
            ("pod-security.kubernetes.io/enforce", "baseline"),
            ("pod-security.kubernetes.io/enforce-version", "v1.30"),
        ]);
        let policy = Policy::of(&labels, Policy::default(), &mut errs);
        assert_eq!(policy.enforce.to_string(), "baseline:v1.30");
        assert_eq!(policy.warn, policy.enforce);
        assert_eq!(policy.audit.level, Level::Privileged);
        assert!(errs.is_empty());
        let labels = Map::<String>::from([("pod-security.kubernetes.io/enforce", "nope")]);
        let policy = Policy::of(&labels, Policy::default(), &mut errs);
        assert_eq!((policy.enforce.level, errs.0.len()), (Level::Restricted, 1));
    }
}
