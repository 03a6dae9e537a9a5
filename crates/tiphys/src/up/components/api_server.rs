//! The API server's flags inside `up`.

use std::path::Path;

use anyhow::{Result, bail};

use super::{
    DataDir, Flags, Reserved, below,
    files::{COPIES, with_copies},
    merge, split,
};
use crate::{commands::apiserver::Arguments, up::ClusterConfig};

const RESERVED: Reserved = &[
    ("data-dir", "--data-dir"),
    ("secure-port", "--port"),
    ("bind-address", ""),
    ("advertise-address", "--node-ip"),
    ("service-cluster-ip-range", "--service-cluster-ip-range"),
    ("service-node-port-range", "--service-node-port-range"),
    ("etcd-servers", "--etcd-servers"),
];
/// The flag for the audit log, which names a file to write.
pub(super) const AUDIT_LOG: &str = "audit-log-path";
const AUDIT_POLICY: &str = "audit-policy-file";

/// The API server's configuration. `data` is the data directory as the process sees it. `copies` is the directory
/// with the copied files that flags name; `None`: below `data`.
pub(in crate::up) fn api_server(
    settings: &ClusterConfig,
    data: &Path,
    copies: Option<&Path>,
) -> Result<apiserver::Config> {
    let mut ours: Flags = vec![
        ("data-dir", data.display().to_string()),
        ("service-cluster-ip-range", settings.service_cidr.clone()),
        ("service-node-port-range", settings.node_ports.clone()),
        ("secure-port", settings.port.to_string()),
        ("advertise-address", settings.node_ip.to_string()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
    ];
    if !settings.etcd.is_empty() {
        ours.push(("etcd-servers", settings.etcd.join(",")));
    }
    ours.extend(settings.profile.flags(data));
    let own = data.join(COPIES);
    let copies = copies.unwrap_or(&own);
    let given = &settings.args.api_server;
    let has = |name: &str| given.iter().any(|text| split(text).0 == name);
    if has(AUDIT_POLICY) {
        ours.retain(|(name, _)| *name != AUDIT_LOG);
        ours.push((AUDIT_LOG, below(data, "audit/audit.log")));
    }
    let place = |text: &String| match split(text) {
        (AUDIT_LOG, Some(path)) if path != "-" => format!("{AUDIT_LOG}={}", below(data, path)),
        _ => text.clone(),
    };
    let given: Vec<String> = given.iter().map(place).collect();
    let given = with_copies::<Arguments>(&given, "", copies);
    let Arguments { flags } = crate::commands::read_flags(merge(&ours, &given, RESERVED)?)?;
    let mut config = apiserver::Config::new(flags)?;
    config.kubelets_by_name = settings.profile.is_cis();
    config.lacking = settings.lacking().map(|part| part.name).collect();
    config.further_names.clone_from(&settings.tls_sans);
    Ok(config)
}

/// The path of the audit log, which must be `audit/NAME` below the data directory: the API server can write only
/// there.
pub(super) fn audit_log(layout: &DataDir, path: &str) -> Result<String> {
    let inside = Path::new(path).strip_prefix(layout.dir()).unwrap_or(Path::new(path));
    let name = inside.strip_prefix("audit").unwrap_or(inside);
    match name.to_str() {
        Some(name) if !name.is_empty() && !name.contains('/') && name != ".." => {
            Ok(format!("audit/{name}"))
        }
        _ => bail!(
            "--kube-apiserver-arg {AUDIT_LOG}={path}: the API server is an ordinary user and writes \
             only to {}; name a file there",
            layout.path("audit").display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::up::{Profile, components::files::Files, settings::tests::settings};

    fn with(given: &[String]) -> (tempfile::TempDir, Result<apiserver::Config>) {
        let folder = tempfile::tempdir().unwrap();
        let layout = DataDir::new(&folder.path().join("data"));
        layout.make_folder().unwrap();
        fs::create_dir(layout.path("policy")).unwrap();
        let mut settings = ClusterConfig { profile: Profile::Default, ..settings() };
        settings.args.api_server = given.to_vec();
        let files = Files::collect(&layout, &mut settings.args);
        let config = files.and_then(|files| api_server(&settings, layout.dir(), files.folder()));
        (folder, config)
    }

    #[test]
    fn files_are_copied_and_read_there() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        fs::write(
            &policy,
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
        )
        .unwrap();
        let (kept, config) = with(&[format!("audit-policy-file={}", policy.display())]);
        config.unwrap();
        assert!(kept.path().join("data/args.new/audit-policy-file").exists());
        let missing = folder.path().join("none");
        let (_kept, config) = with(&[format!("audit-policy-file={}", missing.display())]);
        let error = format!("{:#}", config.unwrap_err());
        assert!(error.contains("audit-policy-file=") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn an_audit_log_is_written_below_the_data_folder() {
        let layout = DataDir::new(Path::new("/d"));
        assert_eq!(audit_log(&layout, "a.log").unwrap(), "audit/a.log");
        assert_eq!(audit_log(&layout, "/d/audit/a.log").unwrap(), "audit/a.log");
        for path in ["/var/log/a.log", "audit/../a", "..", "/d/store/a"] {
            let error = audit_log(&layout, path).unwrap_err().to_string();
            assert!(error.contains("writes only to /d/audit"), "{error}");
        }
    }

    #[test]
    fn wrong_flags_are_refused_as_the_server_refuses_them() {
        let refused = |given: &str| format!("{:#}", with(&[given.to_owned()]).1.unwrap_err());
        assert!(refused("no-such-flag=1").contains("unexpected argument '--no-such-flag'"));
        assert!(refused("secure-port=1").contains("use --port of `tiphys up`"));
        assert!(refused("feature-gates=NoSuchGate=true").contains("NoSuchGate"));
        let (_kept, config) = with(&[
            "oidc-issuer-url=https://issuer.example".to_owned(),
            "oidc-client-id=c".to_owned(),
        ]);
        config.unwrap();
    }
}
