//! User namespaces for idmapped mounts, which take one by its descriptor.

use std::{fs::File, io, os::unix::net::UnixStream};

use sys::{namespace, process};

use crate::spec::{IdMap, IdMaps};

/// Creates a user namespace with these id maps. A process holds it until it is opened.
pub(super) fn create(maps: &IdMaps) -> io::Result<File> {
    let (_ours, theirs) = UnixStream::pair()?;
    let child = process::fork(namespace::USER, || {
        let _ = io::Read::read(&mut &theirs, &mut [0]); // blocks until it is killed
        0
    })?;
    let opened =
        write_id_maps(child, maps).and_then(|()| namespace::open(format!("/proc/{child}/ns/user")));
    process::kill(child, 9)?;
    process::wait(child)?;
    opened
}

/// Writes the id maps of a new user namespace, from outside.
pub(super) fn write_id_maps(pid: i32, maps: &IdMaps) -> io::Result<()> {
    let text = |maps: &[IdMap]| {
        let line = |map: &IdMap| format!("{} {} {}", map.inside, map.outside, map.length);
        maps.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
    };
    std::fs::write(format!("/proc/{pid}/uid_map"), text(&maps.uids))?;
    std::fs::write(format!("/proc/{pid}/gid_map"), text(&maps.gids))
}
