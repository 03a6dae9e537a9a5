//! The rules for what a process may do and as whom it runs.

use std::collections::BTreeSet;

use object::{List, Value};
use schema::{ErrorList, FieldPath};

use super::{
    AppArmorProfile, Capabilities, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl,
};
use crate::{
    rules::{ValidateField, format_go_fields, json, or_null},
    shown::{format_go, format_go_option},
};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path, without its end.
const MAX_PATH: usize = 4095;
const MAX_SYSCTL: usize = 253;
const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

impl SecurityContext {
    pub(crate) fn check(&self, host_users: bool, at: &FieldPath, errs: &mut ErrorList) {
        errs.user_or_group_id(&at.field("runAsUser"), self.run_as_user());
        errs.user_or_group_id(&at.field("runAsGroup"), self.run_as_group());
        if let Some(mount) = self.proc_mount() {
            let at = at.field("procMount");
            errs.one_of(&at, mount, &["Default", "Unmasked"]);
            if host_users && mount == "Unmasked" {
                errs.invalid(&at, mount, "`hostUsers` must be false to use `Unmasked`");
            }
        }
        at.if_present("seccompProfile", self.seccomp_profile(), |profile, at| {
            profile.check(at, errs);
        });
        if self.allow_privilege_escalation() == Some(false) {
            self.check_escalation(at, errs);
        }
        at.if_present("windowsOptions", self.windows_options(), |options, at| {
            options.check(at, errs);
        });
        at.if_present("appArmorProfile", self.app_armor_profile(), |it, at| it.check(at, errs));
    }

    fn check_escalation(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.privileged() == Some(true) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errs.invalid_formatted(at, self.shown(), why);
        }
        let added = self.capabilities().map(Capabilities::add);
        let admin = |list: &&List<String>| list.iter().any(|name| name == "CAP_SYS_ADMIN");
        if added.as_ref().is_some_and(admin) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                       CAP_SYS_ADMIN";
            errs.invalid_formatted(at, self.shown(), why);
        }
    }

    fn shown(&self) -> String {
        let capabilities = self.capabilities().map(Capabilities::shown);
        let fields = [
            ("Capabilities", capabilities.unwrap_or_else(|| "null".into())),
            ("Privileged", json(&or_null(self.privileged()))),
            ("SELinuxOptions", format_go_option(self.se_linux_options())),
            ("WindowsOptions", format_go_option(self.windows_options())),
            ("RunAsUser", json(&or_null(self.run_as_user()))),
            ("RunAsGroup", json(&or_null(self.run_as_group()))),
            ("RunAsNonRoot", json(&or_null(self.run_as_non_root()))),
            ("ReadOnlyRootFilesystem", json(&or_null(self.read_only_root_filesystem()))),
            ("AllowPrivilegeEscalation", json(&or_null(self.allow_privilege_escalation()))),
            ("ProcMount", json(&or_null(self.proc_mount()))),
            ("SeccompProfile", format_go_option(self.seccomp_profile())),
            ("AppArmorProfile", format_go_option(self.app_armor_profile())),
        ];
        let fields: Vec<_> =
            fields.iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl Capabilities {
    fn shown(&self) -> String {
        let list = |list: &List<String>| {
            if list.is_empty() { Value::Null } else { Value::from(list.clone()) }
        };
        format_go_fields(&[("Add", list(self.add())), ("Drop", list(self.drop()))])
    }
}

impl SeccompProfile {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match self.type_() {
            "" => {
                errs.required(&at.field("type"), "type is required when seccompProfile is set");
            }
            name => errs.one_of(&at.field("type"), name, &PROFILES),
        }
        let file = at.field("localhostProfile");
        match (self.type_(), self.localhost_profile()) {
            ("Localhost", None) => {
                errs.required(&file, "must be set when seccomp type is Localhost");
            }
            ("Localhost", Some(path)) => errs.local_descending_path(&file, path),
            (_, Some(_)) => {
                let why = "can only be set when seccomp type is Localhost";
                errs.invalid_formatted(&file, format_go(self), why);
            }
            (_, None) => {}
        }
    }
}

impl AppArmorProfile {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let file = at.field("localhostProfile");
        match (self.type_(), self.localhost_profile()) {
            ("Localhost", None | Some("")) => {
                errs.required(&file, "must be set when AppArmor type is Localhost");
            }
            ("Localhost", Some(path)) => {
                if path.trim() != path {
                    errs.invalid(&file, path, "must not be padded with whitespace");
                }
                errs.max_bytes(&file, path, MAX_PATH);
            }
            ("RuntimeDefault" | "Unconfined", Some(path)) => {
                errs.invalid(&file, path, "can only be set when AppArmor type is Localhost");
            }
            ("RuntimeDefault" | "Unconfined", None) => {}
            ("", _) => {
                errs.required(&at.field("type"), "type is required when appArmorProfile is set");
            }
            (name, _) => errs.not_supported(&at.field("type"), name, &PROFILES),
        }
    }
}

impl PodSecurityContext {
    pub(crate) fn check(&self, host: HostNamespaces, at: &FieldPath, errs: &mut ErrorList) {
        errs.user_or_group_id(&at.field("fsGroup"), self.fs_group());
        errs.user_or_group_id(&at.field("runAsUser"), self.run_as_user());
        errs.user_or_group_id(&at.field("runAsGroup"), self.run_as_group());
        for (i, group) in self.supplemental_groups().iter().enumerate() {
            errs.user_or_group_id(&at.field("supplementalGroups").index(i), Some(group));
        }
        check_sysctls(self.sysctls(), host, &at.field("sysctls"), errs);
        for (name, value, known) in [
            ("fsGroupChangePolicy", self.fs_group_change_policy(), ["Always", "OnRootMismatch"]),
            ("supplementalGroupsPolicy", self.supplemental_groups_policy(), ["Merge", "Strict"]),
            ("seLinuxChangePolicy", self.se_linux_change_policy(), ["MountOption", "Recursive"]),
        ] {
            at.if_present(name, value, |value, at| errs.one_of(at, value, &known));
        }
        at.if_present("seccompProfile", self.seccomp_profile(), |profile, at| {
            profile.check(at, errs);
        });
        at.if_present("windowsOptions", self.windows_options(), |options, at| {
            options.check(at, errs);
        });
        at.if_present("appArmorProfile", self.app_armor_profile(), |it, at| it.check(at, errs));
    }
}

/// Which of the host's namespaces a pod uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostNamespaces {
    pub(crate) network: bool,
    pub(crate) ipc: bool,
}

fn check_sysctls(
    sysctls: &List<Sysctl>,
    host: HostNamespaces,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let (at, name) = (at.index(i), sysctl.name());
        let at = at.field("name");
        if name.is_empty() {
            errs.required(&at, "");
        } else if !is_sysctl(name) {
            let why = format!("must have at most {MAX_SYSCTL} characters and match regex {SYSCTL}");
            errs.invalid(&at, name, why);
        } else if seen.contains(name) {
            errs.duplicate(&at, name);
        }
        seen.insert(name);
        let plain = name.replace('/', ".");
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."];
        if host.network && plain.starts_with("net.") {
            errs.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        } else if host.ipc
            && (plain == "kernel.sem" || ipc.iter().any(|prefix| plain.starts_with(prefix)))
        {
            errs.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let part = |part: &str| {
        let fits = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase() || matches!(b, b'-' | b'_');
        ends(part.bytes().next()) && ends(part.bytes().next_back()) && part.bytes().all(fits)
    };
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(part)
}
