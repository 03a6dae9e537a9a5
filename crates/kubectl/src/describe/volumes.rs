//! Where volumes come from: one table for those of pods and of persistent volumes.

use object::Value;

use super::{either, sheet::Sheet, text};

/// How a field of a source is shown.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Bool,
    /// `[a b]`.
    List,
    /// `a, b`.
    Joined,
    /// Something else where there is none.
    Or(&'static str),
    /// A reference to a secret.
    Reference,
    /// `map[a:b]`.
    Map,
}

/// A kind of source: its field, what it is, and what is told of it.
struct Source {
    field: &'static str,
    about: &'static str,
    rows: &'static [(&'static str, &'static str, Form)],
}

const READ_ONLY: (&str, &str, Form) = ("ReadOnly:", "readOnly", Form::Bool);
const FS_TYPE: (&str, &str, Form) = ("FSType:", "fsType", Form::Text);

const SOURCES: &[Source] = &[
    Source {
        field: "hostPath",
        about: "HostPath (bare host directory volume)",
        rows: &[("Path:", "path", Form::Text), ("HostPathType:", "type", Form::Or("<none>"))],
    },
    Source {
        field: "nfs",
        about: "NFS (an NFS mount that lasts the lifetime of a pod)",
        rows: &[("Server:", "server", Form::Text), ("Path:", "path", Form::Text), READ_ONLY],
    },
    Source {
        field: "gcePersistentDisk",
        about: "GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)",
        rows: &[
            ("PDName:", "pdName", Form::Text),
            FS_TYPE,
            ("Partition:", "partition", Form::Number),
            READ_ONLY,
        ],
    },
    Source {
        field: "awsElasticBlockStore",
        about: "AWSElasticBlockStore (a Persistent Disk resource in AWS)",
        rows: &[
            ("VolumeID:", "volumeID", Form::Text),
            FS_TYPE,
            ("Partition:", "partition", Form::Number),
            READ_ONLY,
        ],
    },
    Source {
        field: "gitRepo",
        about: "GitRepo (a volume that is pulled from git when the pod is created)",
        rows: &[("Repository:", "repository", Form::Text), ("Revision:", "revision", Form::Text)],
    },
    Source {
        field: "iscsi",
        about: "ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)",
        rows: &[
            ("TargetPortal:", "targetPortal", Form::Text),
            ("IQN:", "iqn", Form::Text),
            ("Lun:", "lun", Form::Number),
            ("ISCSIInterface", "iscsiInterface", Form::Text),
            FS_TYPE,
            READ_ONLY,
            ("Portals:", "portals", Form::List),
            ("DiscoveryCHAPAuth:", "chapAuthDiscovery", Form::Bool),
            ("SessionCHAPAuth:", "chapAuthSession", Form::Bool),
            ("SecretRef:", "secretRef", Form::Reference),
            ("InitiatorName:", "initiatorName", Form::Or("<none>")),
        ],
    },
    Source {
        field: "glusterfs",
        about: "Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)",
        rows: &[
            ("EndpointsName:", "endpoints", Form::Text),
            ("Path:", "path", Form::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "rbd",
        about: "RBD (a Rados Block Device mount on the host that shares a pod's lifetime)",
        rows: &[
            ("CephMonitors:", "monitors", Form::List),
            ("RBDImage:", "image", Form::Text),
            FS_TYPE,
            ("RBDPool:", "pool", Form::Text),
            ("RadosUser:", "user", Form::Text),
            ("Keyring:", "keyring", Form::Text),
            ("SecretRef:", "secretRef", Form::Reference),
            READ_ONLY,
        ],
    },
    Source {
        field: "quobyte",
        about: "Quobyte (a Quobyte mount on the host that shares a pod's lifetime)",
        rows: &[
            ("Registry:", "registry", Form::Text),
            ("Volume:", "volume", Form::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "vsphereVolume",
        about: "vSphereVolume (a Persistent Disk resource in vSphere)",
        rows: &[
            ("VolumePath:", "volumePath", Form::Text),
            FS_TYPE,
            ("StoragePolicyName:", "storagePolicyName", Form::Text),
        ],
    },
    Source {
        field: "cinder",
        about: "Cinder (a Persistent Disk resource in OpenStack)",
        rows: &[
            ("VolumeID:", "volumeID", Form::Text),
            FS_TYPE,
            READ_ONLY,
            ("SecretRef:", "secretRef", Form::Reference),
        ],
    },
    Source {
        field: "azureDisk",
        about: "AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)",
        rows: &[
            ("DiskName:", "diskName", Form::Text),
            ("DiskURI:", "diskURI", Form::Text),
            ("Kind: ", "kind", Form::Text),
            FS_TYPE,
            ("CachingMode:", "cachingMode", Form::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "photonPersistentDisk",
        about: "PhotonPersistentDisk (a Persistent Disk resource in photon platform)",
        rows: &[("PdID:", "pdID", Form::Text), FS_TYPE],
    },
    Source {
        field: "portworxVolume",
        about: "PortworxVolume (a Portworx Volume resource)",
        rows: &[("VolumeID:", "volumeID", Form::Text)],
    },
    Source {
        field: "scaleIO",
        about: "ScaleIO (a persistent volume backed by a block device in ScaleIO)",
        rows: &[
            ("Gateway:", "gateway", Form::Text),
            ("System:", "system", Form::Text),
            ("Protection Domain:", "protectionDomain", Form::Text),
            ("Storage Pool:", "storagePool", Form::Text),
            ("Storage Mode:", "storageMode", Form::Text),
            ("VolumeName:", "volumeName", Form::Text),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "local",
        about: "LocalVolume (a persistent volume backed by local storage on a node)",
        rows: &[("Path:", "path", Form::Text)],
    },
    Source {
        field: "cephfs",
        about: "CephFS (a CephFS mount on the host that shares a pod's lifetime)",
        rows: &[
            ("Monitors:", "monitors", Form::List),
            ("Path:", "path", Form::Text),
            ("User:", "user", Form::Text),
            ("SecretFile:", "secretFile", Form::Text),
            ("SecretRef:", "secretRef", Form::Reference),
            READ_ONLY,
        ],
    },
    Source {
        field: "storageos",
        about: "StorageOS (a StorageOS Persistent Disk resource)",
        rows: &[
            ("VolumeName:", "volumeName", Form::Text),
            ("VolumeNamespace:", "volumeNamespace", Form::Text),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "fc",
        about: "FC (a Fibre Channel disk)",
        rows: &[
            ("TargetWWNs:", "targetWWNs", Form::Joined),
            ("LUN:", "lun", Form::Or("<none>")),
            FS_TYPE,
            READ_ONLY,
        ],
    },
    Source {
        field: "azureFile",
        about: "AzureFile (an Azure File Service mount on the host and bind mount to the pod)",
        rows: &[
            ("SecretName:", "secretName", Form::Text),
            ("ShareName:", "shareName", Form::Text),
            READ_ONLY,
        ],
    },
    Source {
        field: "flexVolume",
        about: "FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)",
        rows: &[
            ("Driver:", "driver", Form::Text),
            FS_TYPE,
            ("SecretRef:", "secretRef", Form::Reference),
            READ_ONLY,
            ("Options:", "options", Form::Map),
        ],
    },
    Source {
        field: "flocker",
        about: "Flocker (a Flocker volume mounted by the Flocker agent)",
        rows: &[
            ("DatasetName:", "datasetName", Form::Text),
            ("DatasetUUID:", "datasetUUID", Form::Text),
        ],
    },
];

/// Tells of the source of a volume, if it is one of the plain ones.
pub(super) fn plain(volume: &Value, persistent: bool, sheet: &mut Sheet) -> bool {
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

fn shown(value: &Value, form: Form, persistent: bool) -> String {
    let texts = || -> Vec<String> { value.items().iter().map(either).collect() };
    match form {
        Form::Text => either(value),
        Form::Number => value.as_i64().unwrap_or(0).to_string(),
        Form::Bool => value.as_bool().unwrap_or(false).to_string(),
        Form::List => format!("[{}]", texts().join(" ")),
        Form::Joined => texts().join(", "),
        Form::Or(none) => match either(value).as_str() {
            "" => none.to_owned(),
            given => given.to_owned(),
        },
        Form::Reference if value.is_null() => "nil".to_owned(),
        Form::Reference if persistent => format!(
            "&SecretReference{{Name:{},Namespace:{},}}",
            text(&value["name"]),
            text(&value["namespace"])
        ),
        Form::Reference => format!("&LocalObjectReference{{Name:{},}}", text(&value["name"])),
        Form::Map => {
            let pairs: Vec<String> =
                value.entries().map(|(name, value)| format!("{name}:{}", either(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// `RWO,ROX`.
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
