//! Users and groups by the container's own /etc/passwd and /etc/group.

use std::{fs::File, io::Read};

use crate::spec::User;

/// The numbers of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The primary group first.
    pub(super) groups: Vec<u32>,
    pub(super) home: Option<String>,
}

/// Looks `user` up in the files of the current root.
pub(super) fn look_up(user: &User) -> Result<Ids, String> {
    resolve(user, &text("/etc/passwd"), &text("/etc/group"))
}

/// Images may lack the files, and a file may be anything: what is no text of sensible size counts as empty.
fn text(path: &str) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(4 << 20).read_to_string(&mut text));
    read.map(|_| text).unwrap_or_default()
}

fn resolve(user: &User, passwd: &str, group: &str) -> Result<Ids, String> {
    let (name, of_group) = user.name.split_once(':').unwrap_or((&user.name, ""));
    let name = if name.is_empty() { "0" } else { name };
    let number: Option<u32> = name.parse().ok();
    let known = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| {
        entry.len() >= 4
            && (entry[0] == name || number.is_some() && entry[2].parse().ok() == number)
    });
    let uid = number
        .or_else(|| known.as_ref()?[2].parse().ok())
        .ok_or_else(|| format!("unable to find user {name}: no matching entries in passwd file"))?;
    let of_passwd = known.as_ref().and_then(|entry| entry[3].parse().ok());
    let gid = match (user.gid, of_group) {
        (Some(gid), _) => gid,
        (None, "") => of_passwd.unwrap_or(0),
        (None, named) => group_id(named, group)?,
    };
    let mut groups = vec![gid];
    let mut add = |gid: u32| {
        if !groups.contains(&gid) {
            groups.push(gid);
        }
    };
    if let Some(entry) = known.as_ref().filter(|_| !user.strict) {
        members(entry[0], group).for_each(&mut add);
    }
    user.groups.iter().copied().for_each(&mut add);
    let home = known.and_then(|entry| entry.get(5).map(|home| (*home).to_owned()));
    Ok(Ids { uid, gid, groups, home })
}

fn group_id(name: &str, group: &str) -> Result<u32, String> {
    let by_name = || {
        let entry = group.lines().find(|line| line.split(':').next() == Some(name))?;
        entry.split(':').nth(2)?.parse().ok()
    };
    let found = name.parse().ok().or_else(by_name);
    found.ok_or_else(|| format!("unable to find group {name}: no matching entries in group file"))
}

fn members<'a>(name: &'a str, group: &'a str) -> impl Iterator<Item = u32> + 'a {
    group.lines().filter_map(move |line| {
        let entry: Vec<_> = line.split(':').collect();
        let listed = entry.get(3)?.split(',').any(|member| member.trim() == name);
        if listed { entry[2].parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/srv:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nextra:x:50:web,other\n";

    fn ids(name: &str, strict: bool) -> Result<Ids, String> {
        let user = User { name: name.into(), groups: vec![7], strict, ..User::default() };
        resolve(&user, PASSWD, GROUP)
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
}
