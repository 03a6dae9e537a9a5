//! Which layers containers stand on. One small file each, so that a container's coming and going costs no more with
//! many images. Nothing waits for the disk: after a power cut no container stands on anything.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Digest, Result, manifest};

#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    dir: PathBuf,
    held: BTreeMap<String, Vec<Digest>>,
}

impl Holds {
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let dir = dir.join("holds");
        fs::create_dir_all(&dir)?;
        let mut held = BTreeMap::new();
        for file in fs::read_dir(&dir)? {
            let file = file?;
            match manifest::parse(&fs::read(file.path())?, "a hold") {
                Ok(chains) => {
                    held.insert(file.file_name().to_string_lossy().into_owned(), chains);
                }
                Err(_) => fs::remove_file(file.path())?, // not whole: whoever wrote it has not got far
            }
        }
        Ok(Self { dir, held })
    }

    pub(super) fn insert(&mut self, holder: &str, chains: Vec<Digest>) -> Result<()> {
        fs::write(self.dir.join(holder), manifest::to_json(&chains))?;
        self.held.insert(holder.to_owned(), chains);
        Ok(())
    }

    /// What was held.
    pub(super) fn remove(&mut self, holder: &str) -> Result<Vec<Digest>> {
        let Some(chains) = self.held.remove(holder) else { return Ok(Vec::new()) };
        match fs::remove_file(self.dir.join(holder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(chains),
        }
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &Digest> {
        self.held.values().flatten()
    }

    pub(super) fn holders(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let chain = Digest::of(b"layer");
        let mut holds = Holds::load(folder.path()).expect("an empty folder");
        holds.insert("a", vec![chain.clone()]).expect("a file");
        holds.insert("b", vec![chain.clone()]).expect("a file");
        assert_eq!(holds.remove("b").expect("a file"), std::slice::from_ref(&chain));
        assert_eq!(holds.remove("b").expect("nothing to do"), []);
        fs::write(folder.path().join("holds/torn"), "[\"sha").expect("a file");
        let holds = Holds::load(folder.path()).expect("what is there");
        assert_eq!(
            (holds.holders(), holds.chains().collect()),
            (vec!["a".to_owned()], vec![&chain])
        );
    }
}
