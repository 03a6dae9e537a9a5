//! Linux capabilities: names, and the capability sets of processes.

use std::io;

use crate::process::check;

/// Names of the capabilities, by the kernel's numbers.
pub const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// A set of capabilities, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Every capability that has a name here.
    pub const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// The set with one capability: `NET_ADMIN` or `CAP_NET_ADMIN`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
        NAMES.iter().position(|known| *known == short).map(|bit| Self(1 << bit))
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The bounding set of this process, without capabilities that have no name here.
pub fn bounding() -> CapabilitySet {
    let held = in_kernel().filter(|(_, held)| *held);
    CapabilitySet(held.fold(0, |set, (bit, _)| set | 1 << bit)).intersection(CapabilitySet::ALL)
}

/// Drops all capabilities except `kept` from the bounding set, including those without a name here. Needs SETPCAP, so
/// call it before `set`.
pub fn limit_bounding_set(kept: CapabilitySet) -> io::Result<()> {
    for (bit, held) in in_kernel() {
        if held && kept.0 & (1 << bit) == 0 {
            // SAFETY: takes numbers.
            check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, bit, 0, 0, 0) })?;
        }
    }
    Ok(())
}

/// Every capability that this kernel knows, and whether the bounding set contains it.
fn in_kernel() -> impl Iterator<Item = (u32, bool)> {
    (0..u64::BITS).map_while(|bit| {
        // SAFETY: takes numbers.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, bit, 0, 0, 0) } {
            -1 => None,
            held => Some((bit, held == 1)),
        }
    })
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
pub(crate) struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CapUserData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The arguments of `capset`.
pub(crate) fn words(
    effective: CapabilitySet,
    permitted: CapabilitySet,
    inheritable: CapabilitySet,
) -> (Header, [CapUserData; 2]) {
    const VERSION_3: u32 = 0x2008_0522;
    let word = |set: CapabilitySet, high: bool| {
        u32::try_from(if high { set.0 >> 32 } else { set.0 & 0xffff_ffff }).expect("32 bits")
    };
    let words = [false, true].map(|high| CapUserData {
        effective: word(effective, high),
        permitted: word(permitted, high),
        inheritable: word(inheritable, high),
    });
    (Header { version: VERSION_3, pid: 0 }, words)
}

/// Sets the effective, permitted and inheritable sets of this process, and its ambient one.
pub fn set(
    effective: CapabilitySet,
    permitted: CapabilitySet,
    inheritable: CapabilitySet,
    ambient: CapabilitySet,
) -> io::Result<()> {
    let (header, words) = words(effective, permitted, inheritable);
    // SAFETY: version 3 takes a header and two of these words, in the kernel's layout.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) })?;
    for bit in (0..u64::BITS).filter(|bit| ambient.0 & (1 << bit) != 0) {
        // SAFETY: takes numbers.
        check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, bit, 0, 0) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_of_the_kernel_is_looked_at() {
        let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").expect("proc");
        let last: u32 = last.trim().parse().expect("a number");
        assert_eq!(in_kernel().map(|(bit, _)| bit).last(), Some(last));
    }

    #[test]
    fn names_in_both_spellings() {
        assert_eq!(CapabilitySet::from_name("cap_chown"), Some(CapabilitySet(1)));
        assert_eq!(CapabilitySet::from_name("CHECKPOINT_RESTORE"), Some(CapabilitySet(1 << 40)));
        assert_eq!(CapabilitySet::from_name("FLY"), None);
    }
}
