//! Resolution of users and groups by the container's own /etc/passwd and /etc/group.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{collections::HashSet, os::fd::AsFd, path::Path};

use sys::container_file;

use crate::spec::User;

/// The ids of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvedUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Supplemental groups, with the primary group first.
    pub(super) groups: Vec<u32>,
    pub(super) home: Option<String>,
}

/// The container's own account files. They may be missing, and an image may contain anything: a file that is not
/// regular or too large counts as empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    passwd: String,
    group: String,
}

/// Maximum number of bytes that are read of a file.
const LONGEST: usize = 4 << 20;
/// Largest valid id. Higher ones are reserved, and the kernel takes the last one as "unchanged".
const LAST_ID: i64 = i32::MAX as i64;

impl Accounts {
    /// Reads the files from a root file system. The caller must still see the host's `/proc`.
    pub(super) fn read(root: impl AsFd) -> Self {
        let text = |path: &str| {
            let file = container_file::open_in_root(&root, Path::new(path));
            let bytes = file.and_then(|file| container_file::read_head(&file, LONGEST));
            bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
        };
        Self { passwd: text("/etc/passwd"), group: text("/etc/group") }
    }

    /// Resolves a user to its uid, gid and groups.
    pub(super) fn look_up(&self, user: &User) -> Result<ResolvedUser, String> {
        let Self { passwd, group } = self;
        let (name, of_group) = user.name.split_once(':').unwrap_or((&user.name, ""));
        let name = if name.is_empty() { "0" } else { name };
        let number = number(name)?;
        let known = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| {
            matches!(&**entry, [own, _, id, _, ..]
                if *own == name || number.is_some() && id.parse().ok() == number)
        });
        let missing = || format!("unable to find user {name}: no matching entries in passwd file");
        let field = |at: usize| known.as_ref().and_then(|entry| entry.get(at)?.parse().ok());
        let uid = number.or_else(|| field(2)).ok_or_else(missing)?;
        let gid = match (user.gid, of_group) {
            (Some(gid), _) => gid,
            (None, "") => field(3).unwrap_or(0),
            (None, named) => group_id(named, group)?,
        };
        let (mut groups, mut seen) = (vec![gid], HashSet::from([gid]));
        let mut add = |gid: u32| {
            if seen.insert(gid) {
                groups.push(gid);
            }
        };
        let own = known.as_ref().and_then(|entry| entry.first());
        if let Some(own) = own.filter(|_| !user.strict_groups) {
            members(own, group).for_each(&mut add);
        }
        user.groups.iter().copied().for_each(&mut add);
        if let Some(id) = groups.iter().chain([&uid]).find(|id| i64::from(**id) > LAST_ID) {
            return Err(format!("user or group {id} is out of range"));
        }
        let home = known.and_then(|entry| entry.get(5).map(|home| (*home).to_owned()));
        Ok(ResolvedUser { uid, gid, groups, home })
    }
}

/// Parses a numeric user or group. A number out of range is an error and not a name, because the image's own file could
/// give such a name any id.
fn number(name: &str) -> Result<Option<u32>, String> {
    let digits = name.strip_prefix(['+', '-']).unwrap_or(name);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let number = name.parse().ok().filter(|number| (0..=LAST_ID).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("user or group {name} is out of range"))
}

fn group_id(name: &str, group: &str) -> Result<u32, String> {
    let by_name = || {
        let entry = group.lines().find(|line| line.split(':').next() == Some(name))?;
        entry.split(':').nth(2)?.parse().ok()
    };
    let found = number(name)?.or_else(by_name);
    found.ok_or_else(|| format!("unable to find group {name}: no matching entries in group file"))
}

fn members<'a>(name: &'a str, group: &'a str) -> impl Iterator<Item = u32> + 'a {
    group.lines().filter_map(move |line| {
        let entry: Vec<_> = line.split(':').collect();
        let listed = entry.get(3)?.split(',').any(|member| member.trim() == name);
        if listed { entry.get(2)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/srv:/bin/sh\n\
        4294967296:x:0:0::/:/bin/sh\n-5:x:0:0::/:/bin/sh\nhuge:x:4294967295:0::/:/bin/sh\n\
        wide:x:7:4294967295::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nextra:x:50:web,other\n-1:x:0:\n";

    fn ids(name: &str, strict: bool) -> Result<ResolvedUser, String> {
        let user =
            User { name: name.into(), groups: vec![7], strict_groups: strict, ..User::default() };
        Accounts { passwd: PASSWD.into(), group: GROUP.into() }.look_up(&user)
    }

    #[test]
    fn names_numbers_and_groups() {
        let web = ids("web", false).expect("known");
        assert_eq!((web.uid, web.gid, web.groups.as_slice()), (1000, 1000, &[1000, 50, 7][..]));
        assert_eq!(ids("1000", true).expect("known").groups, [1000, 7]);
        assert_eq!(ids("5:extra", false).expect("numbers").gid, 50);
        assert_eq!(ids("", false).expect("root").home.as_deref(), Some("/root"));
        assert!(ids("nobody-here", false).is_err());
    }

    /// A kubelet that checks `runAsNonRoot` sees a number other than 0; so must the kernel.
    #[test]
    fn numbers_that_cannot_be_are_no_names_and_not_root() {
        for name in ["4294967295", "4294967296", "2147483648", "-5", "-1", "99999999999999999999"] {
            ids(name, false).expect_err(name);
        }
        for name in ["huge", "wide", "5:-1", "5:4294967295"] {
            ids(name, false).expect_err(name);
        }
        assert_eq!(ids("2147483647", false).expect("the last one").uid, 2_147_483_647);
        assert_eq!(ids("+8", false).expect("a number").uid, 8);
    }
}
