//! Landlock: restricts the file system access of a thread and its children.

use std::{
    io,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// All access rights that a Landlock ABI version knows, from version 1 on.
const ACCESS_FS_BY_ABI: [u64; 5] =
    [(1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1];
const RULE_PATH_BENEATH: libc::c_int = 1;
const QUERY_ABI_VERSION: u32 = 1;

/// What is allowed in a directory and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    All,
}

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttr {
    handled: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed: u64,
    folder: libc::c_int,
}

/// Restricts this thread, and every thread and process that it starts, to these directories. Returns `false` if the
/// kernel does not support Landlock.
///
/// The thread must have `no_new_privs` set, or CAP_SYS_ADMIN.
pub fn restrict_self(folders: &[(BorrowedFd<'_>, Access)]) -> io::Result<bool> {
    let Some(known) = supported_rights() else { return Ok(false) };
    let rules = ruleset(known)?;
    for (folder, access) in folders {
        let allowed = match access {
            Access::Read => READ_FILE | READ_DIR,
            Access::All => known,
        };
        add(rules.as_fd(), *folder, allowed)?;
    }
    // SAFETY: a descriptor that is open and flags.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if result == 0 { Ok(true) } else { Err(io::Error::last_os_error()) }
}

/// The access rights that this kernel supports; `None` without Landlock.
fn supported_rights() -> Option<u64> {
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            QUERY_ABI_VERSION,
        )
    };
    let version = usize::try_from(version).ok()?;
    ACCESS_FS_BY_ABI.get(version.checked_sub(1)?.min(ACCESS_FS_BY_ABI.len() - 1)).copied()
}

fn ruleset(handled: u64) -> io::Result<OwnedFd> {
    let attributes = RulesetAttr { handled };
    // SAFETY: the kernel reads as many bytes of the attributes as it is told they have.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attributes,
            size_of::<RulesetAttr>(),
            0_u32,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn add(rules: BorrowedFd<'_>, folder: BorrowedFd<'_>, allowed: u64) -> io::Result<()> {
    let rule = PathBeneathAttr { allowed, folder: folder.as_raw_fd() };
    // SAFETY: the kernel reads one rule of this kind.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_confined_thread_reaches_only_its_folder() {
        let own = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let (folder, outside) = (own.path().to_owned(), other.path().join("a"));
        fs::write(&outside, "secret").expect("written");
        let confined = std::thread::spawn(move || {
            crate::process::no_new_privileges().expect("always possible");
            let inside = folder.join("a");
            let folder = fs::File::open(folder).expect("a folder");
            assert!(
                restrict_self(&[(folder.as_fd(), Access::All)]).expect("confined"),
                "no landlock"
            );
            fs::write(&inside, "mine").expect("its own");
            assert_eq!(fs::read_to_string(&inside).expect("its own"), "mine");
            fs::read_to_string(&outside).expect_err("not its own").kind()
        });
        assert_eq!(confined.join().expect("no panic"), io::ErrorKind::PermissionDenied);
        // Other threads are not restricted.
        assert!(fs::read_dir(other.path()).is_ok());
    }
}
