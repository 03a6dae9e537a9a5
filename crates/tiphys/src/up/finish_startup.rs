//! The second half of `up`: waits until the started processes have become a ready cluster.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use api::core::Node;
use client::{Api, Client, Kubeconfig};
use object::NamespacedName;
use tokio::time::{Instant, sleep};

use super::{
    ClusterConfig, DataDir, bootstrap, cluster_location, demo, failures,
    layout::write_private,
    notify,
    progress::{self, Progress},
    start::{UpArgs, copy_kubeconfig},
    status, supervise,
};

/// Timeout of a start.
const LONGEST_START: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_secs(30);
const HANGUP: i32 = 1;
/// The context of this cluster in the administrator's kubeconfig. Which context is the current one is up to the
/// administrator.
pub(super) const ADMIN_CONTEXT: &str = "kubernetes-admin@tiphys";

/// The supervisor that this process has started.
pub(super) struct Supervisor {
    child: Child,
    log: PathBuf,
    /// Length of the log before the start.
    from: u64,
}

impl Supervisor {
    /// Starts the supervisor in the background.
    pub(super) fn launch(layout: &DataDir, executable: &Path) -> Result<Self> {
        failures::clear(layout);
        let path = layout.path("log/supervisor.log");
        let log = supervise::log(&path)?;
        let from = log.metadata().map_or(0, |about| about.len());
        let mut command = Command::new(executable);
        command.arg("supervise").arg("--data-dir").arg(layout.dir()).current_dir("/");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        sys::spawn::pass_fds(&mut command, Vec::new());
        let child = command.spawn().context("cannot start the supervisor")?;
        Ok(Self { child, log: path, from })
    }

    /// Why the supervisor has exited, if it has.
    fn failure(&mut self) -> Option<String> {
        let ended = self.child.try_wait().ok()??;
        let said = failures::last_line(&self.log, self.from);
        let said = said.unwrap_or_else(|| format!("it exited with {ended} and logged nothing"));
        Some(said.strip_prefix("supervise: ").unwrap_or(&said).to_owned())
    }
}

/// Waits for parts of the cluster to become ready; fails at once when a process cannot start.
struct Waiting<'a> {
    layout: &'a DataDir,
    supervisor: Option<Supervisor>,
    began: Instant,
}

impl Waiting<'_> {
    async fn pause(&mut self, what: &str) -> Result<()> {
        if let Some(why) = failures::find(self.layout) {
            bail!("{why}");
        }
        if let Some(why) = self.supervisor.as_mut().and_then(Supervisor::failure) {
            bail!("{why}");
        }
        ensure!(
            self.began.elapsed() < LONGEST_START,
            "{what} within {} s: see `tiphys logs{}`",
            LONGEST_START.as_secs(),
            cluster_location::flags(self.layout)
        );
        sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    /// Returns a client of the administrator as soon as the API server responds.
    async fn connect(&mut self) -> Result<Client> {
        loop {
            if let Some(client) = administrator(self.layout).await {
                return Ok(client);
            }
            self.pause("the API server does not respond").await?;
        }
    }

    async fn node_ready(&mut self, client: &Client, name: &str) -> Result<()> {
        let nodes = Api::<Node>::new(client);
        let ready = |node: &Node| {
            let condition = node.status().conditions().find(|own| own.type_() == "Ready");
            condition.is_some_and(|condition| condition.status() == "True")
        };
        while !nodes.get(&NamespacedName::new("", name)).await.is_ok_and(|node| ready(&node)) {
            self.pause("the node does not become ready").await?;
        }
        Ok(())
    }
}

/// A client of the administrator, if the API server responds.
pub(crate) async fn administrator(layout: &DataDir) -> Option<Client> {
    let kubeconfig = Kubeconfig::read(&layout.path("kubeconfig/admin")).ok()?;
    let config = kubeconfig.config(Some(ADMIN_CONTEXT)).ok()?;
    let client = Client::new(config.manager("tiphys").user_agent("tiphys"));
    let nodes = Api::<Node>::new(&client);
    let answered = nodes.list(&client::Selectors::default(), &client::ListParams::default()).await;
    answered.is_ok().then_some(client)
}

/// Waits for the API server, the node and the cluster DNS, and prints the next steps.
pub(super) async fn finish_startup(
    up: &UpArgs,
    layout: &DataDir,
    settings: &ClusterConfig,
    mut progress: Progress,
    supervisor: Option<Supervisor>,
) -> Result<()> {
    let began = Instant::now();
    let mut waiting = Waiting { layout, supervisor, began };
    progress.update("waiting for the API server");
    let client = waiting.connect().await?;
    settings.note_applied(layout)?;
    once(layout, "node-rights", async || bootstrap::grant_node_rights(&client).await)
        .await
        .context("the rights of nodes")?;
    if let Some(path) = &up.kubeconfig {
        copy_kubeconfig(layout, path)?;
    }
    if !settings.is_disabled("kubelet") {
        progress.update("waiting for the node");
        waiting.node_ready(&client, &settings.node_name).await?;
    }
    if !settings.is_disabled("dns") {
        let manifest = dns::manifest(super::IMAGE, settings.dns, "cluster.local");
        once(layout, "dns", async || demo::apply(&client, &manifest).await)
            .await
            .context("the name server")?;
    }
    progress.done(&format!("the cluster is up ({:.1} s)", began.elapsed().as_secs_f64()));
    notify::ready();
    next_steps(layout, up);
    if up.demo {
        demo::run(&client, settings).await?;
    }
    Ok(())
}

/// The remaining work of `up` for a cluster that already runs with these settings.
pub(super) async fn again(up: &UpArgs, layout: &DataDir, settings: &ClusterConfig) -> Result<()> {
    let mut waiting = Waiting { layout, supervisor: None, began: Instant::now() };
    let client = waiting.connect().await?;
    if let Some(path) = &up.kubeconfig {
        copy_kubeconfig(layout, path)?;
    }
    next_steps(layout, up);
    if up.demo {
        demo::run(&client, settings).await?;
    }
    Ok(())
}

/// Waits until a node that has joined is ready.
pub(super) async fn joined(
    layout: &DataDir,
    client: &Client,
    settings: &ClusterConfig,
    supervisor: Option<Supervisor>,
) -> Result<()> {
    let began = Instant::now();
    let mut waiting = Waiting { layout, supervisor, began };
    waiting.node_ready(client, &settings.node_name).await?;
    notify::ready();
    let took = began.elapsed().as_secs_f64();
    progress::print(&format!("{} has joined ({took:.1} s)\n", settings.node_name));
    Ok(())
}

/// Tells the supervisor to restart both processes, and waits until the old ones have exited.
pub(super) async fn reload(layout: &DataDir, supervisor: i32) -> Result<()> {
    let parts = || ["control", "node"].map(|part| status::processes(layout, part)).concat();
    let before = parts();
    failures::clear(layout);
    sys::process::kill(supervisor, HANGUP).context("cannot signal the supervisor")?;
    let began = Instant::now();
    while parts().iter().any(|pid| before.contains(pid)) {
        ensure!(began.elapsed() < LONGEST_START, "what runs does not end");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Stops the supervisor with SIGTERM, and waits until it has exited.
pub(super) async fn stop_supervisor(layout: &DataDir) -> Result<()> {
    let noted = status::pid(&layout.path("run/supervisor.pid"));
    for pid in noted.into_iter().chain(status::processes(layout, "supervise")) {
        let _ = sys::process::kill(pid, 15); // it may have exited already
        let began = Instant::now();
        while status::lives(pid) {
            ensure!(began.elapsed() < GRACE, "the supervisor (pid {pid}) does not end");
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Applies built-in objects, once per version: those that a user has deleted or changed are not restored.
async fn once(layout: &DataDir, name: &str, apply: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let done = layout.path(&format!("addons/{name}-{}", env!("CARGO_PKG_VERSION")));
    if done.exists() {
        return Ok(());
    }
    apply().await?;
    write_private(&done, b"")
}

fn next_steps(layout: &DataDir, up: &UpArgs) {
    let own = layout.path("kubeconfig/admin");
    let kubeconfig = up.kubeconfig.as_ref().unwrap_or(&own);
    let flags = cluster_location::flags(layout);
    progress::print(&format!(
        "\n  export KUBECONFIG={}\n  tiphys kubectl get nodes\n  \
         tiphys status{flags}     tiphys logs{flags}     tiphys down{flags}\n\n",
        kubeconfig.display()
    ));
}
