//! Describes volume sources: one table for those of pods and of persistent volumes.

use object::Value;

use super::{describe_writer::DescribeWriter, either, text};

/// How a field of a source is formatted.
#[derive(Clone, Copy)]
enum FieldFormat {
    Text,
    Number,
    Bool,
    /// `[a b]`.
    List,
    /// `a, b`.
    Joined,
    /// A replacement for an empty value.
    Or(&'static str),
    /// A replacement for a value that is not set; an empty one is shown as it is.
    OrUnset(&'static str),
    /// The name of a referenced Secret.
    Reference,
    /// `map[a:b]`.
    Map,
}

/// A volume source: its field, its description, and the fields that are printed.
struct Source {
    field: &'static str,
    about: &'static str,
    rows: &'static [(&'static str, &'static str, FieldFormat)],
}

const READ_ONLY: (&str, &str, FieldFormat) = ("ReadOnly:", "readOnly", FieldFormat::Bool);
const FS_TYPE: (&str, &str, FieldFormat) = ("FSType:", "fsType", FieldFormat::Text);

const SOURCES: &[Source] = &[
    Source {
        field: "hostPath",
        about: "HostPath (bare host directory volume)",
        rows: &[
            ("Path:", "path", FieldFormat::Text),
            ("HostPathType:", "type", FieldFormat::OrUnset("<none>")),
        ],
    },
    Source {
        field: "nfs",
        about: "NFS (an NFS mount that lasts the lifetime of a pod)",
        rows: &[
            ("Server:", "server", FieldFormat::Text),
            ("Path:", "path", FieldFormat::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "gcePersistentDisk",
        about: "GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)",
        rows: &[
            ("PDName:", "pdName", FieldFormat::Text),
            FS_TYPE,
            ("Partition:", "partition", FieldFormat::Number),
            READ_ONLY,
        ],
    },
    Source {
        field: "awsElasticBlockStore",
        about: "AWSElasticBlockStore (a Persistent Disk resource in AWS)",
        rows: &[
            ("VolumeID:", "volumeID", FieldFormat::Text),
            FS_TYPE,
            ("Partition:", "partition", FieldFormat::Number),
            READ_ONLY,
        ],
    },
    Source {
        field: "gitRepo",
        about: "GitRepo (a volume that is pulled from git when the pod is created)",
        rows: &[
            ("Repository:", "repository", FieldFormat::Text),
            ("Revision:", "revision", FieldFormat::Text),
        ],
    },
    Source {
        field: "iscsi",
        about: "ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)",
        rows: &[
            ("TargetPortal:", "targetPortal", FieldFormat::Text),
            ("IQN:", "iqn", FieldFormat::Text),
            ("Lun:", "lun", FieldFormat::Number),
            ("ISCSIInterface", "iscsiInterface", FieldFormat::Text),
            FS_TYPE,
            READ_ONLY,
            ("Portals:", "portals", FieldFormat::List),
            ("DiscoveryCHAPAuth:", "chapAuthDiscovery", FieldFormat::Bool),
            ("SessionCHAPAuth:", "chapAuthSession", FieldFormat::Bool),
            ("SecretRef:", "secretRef", FieldFormat::Reference),
            ("InitiatorName:", "initiatorName", FieldFormat::Or("<none>")),
        ],
    },
    Source {
        field: "glusterfs",
        about: "Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)",
        rows: &[
            ("EndpointsName:", "endpoints", FieldFormat::Text),
            ("Path:", "path", FieldFormat::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "rbd",
        about: "RBD (a Rados Block Device mount on the host that shares a pod's lifetime)",
        rows: &[
            ("CephMonitors:", "monitors", FieldFormat::List),
            ("RBDImage:", "image", FieldFormat::Text),
            FS_TYPE,
            ("RBDPool:", "pool", FieldFormat::Text),
            ("RadosUser:", "user", FieldFormat::Text),
            ("Keyring:", "keyring", FieldFormat::Text),
            ("SecretRef:", "secretRef", FieldFormat::Reference),
            READ_ONLY,
        ],
    },
    Source {
        field: "quobyte",
        about: "Quobyte (a Quobyte mount on the host that shares a pod's lifetime)",
        rows: &[
            ("Registry:", "registry", FieldFormat::Text),
            ("Volume:", "volume", FieldFormat::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "vsphereVolume",
        about: "vSphereVolume (a Persistent Disk resource in vSphere)",
        rows: &[
            ("VolumePath:", "volumePath", FieldFormat::Text),
            FS_TYPE,
            ("StoragePolicyName:", "storagePolicyName", FieldFormat::Text),
        ],
    },
    Source {
        field: "cinder",
        about: "Cinder (a Persistent Disk resource in OpenStack)",
        rows: &[
            ("VolumeID:", "volumeID", FieldFormat::Text),
            FS_TYPE,
            READ_ONLY,
            ("SecretRef:", "secretRef", FieldFormat::Reference),
        ],
    },
    Source {
        field: "azureDisk",
        about: "AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)",
        rows: &[
            ("DiskName:", "diskName", FieldFormat::Text),
            ("DiskURI:", "diskURI", FieldFormat::Text),
            ("Kind: ", "kind", FieldFormat::Text),
            FS_TYPE,
            ("CachingMode:", "cachingMode", FieldFormat::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "photonPersistentDisk",
        about: "PhotonPersistentDisk (a Persistent Disk resource in photon platform)",
        rows: &[("PdID:", "pdID", FieldFormat::Text), FS_TYPE],
    },
    Source {
        field: "portworxVolume",
        about: "PortworxVolume (a Portworx Volume resource)",
        rows: &[("VolumeID:", "volumeID", FieldFormat::Text)],
    },
    Source {
        field: "scaleIO",
        about: "ScaleIO (a persistent volume backed by a block device in ScaleIO)",
        rows: &[
            ("Gateway:", "gateway", FieldFormat::Text),
            ("System:", "system", FieldFormat::Text),
            ("Protection Domain:", "protectionDomain", FieldFormat::Text),
            ("Storage Pool:", "storagePool", FieldFormat::Text),
            ("Storage Mode:", "storageMode", FieldFormat::Text),
            ("VolumeName:", "volumeName", FieldFormat::Text),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "local",
        about: "LocalVolume (a persistent volume backed by local storage on a node)",
        rows: &[("Path:", "path", FieldFormat::Text)],
    },
    Source {
        field: "cephfs",
        about: "CephFS (a CephFS mount on the host that shares a pod's lifetime)",
        rows: &[
            ("Monitors:", "monitors", FieldFormat::List),
            ("Path:", "path", FieldFormat::Text),
            ("User:", "user", FieldFormat::Text),
            ("SecretFile:", "secretFile", FieldFormat::Text),
            ("SecretRef:", "secretRef", FieldFormat::Reference),
            READ_ONLY,
        ],
    },
    Source {
        field: "storageos",
        about: "StorageOS (a StorageOS Persistent Disk resource)",
        rows: &[
            ("VolumeName:", "volumeName", FieldFormat::Text),
            ("VolumeNamespace:", "volumeNamespace", FieldFormat::Text),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "fc",
        about: "FC (a Fibre Channel disk)",
        rows: &[
            ("TargetWWNs:", "targetWWNs", FieldFormat::Joined),
            ("LUN:", "lun", FieldFormat::Or("<none>")),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "azureFile",
        about: "AzureFile (an Azure File Service mount on the host and bind mount to the pod)",
        rows: &[
            ("SecretName:", "secretName", FieldFormat::Text),
            ("ShareName:", "shareName", FieldFormat::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "flexVolume",
        about: "FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)",
        rows: &[
            ("Driver:", "driver", FieldFormat::Text),
            FS_TYPE,
            ("SecretRef:", "secretRef", FieldFormat::Reference),
            READ_ONLY,
            ("Options:", "options", FieldFormat::Map),
        ],
    },
    Source {
        field: "flocker",
        about: "Flocker (a Flocker volume mounted by the Flocker agent)",
        rows: &[
            ("DatasetName:", "datasetName", FieldFormat::Text),
            ("DatasetUUID:", "datasetUUID", FieldFormat::Text),
        ],
    },
];

/// Describes the source of a volume, if it is in the table.
pub(super) fn describe_source(
    volume: &Value,
    persistent: bool,
    sheet: &mut DescribeWriter,
) -> bool {
    let Some(source) = SOURCES.iter().find(|source| !volume[source.field].is_null()) else {
        return false;
    };
    let fields = &volume[source.field];
    sheet.line(2, &format!("Type:\t{}", source.about));
    for (title, field, form) in source.rows {
        sheet.line(2, &format!("{title}\t{}", shown(&fields[*field], *form, persistent)));
        if !persistent {
            continue;
        }
        let more = |name: &str, none: &str| match text(&fields[name]) {
            "" => none.to_owned(),
            given => given.to_owned(),
        };
        match (source.field, *field) {
            ("glusterfs", "endpoints") => sheet.line(
                2,
                &format!("EndpointsNamespace:\t{}", more("endpointsNamespace", "<unset>")),
            ),
            ("azureFile", "secretName") => {
                sheet.line(2, &format!("SecretNamespace:\t{}", more("secretNamespace", "")));
            }
            ("scaleIO", "volumeName") => {
                let secret = &fields["secretRef"];
                sheet.line(2, &format!("SecretName:\t{}", text(&secret["name"])));
                sheet.line(2, &format!("SecretNamespace:\t{}", text(&secret["namespace"])));
            }
            _ => {}
        }
    }
    true
}

fn shown(value: &Value, form: FieldFormat, persistent: bool) -> String {
    let texts = || -> Vec<String> { value.items().iter().map(either).collect() };
    match form {
        FieldFormat::OrUnset(none) if value.is_null() => none.to_owned(),
        FieldFormat::Text | FieldFormat::OrUnset(_) => either(value),
        FieldFormat::Number => value.as_i64().unwrap_or(0).to_string(),
        FieldFormat::Bool => value.as_bool().unwrap_or(false).to_string(),
        FieldFormat::List => format!("[{}]", texts().join(" ")),
        FieldFormat::Joined => texts().join(", "),
        FieldFormat::Or(none) => match either(value).as_str() {
            "" => none.to_owned(),
            given => given.to_owned(),
        },
        FieldFormat::Reference if value.is_null() => "nil".to_owned(),
        FieldFormat::Reference if persistent => format!(
            "&SecretReference{{Name:{},Namespace:{},}}",
            text(&value["name"]),
            text(&value["namespace"])
        ),
        FieldFormat::Reference => {
            format!("&LocalObjectReference{{Name:{},}}", text(&value["name"]))
        }
        FieldFormat::Map => {
            let pairs: Vec<String> =
                value.entries().map(|(name, value)| format!("{name}:{}", either(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// Formats access modes: `RWO,ROX`.
pub(super) fn access_modes(modes: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        other => other.to_owned(),
    };
    modes.items().iter().map(short).collect::<Vec<_>>().join(",")
}
