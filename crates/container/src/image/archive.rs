//! Imports images from archives: OCI layouts (`index.json`) and the format of `docker save` (`manifest.json`), plain or
//! compressed. Members come in any order, so every file is ingested first and looked up by its path afterwards.

use std::{
    collections::HashMap,
    io::Read,
    path::{Component, Path},
};

use serde::Deserialize;

use super::{
    Digest, Error, Image, Reference, Result,
    entries::TarReader,
    layer::{self, LIMITS},
    manifest::{self, ConfigFile, Descriptor, Index, Manifest, ManifestOrIndex, Platform},
    store::Inner,
};

const MAX_ENTRIES: usize = 100_000;
pub(super) const IMAGE_NAME_ANNOTATION: &str = "io.containerd.image.name";
pub(super) const REF_NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// Imports every image of an archive.
pub(super) fn import(inner: &Inner, archive: impl Read) -> Result<Vec<Image>> {
    let members = ArchiveEntries::read(inner, archive)?;
    if let Some(index) = members.read_json("index.json")? {
        let index: Index = manifest::parse(&index, "index.json")?;
        let ours = |image: &&Descriptor| image.platform.as_ref().is_none_or(Platform::is_native);
        let images: Vec<_> = index.manifests.iter().filter(ours).collect();
        let images = if images.is_empty() { vec![index.select_platform()?] } else { images };
        images.into_iter().map(|image| import_oci(inner, &members, image)).collect()
    } else if let Some(list) = members.read_json("manifest.json")? {
        let list: Vec<DockerImage> = manifest::parse(&list, "manifest.json")?;
        list.iter().map(|image| import_docker(inner, &members, image)).collect()
    } else {
        Err(Error::malformed(
            "neither an OCI nor a docker archive: no index.json, no manifest.json",
        ))
    }
}

/// An entry of docker's `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// The files of an archive by path, and its symlinks, by which `docker save` shares layers.
struct ArchiveEntries<'a> {
    inner: &'a Inner,
    files: HashMap<String, (Digest, u64)>,
    links: HashMap<String, String>,
}

impl<'a> ArchiveEntries<'a> {
    fn read(inner: &'a Inner, archive: impl Read) -> Result<Self> {
        let mut entries = TarReader::new(layer::decompress(archive)?.take(LIMITS.bytes));
        let (mut files, mut links) = (HashMap::new(), HashMap::new());
        while let Some(entry) = entries.next()? {
            if files.len() + links.len() >= MAX_ENTRIES {
                return Err(Error::malformed("archive with too many members"));
            }
            let path = normalize_path(&entry.path);
            if entry.kind.is_file() {
                files.insert(path, inner.content.ingest(&mut entries, LIMITS.bytes)?);
            } else if entry.kind.is_symlink() {
                links.insert(
                    path,
                    normalize_path(&entry.path.parent().unwrap_or(Path::new("")).join(&entry.link)),
                );
            }
        }
        Ok(Self { inner, files, links })
    }

    fn get(&self, path: &str) -> Option<&(Digest, u64)> {
        let path = normalize_path(Path::new(path));
        self.files.get(&path).or_else(|| self.files.get(self.links.get(&path)?))
    }

    fn require(&self, path: &str) -> Result<&(Digest, u64)> {
        self.get(path).ok_or_else(|| Error::malformed(format!("archive without {path}")))
    }

    fn read_json(&self, path: &str) -> Result<Option<Vec<u8>>> {
        self.get(path).map(|(digest, _)| self.inner.content.read_document(digest)).transpose()
    }

    /// Checks that the archive has a blob. Files were ingested under the digest of their content, whatever their path
    /// says.
    fn blob(&self, digest: &Digest) -> Result<()> {
        match self.get(&format!("blobs/sha256/{}", digest.hex())) {
            Some((found, _)) if found == digest => Ok(()),
            Some((found, _)) => {
                Err(Error::malformed(format!("content {digest} of the archive has digest {found}")))
            }
            None => Err(Error::malformed(format!("archive without content {digest}"))),
        }
    }
}

fn import_oci(inner: &Inner, members: &ArchiveEntries<'_>, image: &Descriptor) -> Result<Image> {
    members.blob(&image.digest)?;
    let names: Vec<_> = name(image)?.map(|name| (name, image.digest.clone())).into_iter().collect();
    let image = match ManifestOrIndex::parse(&inner.content.read_document(&image.digest)?)? {
        ManifestOrIndex::Index(index) => {
            let chosen = index.select_platform()?.clone();
            members.blob(&chosen.digest)?;
            chosen
        }
        ManifestOrIndex::Manifest(_) => image.clone(),
    };
    let manifest = Manifest::parse(&inner.content.read_document(&image.digest)?)?;
    for part in manifest.layers.iter().chain([&manifest.config]) {
        members.blob(&part.digest)?;
    }
    let (id, record) = inner.unpack_image(&image)?;
    inner.register(&id, record, &names)
}

/// The image's full name, or else OCI's `ref.name` annotation if that is more than a tag.
fn name(image: &Descriptor) -> Result<Option<Reference>> {
    let full = image.annotations.get(IMAGE_NAME_ANNOTATION);
    let name = full.or_else(|| {
        image.annotations.get(REF_NAME_ANNOTATION).filter(|name| name.contains([':', '/']))
    });
    name.map(|name| Reference::parse(name)).transpose()
}

/// Imports an image from a docker archive. It has no manifest in OCI format, so one is created.
fn import_docker(
    inner: &Inner,
    members: &ArchiveEntries<'_>,
    image: &DockerImage,
) -> Result<Image> {
    let descriptor = |media_type: &str, path: &String| {
        let (digest, size) = members.require(path)?.clone();
        Ok(Descriptor::new(media_type, digest, size))
    };
    let config = descriptor(manifest::CONFIG, &image.config)?;
    ConfigFile::parse(&inner.content.read_document(&config.digest)?)?;
    let layers =
        image.layers.iter().map(|path| descriptor(manifest::LAYER, path)).collect::<Result<_>>()?;
    let document = manifest::to_json(&Manifest {
        schema_version: 2,
        media_type: manifest::MANIFEST.to_owned(),
        config,
        layers,
    });
    let digest = inner.content.put(&document)?;
    let names: Vec<_> = (image.repo_tags.iter().flatten())
        .map(|tag| Ok((Reference::parse(tag)?, digest.clone())))
        .collect::<Result<_>>()?;
    let manifest = Descriptor::new(manifest::MANIFEST, digest, document.len() as u64);
    let (id, record) = inner.unpack_image(&manifest)?;
    inner.register(&id, record, &names)
}

/// Normalizes a path: `./a/../b` is `b`. It cannot escape from the archive, because it is only used as a key.
fn normalize_path(path: &Path) -> String {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            Component::ParentDir => drop(parts.pop()),
            _ => {}
        }
    }
    parts.join("/")
}
