//! `kube-controller-manager`: reads its flags and runs it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use apiserver::GivenFlags;
use clap::{ArgAction, Parser};
use client::{Client, Kubeconfig};
use controllers::{Config, SigningConfig};
use object::Value;
use pki::CertificateAuthority;
use runtime::{Context, LeaderElector};

use super::{
    duration,
    election::{LeaderElectionFlags, start_when_elected},
    parse, run_async,
    serving::{ServedComponent, ServingComponent, ServingFlags, serve},
    wait_for_shutdown_signal,
};

const NAME: &str = "kube-controller-manager";

#[derive(Parser)]
pub(crate) struct Arguments {
    /// First, because the others remove their values.
    #[command(flatten)]
    as_given: GivenFlags,
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Which controllers run: `*`, `name`, `-name`.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_controller_name)]
    controllers: Vec<String>,
    /// Each controller has a service account of its own.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) use_service_account_credentials: bool,
    /// Nodes get ranges of pods' addresses.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    allocate_node_cidrs: bool,
    /// The range of pods' addresses.
    #[arg(long, default_value = "")]
    cluster_cidr: String,
    /// How many bits of it a node's range has.
    #[arg(long, default_value_t = 24)]
    node_cidr_mask_size: u8,
    /// The range of services' addresses.
    #[arg(long, default_value = "")]
    service_cluster_ip_range: String,
    /// The certificates that pods trust the API server by.
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Without a sign of life for that long, a node's state is unknown.
    #[arg(long, default_value = "50s", value_parser = duration)]
    node_monitor_grace_period: Duration,
    /// Who signs certificates that are asked for.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
    /// How long such a certificate is good at most.
    #[arg(long, default_value = "8760h", value_parser = duration)]
    pub(crate) cluster_signing_duration: Duration,
    /// The key that signs tokens in Secrets.
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    /// More pods than this that have ended are deleted; 0: none.
    #[arg(long, default_value_t = 12_500)]
    terminated_pod_gc_threshold: usize,
    /// How often the metrics of autoscalers are looked at.
    #[arg(long, default_value = "15s", value_parser = duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// More addresses of a subset of Endpoints are not mirrored.
    #[arg(long, default_value_t = 1000)]
    mirroring_max_endpoints_per_subset: usize,
    #[command(flatten)]
    election: LeaderElectionFlags,
    #[command(flatten)]
    serving: ServingFlags,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>(NAME, args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async(NAME, async move {
        let kubeconfig = Kubeconfig::read(&flags.kubeconfig)?;
        let client = Client::new(kubeconfig.config(None)?.manager(NAME).user_agent(NAME));
        let config = flags.config()?;
        // A client certificate takes precedence over a token, so the controllers' service accounts use connections
        // without a certificate.
        let own = match flags.use_service_account_credentials {
            true => Some(kubeconfig.anonymous_config(None)?.user_agent(NAME)),
            false => None,
        };
        let start = move |cx: &Context, client: &Client| {
            controllers::start(cx, &config, &|account| match &own {
                Some(showing) => controllers::service_account_client(client, showing, account),
                None => client.with_field_manager(account),
            });
        };
        let cx = Context::new(&client);
        serve(&cx, &flags.serving, flags.component()).await?;
        start_when_elected(&cx, flags.election(), move |part| start(part, &client));
        wait_for_shutdown_signal().await?;
        cx.stop().await;
        Ok(())
    })
}

impl Arguments {
    /// The leader election among several controller managers; `None` if `--leader-elect` is off.
    pub(crate) fn election(&self) -> Option<LeaderElector> {
        self.election.election(NAME)
    }

    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let read = |path: &Option<PathBuf>, flag: &str| match path {
            Some(path) => {
                fs::read_to_string(path).with_context(|| format!("--{flag} {}", path.display()))
            }
            None => Ok(String::new()),
        };
        let cluster_cidr =
            if self.allocate_node_cidrs { self.cluster_cidr.clone() } else { String::new() };
        Ok(Config {
            controllers: self.controllers.clone(),
            cluster_cidr,
            node_cidr_mask: self.node_cidr_mask_size,
            service_cidr: self.service_cluster_ip_range.clone(),
            root_ca: read(&self.root_ca_file, "root-ca-file")?,
            node_monitor_grace: self.node_monitor_grace_period,
            terminated_pod_threshold: self.terminated_pod_gc_threshold,
            autoscaler_period: self.horizontal_pod_autoscaler_sync_period,
            mirrored_endpoints_per_subset: self.mirroring_max_endpoints_per_subset,
            signing: self.signing()?,
            token_signer: self.token_signer()?,
            ..Config::default()
        })
    }

    fn signing(&self) -> anyhow::Result<Option<SigningConfig>> {
        let (Some(certificate), Some(key)) =
            (&self.cluster_signing_cert_file, &self.cluster_signing_key_file)
        else {
            return Ok(None);
        };
        let authority = CertificateAuthority::from_pem(&fs::read(certificate)?, &fs::read(key)?)
            .with_context(|| format!("--cluster-signing-cert-file {}", certificate.display()))?;
        let longest = self.cluster_signing_duration;
        Ok(Some(SigningConfig { authority: Arc::new(authority), max_duration: longest }))
    }

    fn token_signer(&self) -> anyhow::Result<Option<Arc<pki::TokenSigner>>> {
        let Some(path) = &self.service_account_private_key_file else { return Ok(None) };
        let key = pki::PrivateKey::from_pem(&fs::read(path)?)
            .with_context(|| format!("--service-account-private-key-file {}", path.display()))?;
        Ok(Some(Arc::new(pki::TokenSigner::new(key, String::new()))))
    }
}

impl ServingComponent for Arguments {
    fn serving_flags(&self) -> &ServingFlags {
        &self.serving
    }

    fn component(&self) -> ServedComponent {
        let mut own = Value::object();
        own["apiVersion"] = "kubecontrollermanager.config.k8s.io/v1alpha1".into();
        own["kind"] = "KubeControllerManagerConfiguration".into();
        let generic = &mut own["Generic"];
        generic["Controllers"] = self.controllers.iter().map(|word| Value::from(&**word)).collect();
        generic["LeaderElection"] = self.election.configuration(NAME);
        generic["ClientConnection"]["kubeconfig"] = (&*self.kubeconfig.to_string_lossy()).into();
        let shared = &mut own["KubeCloudShared"];
        shared["ClusterCIDR"] = (&*self.cluster_cidr).into();
        shared["AllocateNodeCIDRs"] = self.allocate_node_cidrs.into();
        shared["UseServiceAccountCredentials"] = self.use_service_account_credentials.into();
        let nodes = &mut own["NodeIPAMController"];
        nodes["ServiceCIDR"] = (&*self.service_cluster_ip_range).into();
        nodes["NodeCIDRMaskSize"] = i64::from(self.node_cidr_mask_size).into();
        let count = |count: usize| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        own["PodGCController"]["TerminatedPodGCThreshold"] =
            count(self.terminated_pod_gc_threshold);
        own["EndpointSliceMirroringController"]["MirroringMaxEndpointsPerSubset"] =
            count(self.mirroring_max_endpoints_per_subset);
        let time = |time: Duration| {
            let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            Value::from(object::Duration::format_nanos(nanos))
        };
        own["NodeLifecycleController"]["NodeMonitorGracePeriod"] =
            time(self.node_monitor_grace_period);
        own["HPAController"]["HorizontalPodAutoscalerSyncPeriod"] =
            time(self.horizontal_pod_autoscaler_sync_period);
        let file = |file: &Option<PathBuf>| {
            Value::from(&*file.as_deref().unwrap_or(Path::new("")).to_string_lossy())
        };
        let signing = &mut own["CSRSigningController"];
        signing["ClusterSigningCertFile"] = file(&self.cluster_signing_cert_file);
        signing["ClusterSigningKeyFile"] = file(&self.cluster_signing_key_file);
        signing["ClusterSigningDuration"] = time(self.cluster_signing_duration);
        let accounts = &mut own["SAController"];
        accounts["ServiceAccountKeyFile"] = file(&self.service_account_private_key_file);
        accounts["RootCAFile"] = file(&self.root_ca_file);
        let mut configuration = Value::object();
        configuration["kubecontrollermanager.config.k8s.io"] = own;
        ServedComponent {
            name: NAME,
            port: 10_257,
            tolerate_lookup_failure: false,
            configuration,
            flags: self.as_given.all::<Self>(),
        }
    }
}

fn parse_controller_name(word: &str) -> Result<String, String> {
    controllers::check_controller_name(word).map(|()| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Arguments {
        let words = [&["--kubeconfig=/k"], words].concat().iter().map(OsString::from).collect();
        let Ok(flags) = parse::<Arguments>(NAME, words) else { panic!("refused") };
        flags
    }

    fn refused(words: &[&str]) -> bool {
        let words = [&["--kubeconfig=/k"], words].concat().iter().map(OsString::from).collect();
        parse::<Arguments>(NAME, words).is_err()
    }

    #[test]
    fn flags_become_the_configuration() {
        let usual = flags(&[]).config().unwrap();
        assert_eq!((usual.controllers, usual.cluster_cidr), (vec!["*".to_owned()], String::new()));
        assert!(!flags(&[]).use_service_account_credentials);
        assert!(flags(&["--use-service-account-credentials"]).use_service_account_credentials);

        let file = std::env::temp_dir().join(format!("root-ca-{}", std::process::id()));
        fs::write(&file, "certificates").unwrap();
        let root_ca = format!("--root-ca-file={}", file.display());
        let config = flags(&[
            "--controllers=*,-daemonset,deployment-controller",
            "--allocate-node-cidrs=true",
            "--cluster-cidr=10.1.0.0/16",
            "--node-cidr-mask-size=25",
            "--service-cluster-ip-range=10.2.0.0/16",
            "--node-monitor-grace-period=1m20s",
            &root_ca,
        ]);
        let config = config.config().unwrap();
        fs::remove_file(file).unwrap();
        assert_eq!(config.controllers, ["*", "-daemonset", "deployment-controller"]);
        assert_eq!((&*config.cluster_cidr, config.node_cidr_mask), ("10.1.0.0/16", 25));
        assert_eq!((&*config.service_cidr, &*config.root_ca), ("10.2.0.0/16", "certificates"));
        assert_eq!(config.node_monitor_grace, Duration::from_secs(80));
        let numbers = flags(&[
            "--terminated-pod-gc-threshold=7",
            "--horizontal-pod-autoscaler-sync-period=30s",
            "--mirroring-max-endpoints-per-subset=9",
        ]);
        let numbers = numbers.config().unwrap();
        assert_eq!(numbers.terminated_pod_threshold, 7);
        assert_eq!(numbers.autoscaler_period, Duration::from_secs(30));
        assert_eq!(numbers.mirrored_endpoints_per_subset, 9);
        let unused = flags(&["--cluster-cidr=10.1.0.0/16"]).config().unwrap();
        assert!(unused.cluster_cidr.is_empty(), "not without --allocate-node-cidrs");
        assert!(flags(&["--root-ca-file=/nowhere"]).config().is_err());
        let shown = flags(&["--node-cidr-mask-size=25"]).component().flags;
        assert_eq!((&*shown["node-cidr-mask-size"], &*shown["cluster-cidr"]), ("25", ""));
        assert_eq!(&*shown["secure-port"], "", "of the flags of serving too");
        assert!(refused(&["--controllers=*,nothing"]) && refused(&["--unknown-flag"]));
    }

    #[test]
    fn keys_are_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let authority = CertificateAuthority::create("test", 1_900_000_000).unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("crt"), authority.certificate_pem()).unwrap();
        fs::write(path("key"), authority.key_pem()).unwrap();
        let (certificate, key) = (
            format!("--cluster-signing-cert-file={}", path("crt")),
            format!("--cluster-signing-key-file={}", path("key")),
        );
        let tokens = format!("--service-account-private-key-file={}", path("key"));
        let day = "--cluster-signing-duration=24h";
        let config = flags(&[&certificate, &key, &tokens, day]).config().unwrap();
        assert_eq!(config.signing.unwrap().max_duration, Duration::from_hours(24));
        assert!(config.token_signer.is_some());
        assert!(flags(&[]).config().unwrap().signing.is_none());
        assert!(refused(&[&certificate]), "a certificate without its key");
        assert!(flags(&["--service-account-private-key-file=/nowhere"]).config().is_err());
    }
}
