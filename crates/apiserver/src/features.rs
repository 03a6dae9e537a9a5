//! `--feature-gates`: the feature gates of upstream's API server at this version.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Result, anyhow, bail, ensure};
use schema::{FeatureGates, ResourceDefinition};
use server::MetricsSource;

use crate::emulation::{EmulatedStage, Emulation};

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Stable,
    Deprecated,
}

/// Features with the same stage and default; a locked one cannot be changed.
struct FeatureGroup {
    stage: Stage,
    on: bool,
    locked: bool,
    names: &'static [&'static str],
}

impl FeatureGroup {
    /// The stage and default of one of the features in the emulated release.
    fn then(&self, name: &str, emulation: Emulation) -> Self {
        let (stage, on, locked) = match emulation.feature(name) {
            None => (self.stage, self.on, self.locked),
            Some(EmulatedStage::Unknown) => (Stage::Alpha, false, true),
            Some(EmulatedStage::Alpha) => (Stage::Alpha, false, false),
            Some(EmulatedStage::Beta(on)) => (Stage::Beta, on, false),
        };
        Self { stage, on, locked, names: &[] }
    }
}

/// Parses the flag. A feature that the flag changes must be implemented here (by a kind, a field or
/// the server), since any other would be changed in name only.
pub(crate) fn gates(
    said: &[String],
    kinds: &[ResourceDefinition],
    emulation: Emulation,
) -> Result<FeatureGates> {
    let mut chosen: BTreeMap<&'static str, bool> = BTreeMap::new();
    let (mut alpha, mut beta) = (None, None);
    for entry in said.iter().filter(|entry| !entry.is_empty()) {
        let entry = entry.strip_prefix("kube:").unwrap_or(entry);
        let (name, on) =
            entry.split_once('=').ok_or_else(|| anyhow!("missing bool value for {entry}"))?;
        let on = boolean(name, on)?;
        match name {
            "AllAlpha" => alpha = Some(on),
            "AllBeta" => beta = Some(on),
            name => {
                let (group, name) =
                    find(name).ok_or_else(|| anyhow!("unrecognized feature gate: {name}"))?;
                let then = group.then(name, emulation);
                ensure!(
                    emulation.feature(name) != Some(EmulatedStage::Unknown),
                    "cannot set feature gate {name} to {on}, feature is PreAlpha at emulated \
                     version 1.{}, min compatibility version 1.{}",
                    emulation.version,
                    emulation.min_compatibility
                );
                ensure!(
                    !then.locked || then.on == on,
                    "cannot set feature gate {name} to {on}, feature is locked to {}",
                    then.on
                );
                chosen.insert(name, on);
            }
        }
    }
    let of_stage = |stage| match stage {
        Stage::Alpha => alpha,
        Stage::Beta => beta,
        Stage::Stable | Stage::Deprecated => None,
    };
    let mut off = Vec::new();
    for group in FEATURES {
        for name in group.names {
            let then = group.then(name, emulation);
            let all = of_stage(then.stage).filter(|_| !then.locked && is_implemented(name, kinds));
            let on = chosen.get(name).copied().or(all);
            if NOT_DONE.contains(name) {
                ensure!(
                    on != Some(true),
                    "feature gate {name} cannot be set to true: this server does not implement the feature"
                );
                off.push(*name);
                continue;
            }
            let on = on.unwrap_or(then.on);
            if on != then.on && !is_implemented(name, kinds) {
                bail!("feature gate {name} cannot be set to {on}: this server has no such switch");
            }
            if !on {
                off.push(*name);
            }
        }
    }
    Ok(FeatureGates::with_disabled(off))
}

/// Metrics of the feature gates and of the version.
#[derive(Debug)]
pub(crate) struct FeatureMetrics {
    pub(crate) gates: FeatureGates,
    pub(crate) emulation: Emulation,
}

impl MetricsSource for FeatureMetrics {
    fn report(&self, out: &mut String) {
        const NAME: &str = "kubernetes_feature_enabled";
        let mut lines = Vec::new();
        for group in FEATURES {
            for name in group.names {
                let stage = match group.then(name, self.emulation).stage {
                    Stage::Alpha => "ALPHA",
                    Stage::Beta => "BETA",
                    Stage::Stable => "",
                    Stage::Deprecated => "DEPRECATED",
                };
                let on = u8::from(self.gates.is_enabled(name));
                lines.push(format!("{NAME}{{name=\"{name}\",stage=\"{stage}\"}} {on}\n"));
            }
        }
        lines.sort();
        let _ = write!(out, "# HELP {NAME} Which features are on.\n# TYPE {NAME} gauge\n");
        out.extend(lines);
        self.versions(out);
    }
}

impl FeatureMetrics {
    /// Writes `version_info`: the binary and the emulated version.
    fn versions(&self, out: &mut String) {
        const NAME: &str = "version_info";
        let binary = server::VERSION.trim_start_matches('v');
        let Emulation { version, min_compatibility: compatible } = self.emulation;
        let _ = write!(
            out,
            "# HELP {NAME} Which version this is.\n# TYPE {NAME} gauge\n\
             {NAME}{{binary=\"{binary}\",component=\"kube\",emulation=\"1.{version}\",\
             min_compat=\"1.{compatible}\"}} 1\n"
        );
    }
}

fn find(name: &str) -> Option<(&'static FeatureGroup, &'static str)> {
    FEATURES.iter().find_map(|group| {
        let name = group.names.iter().find(|known| **known == name)?;
        Some((group, *name))
    })
}

/// CBOR as a request and response encoding, and as the storage encoding of custom resources.
pub(crate) const CBOR: &str = "CBORServingAndStorage";

/// Admission policies and webhook configurations from files.
pub(crate) const MANIFESTS: &str = "ManifestBasedAdmissionControlConfig";

/// Logs may be split into two streams, and buffered.
pub(crate) const LOG_STREAMS: &str = "LoggingAlphaOptions";
/// Logs may be JSON.
pub(crate) const LOG_JSON: &str = "LoggingBetaOptions";

/// exec, attach and portforward need the verb `create`, even where the request is a GET.
pub(crate) const STREAMS_NEED_CREATE: &str = "AuthorizePodWebsocketUpgradeCreatePermission";
/// An unauthenticated HTTP/2 connection is closed after one request.
pub(crate) const CLOSE_ANONYMOUS: &str = "UnauthenticatedHTTP2DOSMitigation";
/// A user's UID may be read from the client certificate.
pub(crate) const CERTIFICATE_UID: &str = "AllowParsingUserUIDFromCertAuth";

/// Metrics in protobuf have native histograms.
pub(crate) const NATIVE_HISTOGRAMS: &str = "NativeHistograms";

/// Parts of a ResourceClaim's status need permissions of their own.
pub(crate) const CLAIM_STATUS_RIGHTS: &str = "DRAResourceClaimGranularStatusAuthorization";

/// Features that upstream's API server enables by default and this one does not implement. They are
/// reported as disabled and cannot be enabled.
const NOT_DONE: &[&str] =
    &["PersistentVolumeClaimUnusedSinceTime", "UnknownVersionInteroperabilityProxy"];

/// Features that this server itself implements, apart from kinds and fields.
const SERVER_GATES: &[&str] = &[
    CBOR,
    MANIFESTS,
    LOG_STREAMS,
    LOG_JSON,
    STREAMS_NEED_CREATE,
    CLOSE_ANONYMOUS,
    CERTIFICATE_UID,
    CLAIM_STATUS_RIGHTS,
    NATIVE_HISTOGRAMS,
    "AllowInsecureKubeletCertificateSigningRequests",
    "PodTopologyLabelsAdmission",
    "ServiceAccountNodeAudienceRestriction",
];

/// Whether a kind or a field depends on the feature, or the server implements it.
fn is_implemented(name: &str, kinds: &[ResourceDefinition]) -> bool {
    SERVER_GATES.contains(&name)
        || kinds.iter().any(|kind| {
            kind.feature_gate == Some(name) || schema::has_gated_field(&kind.schema, name)
        })
}

fn boolean(name: &str, text: &str) -> Result<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => bail!(
            "invalid value of {name}={text}, err: strconv.ParseBool: parsing {text:?}: invalid \
             syntax"
        ),
    }
}

const FEATURES: &[FeatureGroup] = &[
    FeatureGroup {
        stage: Stage::Alpha,
        on: false,
        locked: false,
        names: &[
            "APIServerWebhookAuthenticationToken",
            "APIServingWithRoutine",
            "AtomicWriteVolumeUserFields",
            "CBORServingAndStorage",
            "CPUManagerPolicyAlphaOptions",
            "CRIListStreaming",
            "CSIVolumeHealth",
            "ClientsAllowCBOR",
            "ClientsPreferCBOR",
            "CloudControllerManagerWatchBasedRoutesReconciliation",
            "CloudControllerManagerWebhook",
            "CompositePodGroup",
            "ConsistentListFromCacheSkipTimeoutFallback",
            "ContainerStopSignals",
            "ControllerManagerReleaseLeaderElectionLockOnExit",
            "CrossNamespaceVolumeDataSource",
            "CustomCPUCFSQuotaPeriod",
            "DRADerivedAttributes",
            "DRADeviceCompatibilityGroups",
            "DRAListTypeAttributes",
            "DRANodeAllocatableResources",
            "DRAOptionalNodeOperations",
            "DRAPartitionableDevicesType",
            "DRAResourcePoolStatus",
            "DefaultPodSysctls",
            "EmptyDirVolumeMode",
            "EventedPLEG",
            "EvictionRequestAPI",
            "GRPCContainerProbeTLS",
            "H2CContainerProbe",
            "ImageVolumeWithDigest",
            "InPlacePodVerticalScalingExclusiveCPUs",
            "InPlacePodVerticalScalingExclusiveMemory",
            "InPlacePodVerticalScalingMemoryBackedVolumes",
            "InPlacePodVerticalScalingSchedulerPreemption",
            "InterPodAffinityHostnameFastPath",
            "KubeProxyNFTablesLocalhostNodePorts",
            "KubeletAllocatedPodsEndpoint",
            "LoggingAlphaOptions",
            "MutablePVNodeAffinity",
            "NodeLifecycleConditions",
            "PodGroupPreemptionPolicy",
            "PodLogsQuerySplitStreams",
            "QOSReserved",
            "ReduceDefaultCrashLoopBackOffDecay",
            "RuntimeClassInImageCriApi",
            "SchedulerPreQueueingHints",
            "ShardedListAndWatch",
            "StatefulSetRecreateStrategy",
            "StorageVersionAPI",
            "TaintTolerationComparisonOperators",
            "TopologyAwareWorkloadScheduling",
            "TopologyManagerPolicyAlphaOptions",
            "UserNamespacesHostNetworkSupport",
            "VolumeBindMountOptions",
            "WindowsCPUAndMemoryAffinity",
            "WorkloadWithJob",
        ],
    },
    FeatureGroup {
        stage: Stage::Beta,
        on: false,
        locked: false,
        names: &[
            "CoordinatedLeaderElection",
            "DRAWorkloadResourceClaims",
            "GenericWorkload",
            "LocalStorageCapacityIsolationFSQuotaMonitoring",
            "PodAndContainerStatsFromCRI",
            "PodLevelResourceManagers",
            "SchedulerAsyncAPICalls",
        ],
    },
    FeatureGroup {
        stage: Stage::Beta,
        on: true,
        locked: false,
        names: &[
            "APIResponseCompression",
            "APIServerIdentity",
            "AllowParsingUserUIDFromCertAuth",
            "AllowUnsafeMalformedObjectDeletion",
            "AtomicFIFO",
            "AuthorizePodWebsocketUpgradeCreatePermission",
            "CPUManagerPolicyBetaOptions",
            "CRDObservedGenerationTracking",
            "ClearingNominatedNodeNameAfterBinding",
            "ClientsAllowCARotation",
            "ClientsAllowTLSCacheGC",
            "ComponentFlagz",
            "ComponentStatusz",
            "ConcurrentWatchObjectDecode",
            "ConstrainedImpersonation",
            "ContainerCheckpoint",
            "ContainerRestartRules",
            "ContextualLogging",
            "DRAConsumableCapacity",
            "DRADeviceBindingConditions",
            "DRAFractionalCapacityRange",
            "DRAPartitionableDevices",
            "DRAResourceClaimGranularStatusAuthorization",
            "DRASchedulerFilterTimeout",
            "DeclarativeValidationBeta",
            "DeploymentReplicaSetTerminatingReplicas",
            "DetectCacheInconsistency",
            "EnvFiles",
            "EtcdRangeStream",
            "ExcludeAdmissionWebhookVirtualResources",
            "ExtendWebSocketsToKubelet",
            "GracefulNodeShutdown",
            "GracefulNodeShutdownBasedOnPodPriority",
            "HPAGeneration",
            "HPAOptimizedSelectorStore",
            "HPAScaleToZero",
            "HugepageAwareEviction",
            "InOrderInformersBatchProcess",
            "InPlacePodLevelResourcesVerticalScaling",
            "KubeletCrashLoopBackOffMax",
            "KubeletEnsureSecretPulledImages",
            "KubeletInUserNamespace",
            "KubeletSeparateDiskGC",
            "KubeletServiceAccountTokenForCredentialProviders",
            "ListFromCacheSnapshot",
            "LoggingBetaOptions",
            "ManifestBasedAdmissionControlConfig",
            "MatchLabelKeysInPodTopologySpread",
            "MatchLabelKeysInPodTopologySpreadSelectorMerge",
            "MaxUnavailableStatefulSet",
            "MemoryQoS",
            "MutablePodResourcesForSuspendedJobs",
            "MutableSchedulingDirectivesForSuspendedJobs",
            "NFTablesNetlink",
            "NativeHistograms",
            "NodeControllerLeaseCircuitBreaker",
            "NominatedNodeNameForExpectation",
            "OpenAPIEnums",
            "OpportunisticBatching",
            "PersistentVolumeClaimUnusedSinceTime",
            "PodDeletionCost",
            "PodLevelResources",
            "PodLevelResourcesFixDefaulting",
            "PodLevelResourcesFixKubeletQOSClass",
            "PodTopologyLabelsAdmission",
            "PodsAPI",
            "PortForwardWebsockets",
            "ReloadKubeletClientCAFile",
            "ReloadKubeletServerCertificateFile",
            "RemoteRequestHeaderUID",
            "ResourceHealthStatus",
            "ResourceHealthStatusMessage",
            "RestartAllContainersOnContainerExits",
            "RotateKubeletServerCertificate",
            "SchedulerAsyncPreemption",
            "SchedulerPopFromBackoffQ",
            "ServiceAccountNodeAudienceRestriction",
            "SizeBasedListCostEstimate",
            "StaleControllerConsistencyDaemonSet",
            "StaleControllerConsistencyHPA",
            "StaleControllerConsistencyJob",
            "StaleControllerConsistencyReplicaSet",
            "StaleControllerConsistencyStatefulSet",
            "StorageCapacityScoring",
            "StorageVersionHash",
            "StrictIPCIDRValidation",
            "StructuredAuthenticationConfigurationEgressSelector",
            "StructuredAuthenticationConfigurationJWKSMetrics",
            "TokenRequestServiceAccountUIDValidation",
            "TopologyManagerPolicyBetaOptions",
            "TranslateStreamCloseWebsocketRequests",
            "UnauthenticatedHTTP2DOSMitigation",
            "UnknownVersionInteroperabilityProxy",
            "UnlockWhileProcessingFIFO",
            "VolumeLimitScaling",
            "WatchList",
            "WatchListClient",
            "WatchListCompression",
            "WebhookRoundTripLoadBalancing",
            "WindowsGracefulNodeShutdown",
        ],
    },
    FeatureGroup {
        stage: Stage::Stable,
        on: true,
        locked: false,
        names: &[
            "AllowServiceExternalIPs",
            "ClusterTrustBundle",
            "ClusterTrustBundleProjection",
            "InformerResourceVersion",
            "MutatingAdmissionPolicy",
            "PodCertificateRequest",
            "SELinuxMount",
            "StorageVersionMigrator",
        ],
    },
    FeatureGroup {
        stage: Stage::Stable,
        on: true,
        locked: true,
        names: &[
            "CPUManagerPolicyOptions",
            "CRDValidationRatcheting",
            "CSIServiceAccountTokenSecrets",
            "CustomResourceFieldSelectors",
            "DRAAdminAccess",
            "DRADeviceTaintRules",
            "DRADeviceTaints",
            "DRAExtendedResource",
            "DRAPrioritizedList",
            "DRAResourceClaimDeviceStatus",
            "DeclarativeValidation",
            "DisableAllocatorDualWrite",
            "DynamicResourceAllocation",
            "ExecProbeTimeout",
            "ExternalServiceAccountTokenSigner",
            "HPAConfigurableTolerance",
            "HostnameOverride",
            "ImageMaximumGCAge",
            "ImageVolume",
            "InOrderInformers",
            "InPlacePodVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "JobManagedBy",
            "KubeletCgroupDriverFromCRI",
            "KubeletFineGrainedAuthz",
            "KubeletPSI",
            "KubeletPodResourcesDynamicResources",
            "KubeletPodResourcesGet",
            "KubeletTracing",
            "MatchLabelKeysInPodAffinity",
            "MultiCIDRServiceAllocator",
            "MutableCSINodeAllocatableCount",
            "NFTablesProxyMode",
            "NodeDeclaredFeatures",
            "NodeInclusionPolicyInPodTopologySpread",
            "NodeLogQuery",
            "NodeSwap",
            "PLEGOnDemandRelist",
            "PodObservedGenerationTracking",
            "PodReadyToStartContainersCondition",
            "PodSchedulingReadiness",
            "PreferSameTrafficDistribution",
            "ProcMountType",
            "RecoverVolumeExpansionFailure",
            "RecursiveReadOnlyMounts",
            "RelaxedEnvironmentVariableValidation",
            "RelaxedServiceNameValidation",
            "SELinuxChangePolicy",
            "SELinuxMountReadWriteOncePod",
            "SeparateTaintEvictionController",
            "ServiceAccountTokenJTI",
            "ServiceAccountTokenNodeBinding",
            "ServiceAccountTokenNodeBindingValidation",
            "ServiceAccountTokenPodNodeInfo",
            "SupplementalGroupsPolicy",
            "SystemdWatchdog",
            "TopologyManagerPolicyOptions",
            "UserNamespacesSupport",
            "VolumeAttributesClass",
            "WatchCacheInitializationPostStartHook",
            "WinDSR",
            "WinOverlay",
        ],
    },
    FeatureGroup {
        stage: Stage::Deprecated,
        on: false,
        locked: false,
        names: &[
            "AllowDNSOnlyNodeCSR",
            "AllowInsecureKubeletCertificateSigningRequests",
            "ChangeContainerStatusOnKubeletRestart",
            "KMSv1",
            "KubeletRegistrationGetOnExistsOnly",
            "WindowsHostNetwork",
        ],
    },
    FeatureGroup {
        stage: Stage::Deprecated,
        on: false,
        locked: true,
        names: &[
            "AllowOverwriteTerminationGracePeriodSeconds",
            "DeclarativeValidationTakeover",
            "GitRepoVolumeDriver",
            "SeparateCacheWatchRPC",
        ],
    },
    FeatureGroup {
        stage: Stage::Deprecated,
        on: true,
        locked: false,
        names: &[
            "KubeProxyIPVS",
            "KubeletPodResourcesListUseActivePods",
            "ServiceCIDRStatusFieldWiping",
            "StorageNamespaceIndex",
        ],
    },
    FeatureGroup {
        stage: Stage::Deprecated,
        on: true,
        locked: true,
        names: &[
            "AggregatedDiscoveryRemoveBetaType",
            "DisableCPUQuotaWithExclusiveCPUs",
            "DisableNodeKubeProxyVersion",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str) -> Result<FeatureGates> {
        let said: Vec<_> = said.split(',').map(str::to_owned).collect();
        gates(&said, &api::builtin_resources(), Emulation::default())
    }

    #[test]
    fn says_what_upstream_says() {
        let told = |said: &str| of(said).expect_err("refused").to_string();
        assert_eq!(told("Foo=true"), "unrecognized feature gate: Foo");
        assert_eq!(
            told("DeclarativeValidation=false"),
            "cannot set feature gate DeclarativeValidation to false, feature is locked to true"
        );
        assert!(told("GenericWorkload=maybe").starts_with("invalid value of GenericWorkload"));
        assert!(told("EventedPLEG=true").contains("no such switch"));
        for name in NOT_DONE {
            let said = told(&format!("{name}=true"));
            assert!(said.contains("does not implement the feature"), "{said}");
            assert!(!of(&format!("{name}=false")).expect("so it is").is_enabled(name));
            assert!(!of("").expect("nothing").is_enabled(name), "{name} is not reported as on");
        }
    }

    #[test]
    fn features_are_as_they_were() {
        let of = |said: &str, version| {
            let said: Vec<_> = said.split(',').map(str::to_owned).collect();
            gates(
                &said,
                &api::builtin_resources(),
                Emulation { version, min_compatibility: version - 1 },
            )
        };
        assert!(of("", 37).expect("now").is_enabled("ClusterTrustBundle"));
        assert!(!of("", 36).expect("then").is_enabled("ClusterTrustBundle"));
        assert!(of("ClusterTrustBundle=true", 36).expect("beta").is_enabled("ClusterTrustBundle"));
        assert!(of("AllBeta=true", 36).expect("beta").is_enabled("PodCertificateRequest"));
        assert_eq!(
            of("GenericWorkload=true", 34).expect_err("unknown").to_string(),
            "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated \
             version 1.34, min compatibility version 1.33"
        );
    }

    #[test]
    fn turns_features_on() {
        assert!(!of("").expect("nothing").is_enabled("GenericWorkload"));
        assert!(of("GenericWorkload=true").expect("known").is_enabled("GenericWorkload"));
        assert!(of("kube:GenericWorkload=true").expect("known").is_enabled("GenericWorkload"));
        assert!(of("AllAlpha=true").expect("all").is_enabled("CompositePodGroup"));
        assert!(of("AllAlpha=true").expect("all").is_enabled(CBOR));
        assert!(of("").expect("nothing").is_enabled(STREAMS_NEED_CREATE));
        let off = format!("{STREAMS_NEED_CREATE}=false");
        assert!(!of(&off).expect("a switch").is_enabled(STREAMS_NEED_CREATE));
        assert!(
            !of("AllAlpha=true,CompositePodGroup=false")
                .expect("one")
                .is_enabled("CompositePodGroup")
        );
    }
}
