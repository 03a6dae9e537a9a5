//! Tests of the image store: archives, registries, malicious content, removal.

mod archives;
mod hostile;
mod hostile_registry;
mod pulls;
mod registry;

use std::io::Write;

use container::image::{Digest, ImageStore, RegistryConfig};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// The blobs of an image, as a registry or an archive contains them.
struct Parts {
    manifest: Vec<u8>,
    config: Vec<u8>,
    layers: Vec<Vec<u8>>,
}

impl Parts {
    /// `layers` are pairs: uncompressed, and as stored.
    fn new(layers: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        let config = json!({
            "User": "7:8", "Env": ["A=b"], "Entrypoint": ["/bin/run"], "Cmd": ["x"], "WorkingDir": "/w",
            "StopSignal": "SIGINT", "Volumes": {"/v": {}}, "Labels": {"l": "m"},
        });
        Self::with_config(layers, &config)
    }

    fn with_config(layers: Vec<(Vec<u8>, Vec<u8>)>, config: &Value) -> Self {
        let named = |(plain, stored): (Vec<u8>, Vec<u8>)| (Digest::of(&plain).to_string(), stored);
        Self::made_of(layers.into_iter().map(named).collect(), config)
    }

    /// `layers` are pairs: digest of the uncompressed layer, and as stored.
    fn of_diffs(layers: Vec<(String, Vec<u8>)>) -> Self {
        Self::made_of(layers, &json!({}))
    }

    fn made_of(layers: Vec<(String, Vec<u8>)>, config: &Value) -> Self {
        let diffs: Vec<_> = layers.iter().map(|(diff, _)| diff.clone()).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diffs},
        });
        let config = config.to_string().into_bytes();
        let layers: Vec<_> = layers.into_iter().map(|(_, stored)| stored).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": describe(&config),
            "layers": layers.iter().map(|layer| describe(layer)).collect::<Vec<_>>(),
        });
        Self { manifest: manifest.to_string().into_bytes(), config, layers }
    }

    fn blobs(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.layers.iter().chain([&self.config])
    }

    fn oci_archive(&self, name: &str) -> Vec<u8> {
        let mut image = describe(&self.manifest);
        image["annotations"] = json!({"io.containerd.image.name": name});
        let index = json!({"schemaVersion": 2, "manifests": [image]}).to_string();
        let mut archive = Builder::new(Vec::new());
        for blob in self.blobs().chain([&self.manifest]) {
            file(&mut archive, &format!("blobs/sha256/{}", Digest::of(blob).hex()), blob);
        }
        file(&mut archive, "index.json", index.as_bytes());
        archive.into_inner().expect("in memory")
    }
}

fn describe(blob: &[u8]) -> Value {
    json!({"mediaType": "x", "digest": Digest::of(blob).to_string(), "size": blob.len()})
}

fn file(archive: &mut Builder<Vec<u8>>, path: &str, bytes: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, path, bytes).expect("in memory");
}

/// An entry with an arbitrary name, however malicious.
fn entry(archive: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, link: &str) {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().expect("gnu").name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_gnu_mut().expect("gnu").linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_size(0);
    header.set_cksum();
    archive.append(&header, std::io::empty()).expect("in memory");
}

fn tar(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    fill(&mut archive);
    archive.into_inner().expect("in memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn store(registries: RegistryConfig) -> (TempDir, ImageStore) {
    let dir = TempDir::new().expect("a folder");
    let store = ImageStore::open(dir.path(), registries).expect("a new store");
    (dir, store)
}

async fn import(
    store: &ImageStore,
    archive: Vec<u8>,
) -> container::image::Result<container::image::Image> {
    store.import(std::io::Cursor::new(archive)).await.map(|mut images| images.remove(0))
}
