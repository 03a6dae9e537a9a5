//! CNI plugins: runs the first plugin list of the configuration directory. The result is cached on disk, because
//! `remove` and `check` must pass it to the plugins again.

mod configuration;
mod invocation;
mod processes;
mod result;
mod result_cache;

pub use configuration::NetworkConfigList;

use crate::interface::POD_INTERFACE;
use crate::{AddResult, Attachment, Cni, Error, Result};
use configuration::{CniVersion, has_capability};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use invocation::{Command, Invocation};
use result_cache::{CachedResult, ResultCache};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use sys::netlink::{self, NetlinkFamily, NetworkNamespace, Socket, run_in_netns};

/// Paths of the plugins and their configuration.
#[derive(Debug, Clone)]
pub struct CniExecConfig {
    /// Directory with *.conflist, *.conf and *.json files; the first by name is used.
    pub conf_dir: PathBuf,
    /// Directories with plugin executables, in search order.
    pub bin_dirs: Vec<PathBuf>,
    /// Directory for cached results.
    pub state_dir: PathBuf,
    /// Timeout of one plugin.
    pub plugin_timeout: Duration,
    /// The cgroup below which each run of a plugin has a cgroup of its own.
    pub parent_cgroup: String,
}

/// A pod network that runs CNI plugins.
#[derive(Debug, Clone)]
pub struct CniExec {
    config: CniExecConfig,
    store: ResultCache,
}

impl CniExec {
    pub fn new(config: CniExecConfig) -> Self {
        let store = ResultCache::new(config.state_dir.join("results"));
        processes::kill_stale(&config.parent_cgroup);
        Self { config, store }
    }

    async fn add(&self, attachment: &Attachment) -> Result<AddResult> {
        let list = NetworkConfigList::load(&self.config.conf_dir)?;
        warn_missing_capabilities(&list, attachment);
        bring_up_loopback(attachment).await?;
        let mut previous = None;
        for plugin in &list.plugins {
            let input = list.plugin_config(plugin, &attachment.into(), previous.as_ref());
            let request = self.request(Command::Add, attachment, &input);
            previous = Some(
                invocation::run(&list.plugin_path(plugin, &self.config.bin_dirs)?, &request)
                    .await?,
            );
        }
        let result = previous.unwrap_or(Value::Null);
        let ips = result::addresses(&result, &attachment.netns)?;
        self.store.write(&CachedResult::new(attachment, &list, result))?;
        Ok(AddResult { ips, interface: POD_INTERFACE.to_owned() })
    }

    async fn remove(&self, attachment: &Attachment) -> Result<()> {
        // Uses the configuration of the `add`. If the `add` failed, none is cached, and the current one is used.
        let kept = match self.store.read(&attachment.sandbox_id)? {
            Some(kept) => kept,
            None => match NetworkConfigList::load(&self.config.conf_dir) {
                Ok(list) => CachedResult::new(attachment, &list, Value::Null),
                Err(_) => return Ok(()),
            },
        };
        for plugin in kept.list.plugins.iter().rev() {
            let input = kept.list.plugin_config(plugin, &kept.runtime_config, kept.prev_result());
            let mut request = self.request(Command::Del, attachment, &input);
            request.netns = Some(attachment.netns.clone()).filter(|path| path.exists());
            invocation::run(&kept.list.plugin_path(plugin, &self.config.bin_dirs)?, &request)
                .await?;
        }
        self.store.remove(&attachment.sandbox_id)
    }

    async fn check(&self, attachment: &Attachment) -> Result<()> {
        let not =
            || Error::NotConnected(attachment.sandbox_id.clone(), "no result is kept".to_owned());
        let kept = self.store.read(&attachment.sandbox_id)?.ok_or_else(not)?;
        if kept.list.disable_check || kept.list.version < CniVersion(0, 4, 0) {
            return Ok(());
        }
        for plugin in &kept.list.plugins {
            let input = kept.list.plugin_config(plugin, &kept.runtime_config, kept.prev_result());
            let request = self.request(Command::Check, attachment, &input);
            invocation::run(&kept.list.plugin_path(plugin, &self.config.bin_dirs)?, &request)
                .await?;
        }
        Ok(())
    }

    async fn status(&self) -> Result<()> {
        let list = NetworkConfigList::load(&self.config.conf_dir)?;
        for plugin in &list.plugins {
            let program = list.plugin_path(plugin, &self.config.bin_dirs)?;
            if list.version >= CniVersion(1, 1, 0) {
                let nobody = Attachment::default();
                let input = list.plugin_config(plugin, &(&nobody).into(), None);
                invocation::run(&program, &self.request(Command::Status, &nobody, &input)).await?;
            }
        }
        Ok(())
    }

    /// Removes cached sandboxes that no longer exist, then calls GC of plugins with CNI 1.1.
    async fn collect(&self, live: &BTreeSet<String>) -> Result<()> {
        for kept in self.store.all()? {
            if !live.contains(&kept.id) {
                self.remove(&kept.attachment()).await?;
            }
        }
        let Ok(list) = NetworkConfigList::load(&self.config.conf_dir) else { return Ok(()) };
        if list.version < CniVersion(1, 1, 0) || list.disable_gc {
            return Ok(());
        }
        let valid: Vec<Value> =
            live.iter().map(|id| json!({"containerID": id, "ifname": POD_INTERFACE})).collect();
        for plugin in &list.plugins {
            let nobody = Attachment::default();
            let mut input = list.plugin_config(plugin, &(&nobody).into(), None);
            if let Some(input) = input.as_object_mut() {
                for name in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
                    input.insert(name.to_owned(), Value::Array(valid.clone()));
                }
            }
            let request = self.request(Command::Gc, &nobody, &input);
            invocation::run(&list.plugin_path(plugin, &self.config.bin_dirs)?, &request).await?;
        }
        Ok(())
    }

    fn request(&self, command: Command, attachment: &Attachment, input: &Value) -> Invocation {
        Invocation {
            command,
            id: attachment.sandbox_id.clone(),
            netns: Some(attachment.netns.clone()),
            cni_args: cni_args(attachment),
            cni_path: self.config.bin_dirs.clone(),
            stdin: input.to_string(),
            deadline: self.config.plugin_timeout,
            parent_cgroup: self.config.parent_cgroup.clone(),
        }
    }
}

impl Cni for CniExec {
    fn add<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<AddResult>> {
        self.add(attachment).boxed()
    }

    fn remove<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>> {
        self.remove(attachment).boxed()
    }

    fn check<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>> {
        self.check(attachment).boxed()
    }

    fn status(&self) -> BoxFuture<'_, Result<()>> {
        self.status().boxed()
    }

    fn gc<'a>(&'a self, live: &'a BTreeSet<String>) -> BoxFuture<'a, Result<()>> {
        self.collect(live).boxed()
    }
}

/// `CNI_ARGS` with the pod's metadata, as kubelets pass it.
fn cni_args(attachment: &Attachment) -> String {
    if attachment.sandbox_id.is_empty() {
        return String::new();
    }
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
        attachment.namespace, attachment.name, attachment.sandbox_id, attachment.uid
    )
}

/// Brings up the loopback interface, which is the runtime's task, not a plugin's.
async fn bring_up_loopback(attachment: &Attachment) -> Result<()> {
    let path = attachment.netns.clone();
    let up = move || -> Result<()> {
        run_in_netns(&NetworkNamespace::open(&path)?, || -> Result<()> {
            let mut socket = Socket::open(NetlinkFamily::Route)?;
            let index = netlink::link(&mut socket, "lo")?.index;
            Ok(netlink::set_up(&mut socket, index)?)
        })?
    };
    tokio::task::spawn_blocking(up)
        .await
        .map_err(|e| Error::Io("network task".to_owned(), std::io::Error::other(e)))?
}

/// Logs a warning for settings that no plugin supports. It is no error, because some networks implement host ports by
/// other means.
fn warn_missing_capabilities(list: &NetworkConfigList, attachment: &Attachment) {
    let heard =
        |capability: &str| list.plugins.iter().any(|plugin| has_capability(plugin, capability));
    for (wished, capability) in [
        (!attachment.port_mappings.is_empty(), "portMappings"),
        (attachment.bandwidth.is_some(), "bandwidth"),
    ] {
        if wished && !heard(capability) {
            tracing::warn!(
                pod = attachment.name,
                namespace = attachment.namespace,
                network = list.name,
                capability,
                "no plugin of the network declares this capability"
            );
        }
    }
}
