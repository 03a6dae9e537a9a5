//! coordination/v1beta1 and v1alpha2: LeaseCandidate.

use macros::api;
use object::{MicroTime, ObjectMeta, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn, ValidateName};

use crate::rules::ValidateField;

/// Says who would hold a lease.
#[api]
pub struct LeaseCandidate {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: LeaseCandidateSpec,
}

#[api]
pub struct LeaseCandidateSpec {
    /// The lease that it would hold.
    lease_name: Must<String>,
    /// When it was last asked whether it is there.
    ping_time: Option<MicroTime>,
    /// When it last said so.
    renew_time: Option<MicroTime>,
    /// The version of its program.
    binary_version: Must<String>,
    /// The version that the program behaves as.
    emulation_version: String,
    /// How the holder should be chosen.
    #[api(go_type = "v1.CoordinatedLeaseStrategy")]
    strategy: String,
}

impl Kind for LeaseCandidate {
    const NAMES: ResourceNames =
        ResourceNames::new("coordination.k8s.io", "v1beta1", "LeaseCandidate", "leasecandidates");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["coordination.k8s.io/v1alpha2", "coordination.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const CREATED_BY_UPDATE: bool = true;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_39;
    const NAME: ValidateName = |name, _| names::config_map_key(name);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("LeaseName", |this, _| this.spec().lease_name().into()),
        TableColumn::text("BinaryVersion", |this, _| this.spec().binary_version().into()),
        TableColumn::text("EmulationVersion", |this, _| this.spec().emulation_version().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let (new, old) = (self.spec().lease_name(), old.spec().lease_name());
        errs.immutable(&FieldPath::SPEC.field("leaseName"), &new.into(), &old.into());
    }
}

/// The one way to choose among candidates that Kubernetes itself knows.
const OLDEST: &str = "OldestEmulationVersion";

impl LeaseCandidateSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "leaseName", self.lease_name());
        let mut version = |name: &str, text: &str| {
            let read = Version::parse(text);
            if !text.is_empty() && read.is_none() {
                errs.invalid(&at.field(name), text, "must be a valid semantic version");
            }
            read.unwrap_or_default()
        };
        let emulated = version("emulationVersion", self.emulation_version());
        let own = version("binaryVersion", self.binary_version());
        errs.required_field(at, "binaryVersion", self.binary_version());
        let both = !self.binary_version().is_empty() && !self.emulation_version().is_empty();
        if both && own < emulated {
            let why = "must be greater than or equal to `emulationVersion`";
            errs.invalid(&at.field("binaryVersion"), self.binary_version(), why);
        }
        match self.strategy() {
            "" => errs.required(&at.field("strategy"), ""),
            OLDEST if emulated.numbers == [0; 3] && emulated.before.is_empty() => {
                let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
                errs.required(&at.field("emulationVersion"), why);
            }
            OLDEST => {}
            other => {
                let at = at.field("strategy");
                let at = at.field("strategy");
                if other.contains('/') {
                    errs.qualified(&at, other);
                } else {
                    errs.not_supported(&at, other, &[OLDEST]);
                }
            }
        }
    }
}

/// A semantic version, in the order of releases.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    /// A release comes after all that led to it.
    is_release: bool,
    before: Vec<Part>,
}

/// Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let (rest, build) = text.split_once('+').unwrap_or((text, "x"));
        let (rest, before) = rest.split_once('-').map_or((rest, None), |(a, b)| (a, Some(b)));
        let word = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let mut numbers = rest.split('.').map(number);
        let numbers = [numbers.next()??, numbers.next()??, numbers.next()??];
        if rest.split('.').count() != 3 || !build.split('.').all(word) {
            return None;
        }
        let parts = before.map(|before| {
            before.split('.').map(|part| {
                let digits = part.bytes().all(|byte| byte.is_ascii_digit());
                match part {
                    part if !word(part) => None,
                    part if digits => number(part).map(Part::Number),
                    part => Some(Part::Word(part.to_owned())),
                }
            })
        });
        let before = parts.into_iter().flatten().collect::<Option<Vec<_>>>()?;
        Some(Self { numbers, is_release: before.is_empty(), before })
    }
}

/// A number without zeros in front.
fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || !text.starts_with('0');
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && digits).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn versions_are_in_order() {
        let order = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0", "1.2.0", "1.10.0+x"];
        let read: Vec<_> = order.iter().map(|text| Version::parse(text).expect(text)).collect();
        assert!(read.is_sorted());
        for text in ["", "1", "1.2", "1.2.3.4", "01.2.3", "v1.2.3", "1.2.3-", "1.2.3+"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_candidate_is_not_older_than_what_it_plays() {
        let candidate: LeaseCandidate = created_from_json(
            r#"{"metadata": {"name": "a"}, "spec": {"leaseName": "l", "binaryVersion": "1.2.3",
                "emulationVersion": "1.3.0", "strategy": "OldestEmulationVersion"}}"#,
        );
        assert_eq!(
            create_errors(&candidate),
            ["spec.binaryVersion: Invalid value: \"1.2.3\": must be greater than or equal to \
              `emulationVersion`"]
        );
    }
}
