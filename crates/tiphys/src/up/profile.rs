//! `--profile`: security profiles that harden a cluster beyond the default.

use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context as _, Result};

/// `cis` passes the checks of the CIS Kubernetes benchmark 1.12; docs/security.md says what it
/// turns on, and why the default does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    #[default]
    Default,
    Cis,
}

/// The API server's policies, by path below the data directory. Existing files are not overwritten: an administrator
/// may have changed them.
const POLICIES: [(&str, &str); 2] =
    [("policy/audit.yaml", include_str!("profile/audit.yaml")), ADMISSION];
const ADMISSION: (&str, &str) = ("policy/admission.yaml", include_str!("profile/admission.yaml"));

/// Admission plugins that the profile enables and that are off by default.
const PLUGINS: [&str; 4] =
    ["AlwaysPullImages", "DenyServiceExternalIPs", "EventRateLimit", "NodeRestriction"];

impl Profile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Cis => "cis",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Default, Self::Cis].into_iter().find(|own| own.name() == name)
    }

    pub(super) fn is_cis(self) -> bool {
        self == Self::Cis
    }

    /// Writes the policies that the API server's flags refer to.
    pub(super) fn write_policies(self, data: &Path) -> Result<()> {
        if self.is_cis() {
            for (name, content) in POLICIES {
                write_once(&data.join(name), content)?;
            }
        }
        Ok(())
    }

    /// Flags of the API server that the profile adds.
    pub(super) fn flags(self, data: &Path) -> Vec<(&'static str, String)> {
        if !self.is_cis() {
            return Vec::new();
        }
        let below = |name: &str| data.join(name).display().to_string();
        vec![
            ("anonymous-auth", "false".to_owned()),
            ("enable-admission-plugins", PLUGINS.join(",")),
            ("admission-control-config-file", below(ADMISSION.0)),
            ("audit-policy-file", below(POLICIES[0].0)),
            ("audit-log-path", below("audit/audit.log")),
            ("audit-log-maxage", "30".to_owned()),
            ("audit-log-maxbackup", "10".to_owned()),
            ("audit-log-maxsize", "100".to_owned()),
            ("kubelet-certificate-authority", below("pki/ca.crt")),
            ("profiling", "false".to_owned()),
            ("strict-transport-security-directives", "max-age=31536000".to_owned()),
            ("service-account-extend-token-expiration", "false".to_owned()),
        ]
    }
}

/// Writes a file that only its owner can read, unless it exists.
fn write_once(path: &Path, content: &str) -> Result<()> {
    let made = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => file.write_all(content.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_api_server_takes_the_flags_of_the_cis_profile() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("policy")).unwrap();
        Profile::Cis.write_policies(data.path()).unwrap();
        let settings = crate::up::settings::tests::settings();
        assert_eq!(settings.profile, Profile::Cis);
        let config = crate::up::components::api_server(&settings, data.path(), None);
        config.expect("the flags and the policies are good");
        let policy = data.path().join("policy/audit.yaml");
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o777, 0o600);

        fs::write(&policy, "mine").unwrap();
        Profile::Cis.write_policies(data.path()).unwrap();
        assert_eq!(fs::read_to_string(&policy).unwrap(), "mine");
    }

    #[test]
    fn profiles_are_known_by_name() {
        for profile in [Profile::Default, Profile::Cis] {
            assert_eq!(Profile::parse(profile.name()), Some(profile));
        }
        assert_eq!(Profile::parse("strict"), None);
    }
}
