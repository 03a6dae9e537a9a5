//! What lies on a disk.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Bytes on disk and entries below a folder. What goes in the meantime does not count;
/// links are not followed.
pub fn below(folder: &Path) -> (u64, u64) {
    let (mut bytes, mut inodes) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            bytes += meta.blocks() * 512;
            inodes += 1;
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    (bytes, inodes)
}

#[test]
fn what_is_below_a_folder_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("a")).expect("a folder");
    fs::write(folder.path().join("a/b"), vec![1; 10_000]).expect("a file");
    std::os::unix::fs::symlink("/", folder.path().join("a/root")).expect("a link");
    let (bytes, inodes) = below(folder.path());
    assert!(bytes >= 10_000 && inodes == 3, "{bytes} {inodes}");
    assert_eq!(below(&folder.path().join("nothing")), (0, 0));
}
