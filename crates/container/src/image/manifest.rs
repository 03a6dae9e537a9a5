//! The documents of an image: manifests, indexes and configurations. Those of OCI and docker differ in media types
//! only.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Digest, Error, Result};

/// Maximum size of a manifest, index or configuration, which are read into memory.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(super) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MAX_LAYERS: usize = 500;

/// Reference to a blob: media type, digest and size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<Platform>,
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub(super) annotations: BTreeMap<String, String>,
}

/// Operating system and architecture of an image.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    variant: String,
}

/// Image index: the manifests of several platforms.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) manifests: Vec<Descriptor>,
}

/// Image manifest: configuration and layers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// A registry's response to a request for a manifest.
pub(super) enum ManifestOrIndex {
    Index(Index),
    Manifest(Manifest),
}

/// The configuration blob of an image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ConfigFile {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) config: Config,
    pub(super) rootfs: RootFs,
}

/// The uncompressed digests of the layers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RootFs {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) diff_ids: Vec<Digest>,
}

/// Default settings of the image's containers: user, environment, command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Config {
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
    #[serde(with = "set", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    #[serde(with = "set", skip_serializing_if = "Vec::is_empty")]
    pub exposed_ports: Vec<String>,
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Descriptor {
    pub(super) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

impl ManifestOrIndex {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Probe {
            schema_version: u32,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            layers: Option<serde::de::IgnoredAny>,
        }
        let probe: Probe = parse(bytes, "manifest")?;
        match (probe.schema_version, probe.manifests.is_some(), probe.layers.is_some()) {
            (2, true, false) => parse(bytes, "index").map(Self::Index),
            (2, false, true) => parse(bytes, "manifest").map(Self::Manifest),
            (2, ..) => Err(Error::malformed("neither an image manifest nor an index")),
            (version, ..) => {
                Err(Error::malformed(format!("unsupported manifest schema version {version}")))
            }
        }
    }
}

impl Index {
    /// The manifest for this host's platform. Attestations and the like have a platform of their own ("unknown").
    pub(super) fn select_platform(&self) -> Result<&Descriptor> {
        let fits = |descriptor: &&Descriptor| {
            descriptor.platform.as_ref().is_some_and(Platform::is_native)
        };
        self.manifests
            .iter()
            .find(fits)
            .or_else(|| self.manifests.iter().find(|d| d.platform.is_none()))
            .ok_or_else(|| {
                Error::malformed(format!(
                    "no match for platform linux/{} in manifest",
                    architecture()
                ))
            })
    }
}

impl Platform {
    pub(super) fn is_native(&self) -> bool {
        let variant = match architecture() {
            "arm64" => matches!(self.variant.as_str(), "" | "v8"),
            "amd64" => matches!(self.variant.as_str(), "" | "v1"),
            _ => true,
        };
        self.os == "linux" && self.architecture == architecture() && variant
    }
}

impl Manifest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        match ManifestOrIndex::parse(bytes)? {
            ManifestOrIndex::Manifest(manifest) if manifest.layers.len() <= MAX_LAYERS => {
                Ok(manifest)
            }
            ManifestOrIndex::Manifest(_) => {
                Err(Error::malformed(format!("image with more than {MAX_LAYERS} layers")))
            }
            ManifestOrIndex::Index(_) => Err(Error::malformed("index within an index")),
        }
    }
}

impl ConfigFile {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut file: Self = parse(bytes, "image configuration")?;
        file.config.check()?;
        Ok(file)
    }
}

/// Limits of an image configuration: it is kept in memory, and returned in every list of images.
const LONGEST_TEXT: usize = 4 << 10;
const MOST_VOLUMES: usize = 256;
const LONGEST_LIST: usize = 2 << 20; // the kernel's limit for arguments and environment
const LONGEST_LABELS: usize = 64 << 10;

impl Config {
    /// Rejects settings that no container could be created with. Labels are only informative; if they are too long,
    /// they are dropped.
    fn check(&mut self) -> Result<()> {
        let refuse = |what: &str| Err(Error::malformed(format!("image configuration with {what}")));
        let length = |list: &[String]| list.iter().map(|one| one.len() + 1).sum::<usize>();
        for (text, what) in [
            (&self.user, "an oversized user"),
            (&self.working_dir, "an oversized working directory"),
            (&self.stop_signal, "an oversized stop signal"),
        ] {
            if text.len() > LONGEST_TEXT {
                return refuse(what);
            }
        }
        let oversized = |path: &String| path.len() > LONGEST_TEXT;
        if self.volumes.len() > MOST_VOLUMES || self.volumes.iter().any(oversized) {
            return refuse("too many or oversized volumes");
        }
        if length(&self.env) + length(&self.entrypoint) + length(&self.cmd) > LONGEST_LIST {
            return refuse("an oversized command or environment");
        }
        if length(&self.exposed_ports) > LONGEST_TEXT * MOST_VOLUMES {
            return refuse("too many ports");
        }
        if self.labels.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
            > LONGEST_LABELS
        {
            self.labels.clear();
        }
        Ok(())
    }
}

pub(super) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::malformed(format!("invalid {what}: {error}")))
}

pub(super) fn to_json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents have text keys and no failing fields")
}

/// Go's name of this architecture, which images use.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Serializes a set as Go does: `{"80/tcp": {}}`.
mod set {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(serde::Serialize)]
    struct Empty {}

    pub(super) fn serialize<S: Serializer>(names: &[String], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(names.iter().map(|name| (name, Empty {})))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let set: Option<BTreeMap<String, serde_json::Value>> = Option::deserialize(from)?;
        Ok(set.unwrap_or_default().into_keys().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_as_go_writes_it() {
        let text = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":null},"config":
            {"User":"","Env":["A=b"],"Cmd":null,"ExposedPorts":{"80/tcp":{}},"Volumes":null,"Labels":{"a":"b"}}}"#;
        let config = ConfigFile::parse(text).expect("valid").config;
        assert_eq!(
            (config.env, config.exposed_ports),
            (vec!["A=b".to_owned()], vec!["80/tcp".to_owned()])
        );
        assert!(config.cmd.is_empty() && config.volumes.is_empty());
    }

    #[test]
    fn platform_of_an_index() {
        let digest = |n: u8| format!("sha256:{}", format!("{n:x}").repeat(64));
        let entry = |n, platform: &str| {
            format!(r#"{{"digest":"{}","size":1,"platform":{platform}}}"#, digest(n))
        };
        let ours = format!(r#"{{"os":"linux","architecture":"{}"}}"#, architecture());
        let text = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{}]}}"#,
            entry(1, r#"{"os":"windows","architecture":"amd64"}"#),
            entry(2, r#"{"os":"unknown","architecture":"unknown"}"#),
            entry(3, &ours),
        );
        let Ok(ManifestOrIndex::Index(index)) = ManifestOrIndex::parse(text.as_bytes()) else {
            panic!("an index")
        };
        assert_eq!(index.select_platform().expect("ours").digest.to_string(), digest(3));
        let index = Index { manifests: index.manifests[..2].to_vec(), ..index };
        assert!(
            index
                .select_platform()
                .expect_err("none")
                .to_string()
                .contains("no match for platform")
        );
    }
}
