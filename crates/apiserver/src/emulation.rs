//! `--emulated-version`: this release behaves like an older one. API versions that were introduced
//! later are not served, and feature gates have their former defaults.

use anyhow::{Context as _, Result, ensure};
use schema::ResourceDefinition;

use crate::Config;

/// Minor version of this release; `OLDEST` is that of the oldest release that can be emulated.
const NOW: u32 = 37;
const OLDEST: u32 = 34;

/// The emulated version, by minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulation {
    pub(crate) version: u32,
    /// The oldest release that may run beside this one (`--min-compatibility-version`).
    pub(crate) min_compatibility: u32,
}

impl Default for Emulation {
    fn default() -> Self {
        Self { version: NOW, min_compatibility: NOW - 1 }
    }
}

/// The stage and default of a feature gate in an emulated release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmulatedStage {
    /// The feature did not exist.
    Unknown,
    Alpha,
    /// Beta, with its default.
    Beta(bool),
}

impl Emulation {
    /// Parses the flags: `1.36` or `kube=1.36`.
    pub(crate) fn new(version: &[String], compatible: &[String]) -> Result<Self> {
        let version = match version.last() {
            Some(text) => minor(text).with_context(|| format!("--emulated-version {text}"))?,
            None => NOW,
        };
        ensure!(
            (OLDEST..=NOW).contains(&version),
            "emulation version 1.{version} is not between [1.{OLDEST}, 1.{NOW}.0]"
        );
        let compatible = match compatible.last() {
            Some(text) => {
                minor(text).with_context(|| format!("--min-compatibility-version {text}"))?
            }
            None => version - 1,
        };
        ensure!(
            (OLDEST - 1..=version).contains(&compatible),
            "minCompatibilityVersion version 1.{compatible} is not between [1.{}, 1.{version}]",
            OLDEST - 1
        );
        Ok(Self { version, min_compatibility: compatible })
    }

    /// Whether an older release than this one is emulated.
    pub(crate) fn is_older(self) -> bool {
        self.version < NOW
    }

    /// The release that introduced a version of a kind, if that is later than the emulated one.
    pub(crate) fn introduced(self, kind: &ResourceDefinition) -> Option<u32> {
        let names = &kind.names;
        let found = INTRODUCED.iter().find(|(group, version, kinds, _)| {
            (*group, *version) == (names.group, names.version) && kinds.contains(&names.kind)
        });
        found.map(|(.., since)| *since).filter(|since| *since > self.version)
    }

    /// The stage of a feature in the emulated release; `None` if it is as it is now.
    pub(crate) fn feature(self, name: &str) -> Option<EmulatedStage> {
        let (_, history) = FEATURES.iter().find(|(names, _)| names.contains(&name))?;
        let nth = usize::try_from(self.version - OLDEST).ok()?;
        history.get(nth).copied()
    }
}

impl Config {
    /// Whether the emulated release has this version of a kind, or the forward-compatible flags
    /// enable it.
    pub(crate) fn is_emulated(&self, kind: &ResourceDefinition) -> bool {
        let (flags, emulation, names) = (&self.flags.general, self.emulation, &kind.names);
        if emulation.introduced(kind).is_none() {
            return true;
        }
        let older = |other: &ResourceDefinition| {
            (other.names.group, other.names.kind) == (names.group, names.kind)
                && !other.names.version.contains("alpha")
                && emulation.introduced(other).is_none()
                && self.serves(other.names.group, other.names.version, other.enabled_by_default)
        };
        (flags.runtime_config_emulation_forward_compatible && self.is_named(kind))
            || (flags.emulation_forward_compatible && api::builtin_resources().iter().any(older))
    }

    /// Rejects a `--runtime-config` that enables what the emulated release does not have.
    pub(crate) fn check_emulated(&self) -> Result<()> {
        for kind in api::builtin_resources() {
            let Some(since) = self.emulation.introduced(&kind) else { continue };
            ensure!(
                !self.is_named(&kind) || self.is_emulated(&kind),
                "cannot enable resource {} in runtime-config because it is introduced at 1.{since} \
                 after the current version 1.{}. Consider setting \
                 --runtime-config-emulation-forward-compatible=true",
                kind.names.plural,
                self.emulation.version
            );
        }
        Ok(())
    }

    /// Whether `--runtime-config` enables exactly this version.
    fn is_named(&self, kind: &ResourceDefinition) -> bool {
        let exact = format!("{}/{}=true", kind.names.group, kind.names.version);
        self.flags.runtime_config.contains(&exact)
    }
}

fn minor(text: &str) -> Result<u32> {
    let version = text.rsplit('=').next().unwrap_or_default();
    let component = text.split_once('=').map_or("kube", |(component, _)| component);
    ensure!(component == "kube", "component not registered: {component}");
    let minor = version.strip_prefix("1.").context("a version is written 1.MINOR")?;
    minor.parse().context("a version is written 1.MINOR")
}

/// Group, version, kinds, and the minor version that introduced them.
type Introduced = (&'static str, &'static str, &'static [&'static str], u32);

/// Versions introduced since the oldest release that can be emulated.
const INTRODUCED: &[Introduced] = &[
    (
        "admissionregistration.k8s.io",
        "v1",
        &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        36,
    ),
    ("certificates.k8s.io", "v1", &["ClusterTrustBundle", "PodCertificateRequest"], 37),
    ("certificates.k8s.io", "v1beta1", &["PodCertificateRequest"], 35),
    ("lifecycle.k8s.io", "v1alpha1", &["Eviction", "EvictionRequest"], 37),
    ("resource.k8s.io", "v1", &["DeviceTaintRule"], 37),
    ("resource.k8s.io", "v1alpha3", &["ResourcePoolStatusRequest"], 36),
    ("resource.k8s.io", "v1beta2", &["DeviceTaintRule"], 36),
    ("scheduling.k8s.io", "v1beta1", &["PodGroup", "Workload"], 37),
    ("storagemigration.k8s.io", "v1", &["StorageVersionMigration"], 37),
    ("storagemigration.k8s.io", "v1beta1", &["StorageVersionMigration"], 35),
];

/// Features that this server implements, in the releases from the oldest on.
const FEATURES: &[(&[&str], [EmulatedStage; 3])] = &[
    (
        &["DRAPartitionableDevices", "DRAConsumableCapacity", "DRADeviceBindingConditions"],
        [EmulatedStage::Alpha, EmulatedStage::Alpha, EmulatedStage::Beta(true)],
    ),
    (
        &[
            "CompositePodGroup",
            "DRADerivedAttributes",
            "DRADeviceCompatibilityGroups",
            "DRAOptionalNodeOperations",
            "DRAPartitionableDevicesType",
            "EvictionRequestAPI",
            "PodGroupPreemptionPolicy",
        ],
        [EmulatedStage::Unknown, EmulatedStage::Unknown, EmulatedStage::Unknown],
    ),
    (
        &[
            "DRAListTypeAttributes",
            "DRANodeAllocatableResources",
            "DRAWorkloadResourceClaims",
            "ManifestBasedAdmissionControlConfig",
            "TopologyAwareWorkloadScheduling",
        ],
        [EmulatedStage::Unknown, EmulatedStage::Unknown, EmulatedStage::Alpha],
    ),
    (
        &["GenericWorkload", "VolumeLimitScaling"],
        [EmulatedStage::Unknown, EmulatedStage::Alpha, EmulatedStage::Alpha],
    ),
    (
        &["StorageVersionMigrator", "PodCertificateRequest"],
        [EmulatedStage::Alpha, EmulatedStage::Beta(false), EmulatedStage::Beta(false)],
    ),
    (
        &["ClusterTrustBundle"],
        [EmulatedStage::Beta(false), EmulatedStage::Beta(false), EmulatedStage::Beta(false)],
    ),
    (
        &["MutableCSINodeAllocatableCount"],
        [EmulatedStage::Beta(false), EmulatedStage::Beta(true), EmulatedStage::Beta(true)],
    ),
    (
        &["CSIServiceAccountTokenSecrets"],
        [EmulatedStage::Unknown, EmulatedStage::Beta(true), EmulatedStage::Beta(true)],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_bounded() {
        let new = |version: &str, compatible: &str| {
            let list = |text: &str| match text {
                "" => Vec::new(),
                text => vec![text.to_owned()],
            };
            Emulation::new(&list(version), &list(compatible)).map_err(|error| error.to_string())
        };
        assert_eq!(new("", ""), Ok(Emulation::default()));
        assert_eq!(new("kube=1.35", ""), Ok(Emulation { version: 35, min_compatibility: 34 }));
        assert_eq!(new("1.36", "1.36"), Ok(Emulation { version: 36, min_compatibility: 36 }));
        let said = new("1.40", "").unwrap_err();
        assert_eq!(said, "emulation version 1.40 is not between [1.34, 1.37.0]");
        let said = new("1.35", "1.36").unwrap_err();
        assert_eq!(said, "minCompatibilityVersion version 1.36 is not between [1.33, 1.35]");
        assert!(new("wardle=1.2", "").is_err() && new("2.0", "").is_err());
    }

    #[test]
    fn what_is_listed_is_there() {
        let kinds = api::builtin_resources();
        for (group, version, names, _) in INTRODUCED {
            for name in *names {
                let is = |kind: &ResourceDefinition| {
                    let own = &kind.names;
                    (own.group, own.version, own.kind) == (*group, *version, *name)
                };
                assert!(kinds.iter().any(is), "{group}/{version} {name}");
            }
        }
    }
}
