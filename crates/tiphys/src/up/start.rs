//! The command `up`: prepares the machine, starts the supervisor, waits until the
//! node is ready, and says what to do next.

use std::{
    fs,
    io::{IsTerminal, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    pin::pin,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use api::core::Node;
use clap::Args;
use client::{Api, Client, Kubeconfig};
use container::image::Registries;
use object::Key;
use tokio::time::{Instant, sleep};

use super::{
    Layout, Profile, Settings, check, demo,
    layout::{DEFAULT, write_private},
    settings::Wishes,
    supervise,
};

/// So long a start may take before it is called a failure.
const PATIENCE: Duration = Duration::from_mins(1);
const PARTS: [&str; 5] = ["scheduler", "controllers", "proxy", "dns", "kubelet"];

#[derive(Args, Debug)]
pub(crate) struct Up {
    /// Where everything of the cluster is kept.
    #[arg(long, default_value = DEFAULT)]
    pub(crate) data_dir: PathBuf,
    /// Where the administrator's kubeconfig is written besides.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The port of the API server.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// What this machine is called in the cluster.
    #[arg(long)]
    pub(crate) node_name: Option<String>,
    /// The range of pods' addresses.
    #[arg(long)]
    pub(crate) cluster_cidr: Option<String>,
    /// The range of services' addresses.
    #[arg(long)]
    pub(crate) service_cluster_ip_range: Option<String>,
    /// Parts to leave out: scheduler, controllers, proxy, dns, kubelet.
    #[arg(long, value_delimiter = ',')]
    pub(crate) disable: Vec<String>,
    /// Where a registry's images are asked for: HOST=URL; `*` stands for every host.
    #[arg(long, value_name = "HOST=URL")]
    pub(crate) registry: Vec<String>,
    /// Where etcd is, if that keeps the data: URLs of http.
    #[arg(long, value_delimiter = ',', value_name = "URLS")]
    pub(crate) etcd_servers: Vec<String>,
    /// Parts that something else brings: network-policy, ingress, load-balancer, volume-attachment,
    /// dynamic-resources, workload-scheduling, storage-migration. Objects for them are taken
    /// without a warning.
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub(crate) external: Vec<String>,
    /// How far the cluster is hardened: `cis` passes the CIS benchmark's checks. May be changed
    /// by a later start.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<Profile>,
    /// Run a small web application and show where it answers.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Stay in the foreground, for service managers.
    #[arg(long)]
    pub(crate) foreground: bool,
}

pub(crate) async fn run(up: Up) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "tiphys up needs root: it makes containers and networks"
    );
    for part in &up.disable {
        ensure!(
            PARTS.contains(&part.as_str()),
            "--disable {part:?}: the parts are {}",
            PARTS.join(", ")
        );
    }
    for part in &up.external {
        let known: Vec<&str> = api::parts::ALL.iter().map(|part| part.name).collect();
        ensure!(
            known.contains(&part.as_str()),
            "--external {part:?}: the parts are {}",
            known.join(", ")
        );
    }
    for url in &up.etcd_servers {
        ensure!(
            url.starts_with("http://"),
            "--etcd-servers {url}: only http:// here; for TLS run kube-apiserver itself"
        );
    }
    check::demand()?;
    Registries::parse(up.registry.iter().map(String::as_str))?;
    let dir = std::path::absolute(&up.data_dir)?;
    let layout = Layout::new(&dir);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let wishes = Wishes {
        node_name: up.node_name.clone(),
        port: up.port,
        cluster_cidr: up.cluster_cidr.clone(),
        service_cidr: up.service_cluster_ip_range.clone(),
        disable: up.disable.clone(),
        registries: up.registry.clone(),
        etcd: up.etcd_servers.clone(),
        external: up.external.clone(),
        profile: up.profile,
    };
    let settings = Settings::load_or_choose(&layout.path("config.yaml"), &wishes)?;
    layout.make(settings.user)?;
    let executable = layout.executable()?;
    refuse_second(&layout)?;
    supervise::end_all(&layout).await; // or what a dead supervisor left would answer
    if up.foreground && std::env::current_exe()? != executable {
        let error = Command::new(&executable).args(std::env::args_os().skip(1)).exec();
        return Err(error).with_context(|| format!("cannot run {}", executable.display()));
    }
    if up.foreground {
        let mut supervised = pin!(supervise::run(&layout));
        tokio::select! {
            ended = &mut supervised => return ended,
            settled = settle(&up, &layout, &settings, Progress::new()) => if let Err(error) = settled {
                tracing::error!("{error:#}"); // what runs goes on: whoever started us decides
            },
        }
        return supervised.await;
    }
    let mut progress = Progress::new();
    progress.say("starting the supervisor");
    launch(&layout, &executable)?;
    settle(&up, &layout, &settings, progress).await
}

/// Once the processes are started: all that makes a cluster of them.
async fn settle(
    up: &Up,
    layout: &Layout,
    settings: &Settings,
    mut progress: Progress,
) -> Result<()> {
    let began = Instant::now();
    progress.say("waiting for the API server");
    let client = connect(layout, began).await?;
    if let Some(path) = &up.kubeconfig {
        copy_kubeconfig(layout, path)?;
    }
    if !settings.disables("kubelet") {
        progress.say("waiting for the node");
        node_ready(layout, &client, &settings.node_name, began).await?;
    }
    if !settings.disables("dns") {
        name_server(layout, &client, settings).await.context("the name server")?;
    }
    progress.done(&format!("the cluster is up ({:.1} s)", began.elapsed().as_secs_f64()));
    next_steps(layout, up);
    if up.demo {
        demo::run(&client, settings).await?;
    }
    Ok(())
}

/// Applied once per version: what a user deleted or took over is not brought back.
async fn name_server(layout: &Layout, client: &Client, settings: &Settings) -> Result<()> {
    let done = layout.path(concat!("addons/dns-", env!("CARGO_PKG_VERSION")));
    if done.exists() {
        return Ok(());
    }
    demo::apply(client, &dns::manifest(super::IMAGE, settings.dns, "cluster.local")).await?;
    write_private(&done, b"")?;
    Ok(())
}

/// Two clusters on the same data would be one too many.
pub(super) fn refuse_second(layout: &Layout) -> Result<()> {
    let running = super::status::pid(&layout.path("run/supervisor.pid"));
    running.map_or(Ok(()), |pid| {
        let dir = layout.dir().display();
        bail!("a cluster already runs on {dir} (pid {pid}): see `tiphys status`")
    })
}

pub(super) fn launch(layout: &Layout, executable: &Path) -> Result<()> {
    let log = supervise::log(&layout.path("log/supervisor.log"))?;
    let mut command = Command::new(executable);
    command.arg("supervise").arg("--data-dir").arg(layout.dir()).current_dir("/");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    sys::spawn::pass(&mut command, Vec::new());
    command.spawn().context("cannot start the supervisor")?;
    Ok(())
}

/// A client as the administrator, once the server answers.
async fn connect(layout: &Layout, began: Instant) -> Result<Client> {
    let path = layout.path("kubeconfig/admin");
    loop {
        if let Ok(kubeconfig) = Kubeconfig::read(&path) {
            let client =
                Client::new(kubeconfig.config(None)?.manager("tiphys").user_agent("tiphys"));
            let nodes = Api::<Node>::new(&client);
            if nodes.list(&client::Selection::default(), &client::Page::default()).await.is_ok() {
                return Ok(client);
            }
        }
        patience(layout, began, "the API server does not answer")?;
        sleep(Duration::from_millis(50)).await;
    }
}

pub(super) async fn node_ready(
    layout: &Layout,
    client: &Client,
    name: &str,
    began: Instant,
) -> Result<()> {
    let nodes = Api::<Node>::new(client);
    loop {
        let node = nodes.get(&Key::new("", name)).await;
        let ready = |node: &Node| {
            let condition = node.status().conditions().find(|own| own.type_() == "Ready");
            condition.is_some_and(|condition| condition.status() == "True")
        };
        if node.is_ok_and(|node| ready(&node)) {
            return Ok(());
        }
        patience(layout, began, "the node does not become ready")?;
        sleep(Duration::from_millis(50)).await;
    }
}

fn patience(layout: &Layout, began: Instant, what: &str) -> Result<()> {
    let supervisor = super::status::pid(&layout.path("run/supervisor.pid"));
    let gone = supervisor.is_none() && began.elapsed() > Duration::from_secs(3);
    if began.elapsed() < PATIENCE && !gone {
        return Ok(());
    }
    let last = |name: &str| {
        let text = fs::read_to_string(layout.path("log").join(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().map(|line| format!("\n  {name}: {line}")).collect::<String>()
    };
    let logs = ["supervisor.log", "control.log", "node.log"].map(last).concat();
    bail!("{what}; the logs in {} say:{logs}", layout.path("log").display())
}

fn copy_kubeconfig(layout: &Layout, to: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let content = fs::read(layout.path("kubeconfig/admin"))?;
    let mut file =
        fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(to)?;
    file.write_all(&content).with_context(|| format!("cannot write {}", to.display()))
}

fn next_steps(layout: &Layout, up: &Up) {
    let own = layout.path("kubeconfig/admin");
    let kubeconfig = up.kubeconfig.as_ref().unwrap_or(&own);
    let dir = if up.data_dir == Path::new(DEFAULT) {
        String::new()
    } else {
        format!(" --data-dir {}", layout.dir().display())
    };
    println!("\n  export KUBECONFIG={}", kubeconfig.display());
    println!("  tiphys kubectl get nodes");
    println!("  tiphys status{dir}     tiphys logs{dir}     tiphys down{dir}\n");
}

/// One line that changes, where somebody looks; lines, where nobody does.
struct Progress {
    live: bool,
}

impl Progress {
    fn new() -> Self {
        Self { live: std::io::stdout().is_terminal() }
    }

    fn say(&mut self, what: &str) {
        if self.live {
            print!("\r\x1b[K{what}…");
            let _ = std::io::stdout().flush();
        } else {
            println!("{what}");
        }
    }

    fn done(&mut self, what: &str) {
        if self.live {
            print!("\r\x1b[K");
        }
        println!("{what}");
    }
}
