//! `--profile`: how far a cluster is hardened beyond what always holds.

use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context as _, Result};
use apiserver::Flags;

/// `cis` passes the checks of the CIS Kubernetes benchmark 1.12; docs/security.md says what it
/// turns on, and why the default does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    #[default]
    Default,
    Cis,
}

/// Where the API server's policies are, below the data folder. Files that are there are kept:
/// an administrator may change them.
const POLICIES: [(&str, &str); 2] =
    [("policy/audit.yaml", include_str!("profile/audit.yaml")), ADMISSION];
const ADMISSION: (&str, &str) = ("policy/admission.yaml", include_str!("profile/admission.yaml"));

/// Admission plugins that are off by default.
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

    /// Changes the API server's flags, and writes the policies that they name.
    pub(super) fn apply(self, flags: &mut Flags, data: &Path) -> Result<()> {
        if !self.is_cis() {
            return Ok(());
        }
        for (name, content) in POLICIES {
            write_once(&data.join(name), content)?;
        }
        flags.anonymous_auth = Some(false);
        flags.enable_admission_plugins = PLUGINS.map(str::to_owned).to_vec();
        flags.admission_control_config_file = Some(data.join(ADMISSION.0));
        flags.audit_policy_file = Some(data.join(POLICIES[0].0));
        flags.audit_log_path = Some(data.join("audit/audit.log"));
        flags.audit_log_maxage = 30;
        flags.audit_log_maxbackup = 10;
        flags.audit_log_maxsize = 100;
        flags.kubelet_certificate_authority = Some(data.join("pki/ca.crt"));
        flags.whole.profiling = false;
        flags.connections.strict_transport_security_directives =
            vec!["max-age=31536000".to_owned()];
        flags.accounts.service_account_extend_token_expiration = false;
        Ok(())
    }
}

/// Writes a file that only this user reads, unless it is there.
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
        let mut flags = Flags::new(data.path());
        Profile::Cis.apply(&mut flags, data.path()).unwrap();
        assert_eq!(flags.anonymous_auth, Some(false));
        apiserver::Config::new(flags.clone()).expect("the policies are good");
        let policy = data.path().join("policy/audit.yaml");
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o777, 0o600);

        fs::write(&policy, "mine").unwrap();
        Profile::Cis.apply(&mut flags, data.path()).unwrap();
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
