//! Devices of containers: the standard ones, requested ones, and all devices for privileged containers.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use tonic::Status;

use crate::{cri::Device as CriDevice, spec::Device};

const STANDARD: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Rules of every container for the device cgroup: mknod of any device; use of the standard devices and terminals.
const STANDARD_RULES: [&str; 11] = [
    "c *:* m",
    "b *:* m",
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:1 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
];

/// The standard and the requested devices, with the device cgroup rules that allow them.
pub(crate) fn container_devices(asked: &[CriDevice]) -> Result<(Vec<Device>, Vec<String>), Status> {
    let mut devices: Vec<_> =
        STANDARD.iter().map(|name| device(&Path::new("/dev").join(name))).collect();
    let mut rules: Vec<_> = STANDARD_RULES.iter().map(|rule| (*rule).to_owned()).collect();
    for one in asked {
        let host = Path::new(&one.host_path);
        let found = below(host);
        if found.is_empty() {
            return Err(Status::invalid_argument(format!("{} is no device", one.host_path)));
        }
        for path in found {
            let rest = path.strip_prefix(host).unwrap_or(Path::new(""));
            let target = Path::new(&one.container_path);
            let target =
                if rest.as_os_str().is_empty() { target.to_owned() } else { target.join(rest) };
            rules.extend(rule(&path, &one.permissions));
            devices.push(Device { target, host: path });
        }
    }
    Ok((devices, rules))
}

/// All devices of the host, for privileged containers.
pub(crate) fn host_devices() -> Vec<Device> {
    below(Path::new("/dev")).iter().map(|path| device(path)).collect()
}

fn device(path: &Path) -> Device {
    Device { target: path.to_owned(), host: path.to_owned() }
}

fn rule(path: &Path, permissions: &str) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let kind = if meta.file_type().is_block_device() { 'b' } else { 'c' };
    let number = meta.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let permissions = if permissions.is_empty() { "rwm" } else { permissions };
    Some(format!("{kind} {major}:{minor} {permissions}"))
}

/// The devices at and below a path, without directories that containers have of their own.
fn below(path: &Path) -> Vec<PathBuf> {
    let Ok(meta) = fs::metadata(path) else { return Vec::new() };
    let kind = meta.file_type();
    if kind.is_block_device() || kind.is_char_device() {
        return vec![path.to_owned()];
    }
    let own = ["/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/fd", "/dev/.lxc", "/dev/.udev"];
    if !kind.is_dir() || own.iter().any(|folder| path == Path::new(folder)) {
        return Vec::new();
    }
    let mut names: Vec<_> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    names.retain(|name| !name.is_symlink() && name != Path::new("/dev/console"));
    names.sort();
    names.iter().flat_map(|name| below(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_and_asked() {
        let asked = CriDevice {
            container_path: "/dev/mine".into(),
            host_path: "/dev/zero".into(),
            permissions: "r".into(),
        };
        let (devices, rules) = container_devices(&[asked]).expect("devices");
        assert!(devices.iter().any(|one| one.target == Path::new("/dev/mine")));
        assert!(rules.contains(&"c 1:5 r".to_owned()));
        let missing = CriDevice { host_path: "/no/such".into(), ..CriDevice::default() };
        assert!(container_devices(&[missing]).is_err());
    }
}
