//! Session keyrings: a container's processes must not reach the keys of the node.
//!
//! Keys are counted per user, and containers without a user namespace share root's limit. Once one of them has used it
//! up, no new keyring can be made. The others are started all the same: with the empty keyring of the pod's shim, in
//! which nobody can put anything.

use std::{ffi::c_int, io};

const SESSION: c_int = -3; // KEY_SPEC_SESSION_KEYRING
const JOIN_SESSION_KEYRING: c_int = 1;
const SET_PERMISSIONS: c_int = 5;
const DESCRIBE: c_int = 6;
const READ: c_int = 11;

/// Permissions of a keyring that stays empty: whoever has it may look at it, and do nothing else.
const LOCKED: u32 = 0x0301_0000;

/// Gives this process and its children a new session keyring, without the contents of the old one. If the user has too
/// many keys already, the old one is kept, provided that it is empty, and locked. Where keyrings are not permitted,
/// programs cannot reach one either.
pub fn new_session() -> io::Result<()> {
    match keyctl(JOIN_SESSION_KEYRING, 0, 0, 0) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOSYS | libc::EPERM) => Ok(()),
            Some(libc::EDQUOT) => keep_empty_session(error),
            _ => Err(error),
        },
        Ok(_) => Ok(()),
    }
}

fn keep_empty_session(why: io::Error) -> io::Result<()> {
    if keyctl(READ, SESSION, 0, 0)? != 0 {
        return Err(why); // the node's own keys
    }
    if session_permissions()? != LOCKED {
        keyctl(SET_PERMISSIONS, SESSION, LOCKED as usize, 0)?;
    }
    Ok(())
}

/// The permissions of the session keyring, from a description such as `keyring;0;0;3f1b0000;_ses`.
fn session_permissions() -> io::Result<u32> {
    let mut text = [0_u8; 256];
    let length = keyctl(DESCRIBE, SESSION, text.as_mut_ptr() as usize, text.len())?;
    let text = text.get(..length).unwrap_or(&text);
    let mut words = text.split(|byte| *byte == b';').map(String::from_utf8_lossy);
    let permissions = words.nth(3).and_then(|word| u32::from_str_radix(&word, 16).ok());
    permissions.ok_or_else(|| io::Error::other("the session keyring cannot be described"))
}

/// Calls keyctl with numbers, or with an address and length that are valid for the call.
fn keyctl(what: c_int, key: c_int, second: usize, third: usize) -> io::Result<usize> {
    // SAFETY: a null name asks for a new keyring; DESCRIBE gets a buffer and its length; the others take numbers, and
    // READ with a length of 0 only counts.
    let done = unsafe { libc::syscall(libc::SYS_keyctl, what, key, second, third) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: c_int = -1; // KEY_SPEC_THREAD_KEYRING

    fn add_key(name: &str, size: usize, ring: c_int) -> io::Result<()> {
        let (name, bytes) = (std::ffi::CString::new(name).expect("a name"), vec![7_u8; size]);
        let kind = c"user".as_ptr();
        // SAFETY: strings end with nul; the payload has this length.
        let added = unsafe {
            libc::syscall(libc::SYS_add_key, kind, name.as_ptr(), bytes.as_ptr(), size, ring)
        };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Uses up the limit of a user that nobody else is: only this thread becomes that user.
    fn as_user_without_quota(user: u32, own_key: bool) {
        // SAFETY: takes numbers; the system call changes this thread only.
        unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        new_session().expect("the first one");
        if own_key {
            add_key("secret", 8, SESSION).expect("one key");
        }
        let taken = (0..300).filter(|number| add_key(&number.to_string(), 1, THREAD).is_ok());
        assert!(taken.count() < 300, "a user may have 200 keys");
        let error = keyctl(JOIN_SESSION_KEYRING, 0, 0, 0).expect_err("no more");
        assert_eq!(error.raw_os_error(), Some(libc::EDQUOT));
    }

    #[test]
    fn processes_are_started_although_somebody_has_used_up_all_keys() {
        let attack = std::thread::spawn(|| {
            as_user_without_quota(1_900_001, false);
            new_session().expect("the empty one is kept");
            new_session().expect("and again");
            let error = add_key("x", 1, SESSION).expect_err("it is locked");
            assert_eq!(error.raw_os_error(), Some(libc::EACCES));
            for (what, argument) in [(SET_PERMISSIONS, 0x3f3f_0000), (3, 0), (21, 0), (7, 0)] {
                // permissions, revoke, invalidate, clear
                keyctl(what, SESSION, argument, 0).expect_err("nobody changes it");
            }
        });
        attack.join().expect("no harm");
    }

    #[test]
    fn keys_of_the_node_are_not_handed_out() {
        let attack = std::thread::spawn(|| {
            as_user_without_quota(1_900_002, true);
            let error = new_session().expect_err("it has a key");
            assert_eq!(error.raw_os_error(), Some(libc::EDQUOT));
        });
        attack.join().expect("no harm");
    }
}
