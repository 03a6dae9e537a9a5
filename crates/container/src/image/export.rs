//! Exports images as OCI archives, which any other runtime can import.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::fs::MetadataExt,
    path::Path,
};

use tar::{Builder, EntryType, Header};

use super::{
    Error, Reference, Result, archive,
    manifest::{self, Descriptor, Index, Manifest},
    records::ImageRecord,
    store::{ImageStore, Inner},
};

impl ImageStore {
    /// Writes the image `name` as an OCI archive.
    pub async fn export(&self, name: &str, writer: impl Write + Send + 'static) -> Result<()> {
        let name = name.to_owned();
        let _ingesting = self.ingesting().await; // prevents garbage collection
        self.blocking(move |inner| export(inner, &name, writer)).await
    }
}

fn export(inner: &Inner, name: &str, writer: impl Write) -> Result<()> {
    let record = inner.records().find(name).map(|(_, record)| record.clone());
    let record = record.ok_or_else(|| Error::NotFound(name.to_owned()))?;
    let document = inner.content.read_document(&record.manifest)?;
    let parsed = Manifest::parse(&document)?;

    let mut archive = Builder::new(writer);
    add(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let mut image =
        Descriptor::new(manifest::MANIFEST, record.manifest.clone(), document.len() as u64);
    if !parsed.media_type.is_empty() {
        image.media_type.clone_from(&parsed.media_type);
    }
    image.annotations = annotations(name, &record);
    let index =
        Index { schema_version: 2, media_type: manifest::INDEX.to_owned(), manifests: vec![image] };
    add(&mut archive, "index.json", &manifest::to_json(&index))?;
    let path = |hex: &str| format!("blobs/sha256/{hex}");
    add(&mut archive, &path(record.manifest.hex()), &document)?;
    add(
        &mut archive,
        &path(parsed.config.digest.hex()),
        &inner.content.read_document(&parsed.config.digest)?,
    )?;
    for (layer, chain) in parsed.layers.iter().zip(&record.chain_ids) {
        let blob = path(layer.digest.hex());
        if let Ok(file) = File::open(inner.content.blob(&layer.digest)) {
            add_file(&mut archive, &blob, &file)?;
        } else {
            // A built-in layer exists only unpacked.
            let packed = inner.content.temporary();
            pack(&inner.content.layer(chain), File::create(&packed)?)?;
            add_file(&mut archive, &blob, &File::open(&packed)?)?;
        }
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

/// Packs a directory as a reproducible tar archive: sorted, without timestamps.
pub(super) fn pack(root: &Path, writer: impl Write) -> Result<()> {
    let mut archive = Builder::new(writer);
    pack_directory(&mut archive, root, Path::new(""))?;
    archive.into_inner()?.flush()?;
    Ok(())
}

fn pack_directory(archive: &mut Builder<impl Write>, root: &Path, below: &Path) -> Result<()> {
    let mut names = fs::read_dir(root.join(below))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let path = below.join(name);
        let found = fs::symlink_metadata(root.join(&path))?;
        let mut header = Header::new_gnu();
        header.set_mode(found.mode() & 0o7777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        if found.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, &path, std::io::empty())?;
            pack_directory(archive, root, &path)?;
        } else if found.is_file() {
            header.set_size(found.len());
            archive.append_data(&mut header, &path, File::open(root.join(&path))?)?;
        } else {
            return Err(Error::malformed(format!("cannot pack {}", path.display())));
        }
    }
    Ok(())
}

fn annotations(name: &str, record: &ImageRecord) -> BTreeMap<String, String> {
    let asked = Reference::parse(name).map(|reference| reference.to_string()).ok();
    let asked = asked.filter(|name| record.tags.contains(name));
    let Some(name) = asked.or_else(|| record.tags.first().cloned()) else { return BTreeMap::new() };
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag).to_owned();
    BTreeMap::from([
        (archive::IMAGE_NAME_ANNOTATION.to_owned(), name),
        (archive::REF_NAME_ANNOTATION.to_owned(), tag),
    ])
}

fn add(archive: &mut Builder<impl Write>, path: &str, bytes: &[u8]) -> Result<()> {
    Ok(archive.append_data(&mut header(bytes.len() as u64), path, bytes)?)
}

fn add_file(archive: &mut Builder<impl Write>, path: &str, file: &File) -> Result<()> {
    Ok(archive.append_data(&mut header(file.metadata()?.len()), path, file)?)
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header
}
