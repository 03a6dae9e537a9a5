//! The flags of the components inside `up`: ours, and those that a user adds with `--kubelet-arg` and the like, which
//! take precedence. The components' own parsers read them, once before anything is stopped and again when the
//! component starts.

mod api_server;
mod files;

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context as _, Result, bail};

pub(super) use self::api_server::api_server;
use self::files::{CONTROLLER_MANAGER, COPIES, Files, SCHEDULER, with_copies};
use super::{ClusterConfig, DataDir, node, settings::ComponentArgs};
use crate::commands::{controller_manager, proxy, scheduler};

/// Flags by name.
type Flags = Vec<(&'static str, String)>;

/// Flags that only `up` may set, each with the flag of `up` for it, if there is one.
type Reserved = &'static [(&'static str, &'static str)];

const KUBELET: Reserved = &[
    ("kubeconfig", ""),
    ("hostname-override", "--node-name"),
    ("node-ip", "--node-ip"),
    ("container-runtime-endpoint", ""),
    ("root-dir", "--data-dir"),
    ("pod-manifest-path", ""),
    ("cgroup-root", ""),
];
const PROXY: Reserved = &[
    ("kubeconfig", ""),
    ("hostname-override", "--node-name"),
    ("bind-address", "--node-ip"),
    ("cluster-cidr", "--cluster-cidr"),
    ("cleanup", ""),
];
/// Reserved flags of the scheduler and the controller manager, which already have a connection to the API server.
const CONTROL: Reserved = &[
    ("kubeconfig", ""),
    ("authentication-kubeconfig", ""),
    ("authorization-kubeconfig", ""),
    ("cluster-cidr", "--cluster-cidr"),
    ("service-cluster-ip-range", "--service-cluster-ip-range"),
];

/// Settings whose flags all components have accepted.
pub(super) struct Prepared {
    pub(super) settings: ClusterConfig,
    files: Files,
}

/// Parses the flags of every component. Does not affect running processes.
pub(super) fn prepare(layout: &DataDir, mut settings: ClusterConfig) -> Result<Prepared> {
    layout.make_folder()?;
    fs::create_dir_all(layout.path("policy")).context("the folder of policies")?;
    settings.profile.write_policies(layout.dir())?;
    let args = &settings.args;
    refuse_reserved(&args.controller_manager, CONTROL).context("--kube-controller-manager-arg")?;
    refuse_reserved(&args.scheduler, CONTROL).context("--kube-scheduler-arg")?;
    let files = Files::collect(layout, &mut settings.args)?;
    api_server(&settings, layout.dir(), files.folder()).context("--kube-apiserver-arg")?;
    let copies = files.folder();
    controller_manager(&settings, layout.dir(), copies).context("--kube-controller-manager-arg")?;
    scheduler(&settings, layout.dir(), copies).context("--kube-scheduler-arg")?;
    node::kubelet_flags(layout, &settings).context("--kubelet-arg")?;
    kube_proxy(&settings.args).context("--kube-proxy-arg")?;
    Ok(Prepared { settings, files })
}

impl Prepared {
    /// Writes the settings, creates the directories, and moves the copied files into place.
    pub(super) fn keep(self, layout: &DataDir) -> Result<()> {
        self.settings.save(&layout.path("config.yaml"))?;
        layout.create(self.settings.control_plane_uid)?;
        self.files.keep(layout, self.settings.control_plane_uid)
    }
}

/// The flags of the controller manager. `data` is the data directory as the process sees it. `copies` is the
/// directory with the copied files that flags name; `None`: below `data`.
pub(super) fn controller_manager(
    settings: &ClusterConfig,
    data: &Path,
    copies: Option<&Path>,
) -> Result<controller_manager::Arguments> {
    let mut ours = vec![
        ("allocate-node-cidrs", "true".to_owned()),
        // hosts join by bootstrap token
        ("controllers", "*,bootstrap-signer-controller,token-cleaner-controller".to_owned()),
        ("use-service-account-credentials", "true".to_owned()),
        ("cluster-cidr", settings.cluster_cidr.clone()),
        ("service-cluster-ip-range", settings.service_cidr.clone()),
    ];
    ours.extend(in_control(data));
    let given = &settings.args.controller_manager;
    let own = data.join(COPIES);
    let copies = copies.unwrap_or(&own);
    let given = with_copies::<controller_manager::Arguments>(given, CONTROLLER_MANAGER, copies);
    let flags: controller_manager::Arguments =
        crate::commands::read_flags(merge(&ours, &given, CONTROL)?)?;
    flags.config()?; // also reads the files
    Ok(flags)
}

/// The flags of the scheduler, with the same arguments as `controller_manager`.
pub(super) fn scheduler(
    settings: &ClusterConfig,
    data: &Path,
    copies: Option<&Path>,
) -> Result<scheduler::Arguments> {
    let own = data.join(COPIES);
    let copies = copies.unwrap_or(&own);
    let given = with_copies::<scheduler::Arguments>(&settings.args.scheduler, SCHEDULER, copies);
    crate::commands::read_flags(merge(&in_control(data), &given, CONTROL)?)
}

/// The flags that both have: a connection that already exists, a port on localhost, the cluster's CAs, and no leader
/// election.
fn in_control(data: &Path) -> Flags {
    vec![
        ("leader-elect", "false".to_owned()),
        ("kubeconfig", "/dev/null".to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("client-ca-file", below(data, "pki/ca.crt")),
        ("requestheader-client-ca-file", below(data, "pki/front-proxy-ca.crt")),
        ("requestheader-allowed-names", "front-proxy-client".to_owned()),
    ]
}

/// The configuration of the kubelet.
pub(super) fn kubelet(ours: &[(&str, String)], args: &ComponentArgs) -> Result<kubelet::Config> {
    crate::commands::kubelet::config_of(merge(ours, &args.kubelet, KUBELET)?)
}

/// The flags of kube-proxy.
pub(super) fn kube_proxy(args: &ComponentArgs) -> Result<proxy::Arguments> {
    let ours = vec![("kubeconfig", "/dev/null".to_owned()), ("hostname-override", "n".to_owned())];
    crate::commands::read_flags(merge(&ours, &args.proxy, PROXY)?)
}

/// Our flags except those that the user has given, followed by the user's.
fn merge(ours: &[(&str, String)], given: &[String], reserved: Reserved) -> Result<Vec<OsString>> {
    refuse_reserved(given, reserved)?;
    let given: Vec<(&str, Option<&str>)> = given.iter().map(|text| split(text)).collect();
    let ours = ours.iter().filter(|(name, _)| !given.iter().any(|(other, _)| other == name));
    let ours = ours.map(|(name, value)| format!("--{name}={value}"));
    let given = given.iter().map(|(name, value)| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    });
    Ok(ours.chain(given).map(OsString::from).collect())
}

/// Refuses flags that `up` decides itself.
fn refuse_reserved(given: &[String], reserved: Reserved) -> Result<()> {
    for name in given.iter().map(|text| split(text).0) {
        match reserved.iter().find(|(own, _)| *own == name) {
            Some((_, "")) => bail!("{name} cannot be set: `tiphys up` decides it"),
            Some((_, flag)) => bail!("{name} cannot be set here: use {flag} of `tiphys up`"),
            None => {}
        }
    }
    Ok(())
}

/// Name and value of NAME=VALUE; dashes before the name are taken too.
fn split(text: &str) -> (&str, Option<&str>) {
    let text = text.trim_start_matches('-');
    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
}

/// The path of a file in the data directory.
fn below(data: &Path, name: &str) -> String {
    data.join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::settings::tests::settings;

    fn words(ours: &[(&str, String)], given: &[&str]) -> Result<Vec<String>> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        let words = merge(ours, &given, KUBELET)?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn what_a_user_says_wins() {
        let ours = || vec![("max-pods", "110".to_owned()), ("port", "0".to_owned())];
        assert_eq!(words(&ours(), &[]).unwrap(), ["--max-pods=110", "--port=0"]);
        let given = ["--max-pods=7", "seccomp-default"];
        let all = ["--port=0", "--max-pods=7", "--seccomp-default"];
        assert_eq!(words(&ours(), &given).unwrap(), all);
    }

    #[test]
    fn what_up_decides_is_refused_with_its_own_flag() {
        let refused = |given: &str| words(&[], &[given]).unwrap_err().to_string();
        assert!(refused("hostname-override=x").contains("use --node-name of `tiphys up`"));
        assert!(refused("kubeconfig=/x").contains("`tiphys up` decides it"));
    }

    #[test]
    fn each_component_reads_its_own_flags() {
        let mut settings = settings();
        let wrong = |settings: &ClusterConfig| {
            let errors = [
                controller_manager(settings, Path::new("/d"), None).err(),
                scheduler(settings, Path::new("/d"), None).err(),
                kube_proxy(&settings.args).err(),
            ];
            errors.into_iter().flatten().map(|error| error.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(wrong(&settings), Vec::<String>::new());
        settings.args.controller_manager = vec!["node-cidr-mask-size=many".to_owned()];
        settings.args.scheduler = vec!["no-such-flag=1".to_owned()];
        settings.args.proxy = vec!["proxy-mode=ipvs".to_owned()];
        let errors = wrong(&settings);
        assert!(
            errors[0].contains("invalid value 'many' for '--node-cidr-mask-size"),
            "{errors:?}"
        );
        assert!(errors[1].contains("unexpected argument '--no-such-flag'"), "{errors:?}");
        assert!(errors[2].contains("invalid value 'ipvs' for '--proxy-mode"), "{errors:?}");
        assert!(errors.iter().all(|error| !error.contains('\n')), "{errors:?}");
    }

    #[test]
    fn a_leader_is_elected_where_a_user_says_so() {
        let mut settings = settings();
        let elect = |settings: &ClusterConfig| {
            let controllers = controller_manager(settings, Path::new("/d"), None).unwrap();
            let scheduler = scheduler(settings, Path::new("/d"), None).unwrap();
            [controllers.election().is_some(), scheduler.election().is_some()]
        };
        assert_eq!(elect(&settings), [false, false]);
        settings.args.controller_manager =
            ["leader-elect", "leader-elect-lease-duration=30s"].map(str::to_owned).to_vec();
        settings.args.scheduler = vec!["leader-elect=true".to_owned()];
        assert_eq!(elect(&settings), [true, true]);
    }

    #[test]
    fn files_of_every_component_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let layout = DataDir::new(&folder.path().join("data"));
        layout.make_folder().unwrap();
        let authority = pki::CertificateAuthority::create("test", 1_900_000_000).unwrap();
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let certificate = file("crt", &authority.certificate_pem());
        let key = file("key", &authority.key_pem());
        let mut settings = settings();
        settings.args.controller_manager = vec![
            format!("cluster-signing-cert-file={certificate}"),
            format!("cluster-signing-key-file={key}"),
        ];
        settings.args.scheduler = vec![format!("client-ca-file={certificate}")];
        let files = Files::collect(&layout, &mut settings.args).unwrap();
        let read = controller_manager(&settings, layout.dir(), files.folder()).unwrap();
        assert!(read.config().unwrap().signing.is_some());
        scheduler(&settings, layout.dir(), files.folder()).unwrap();
        let names = fs::read_dir(files.folder().unwrap()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let copies = [
            "kube-controller-manager.cluster-signing-cert-file",
            "kube-controller-manager.cluster-signing-key-file",
            "kube-scheduler.client-ca-file",
        ];
        assert_eq!(names, copies);
        fs::remove_file(key).unwrap();
        let error = format!("{:#}", Files::collect(&layout, &mut settings.args).err().unwrap());
        assert!(error.starts_with("--kube-controller-manager-arg cluster-signing-key"), "{error}");
    }
}
