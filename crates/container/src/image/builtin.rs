//! Built-in images: one layer with one executable, shipped with the program and never pulled from a registry.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    Config, DiskUsage, Error, Image, Reference, Result,
    digest::DigestStream,
    export::pack,
    layer::LIMITS,
    manifest::{self, ConfigFile, Descriptor, Manifest, RootFs},
    store::{ImageStore, Inner},
};

/// A built-in image.
#[derive(Clone, Debug)]
pub struct BuiltinImage {
    pub name: String,
    /// Appears in the image's root directory under its own file name, as a hard link, so that its pages are shared.
    pub executable: PathBuf,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

impl ImageStore {
    /// Registers a built-in image under the digest of its content, and pins it.
    pub async fn register(&self, builtin: BuiltinImage) -> Result<Image> {
        let _ingesting = self.ingesting().await;
        self.blocking(move |inner| register(inner, &builtin)).await
    }
}

fn register(inner: &Inner, builtin: &BuiltinImage) -> Result<Image> {
    let reference = Reference::parse(&builtin.name)?;
    let root = inner.content.temporary();
    let bytes = create_layer(&root, &builtin.executable)?;
    let mut hashing = DigestStream::new(std::io::sink(), LIMITS.bytes);
    pack(&root, &mut hashing)?;
    let (_, layer, size) = hashing.finish();
    inner.content.commit(&root, &inner.content.layer(&layer))?;
    inner.records().layers.insert(layer.clone(), DiskUsage { bytes, inodes: 5 });

    let config = ConfigFile {
        architecture: manifest::architecture().to_owned(),
        os: "linux".to_owned(),
        config: Config {
            entrypoint: builtin.entrypoint.clone(),
            cmd: builtin.cmd.clone(),
            env: vec!["PATH=/".to_owned()],
            working_dir: "/".to_owned(),
            ..Config::default()
        },
        rootfs: RootFs { kind: "layers".to_owned(), diff_ids: vec![layer.clone()] },
    };
    let put = |media_type: &str, bytes: &[u8]| {
        Ok::<_, Error>(Descriptor::new(media_type, inner.content.put(bytes)?, bytes.len() as u64))
    };
    let document = Manifest {
        schema_version: 2,
        media_type: manifest::MANIFEST.to_owned(),
        config: put(manifest::CONFIG, &manifest::to_json(&config))?,
        layers: vec![Descriptor::new(manifest::LAYER, layer, size)],
    };
    let descriptor = put(manifest::MANIFEST, &manifest::to_json(&document))?;
    let (id, mut record) = inner.unpack_image(&descriptor)?;
    record.pinned = true;
    inner.unpin_previous(&reference, &id)?;
    inner.register(&id, record, &[(reference, descriptor.digest)])
}

/// Creates the directory of the layer; returns its size in bytes.
fn create_layer(root: &Path, executable: &Path) -> Result<u64> {
    for (part, mode) in [("", 0o755), ("etc", 0o755), ("tmp", 0o1777)] {
        fs::create_dir(root.join(part))?;
        fs::set_permissions(root.join(part), fs::Permissions::from_mode(mode))?; // independent of the umask
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/\nnobody:x:65534:65534:nobody:/:/\n")?;
    fs::set_permissions(root.join("etc/passwd"), fs::Permissions::from_mode(0o644))?;
    let name = executable
        .file_name()
        .ok_or_else(|| Error::malformed("built-in image without an executable"))?;
    let inside = root.join(name);
    if fs::hard_link(executable, &inside).is_err() {
        fs::copy(executable, &inside)?; // it is on another file system
    }
    Ok(fs::metadata(&inside)?.len())
}
