//! Any network plugin, through the CNI protocol: the configuration folder's first
//! list of plugins, run one after the other, the last one's result kept on disk so
//! that `remove` and `check` can hand it back.

mod call;
mod configuration;
mod kept;
mod processes;
mod result;

pub use configuration::NetworkList;

use crate::interface::INSIDE;
use crate::{Addresses, Attachment, Cni, Error, Result};
use call::{Command, Request};
use configuration::Version;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kept::{Kept, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use sys::netlink::{self, Family, NetworkNamespace, Socket, within};

/// Where plugins and their configuration lie.
#[derive(Debug, Clone)]
pub struct ExecConfig {
    /// *.conflist, *.conf and *.json; the first by name counts.
    pub configuration: PathBuf,
    /// Folders of plugin programs, in search order.
    pub programs: Vec<PathBuf>,
    /// Where results are kept.
    pub directory: PathBuf,
    /// The longest that one plugin may run.
    pub deadline: Duration,
    /// The control group below which each run of a plugin has a group of its own.
    pub group: String,
}

/// The network of whatever plugins the folder names.
#[derive(Debug, Clone)]
pub struct Exec {
    config: ExecConfig,
    store: Store,
}

impl Exec {
    pub fn new(config: ExecConfig) -> Self {
        let store = Store::new(config.directory.join("results"));
        processes::end_stale(&config.group);
        Self { config, store }
    }

    async fn add(&self, attachment: &Attachment) -> Result<Addresses> {
        let list = NetworkList::load(&self.config.configuration)?;
        warn_unheard(&list, attachment);
        bring_up_loopback(attachment).await?;
        let mut previous = None;
        for plugin in &list.plugins {
            let input = list.input(plugin, &attachment.into(), previous.as_ref());
            let request = self.request(Command::Add, attachment, &input);
            previous =
                Some(call::run(&list.program(plugin, &self.config.programs)?, &request).await?);
        }
        let result = previous.unwrap_or(Value::Null);
        let ips = result::addresses(&result, &attachment.netns)?;
        self.store.write(&Kept::new(attachment, &list, result))?;
        Ok(Addresses { ips, interface: INSIDE.to_owned() })
    }

    async fn remove(&self, attachment: &Attachment) -> Result<()> {
        // The configuration of `add` counts; a sandbox whose `add` failed has none
        // kept, and what it left is removed with the present one.
        let kept = match self.store.read(&attachment.id)? {
            Some(kept) => kept,
            None => match NetworkList::load(&self.config.configuration) {
                Ok(list) => Kept::new(attachment, &list, Value::Null),
                Err(_) => return Ok(()),
            },
        };
        for plugin in kept.list.plugins.iter().rev() {
            let input = kept.list.input(plugin, &kept.wishes, kept.previous());
            let mut request = self.request(Command::Del, attachment, &input);
            request.netns = Some(attachment.netns.clone()).filter(|path| path.exists());
            call::run(&kept.list.program(plugin, &self.config.programs)?, &request).await?;
        }
        self.store.remove(&attachment.id)
    }

    async fn check(&self, attachment: &Attachment) -> Result<()> {
        let not = || Error::NotConnected(attachment.id.clone(), "no result is kept".to_owned());
        let kept = self.store.read(&attachment.id)?.ok_or_else(not)?;
        if kept.list.disable_check || kept.list.version < Version(0, 4, 0) {
            return Ok(());
        }
        for plugin in &kept.list.plugins {
            let input = kept.list.input(plugin, &kept.wishes, kept.previous());
            let request = self.request(Command::Check, attachment, &input);
            call::run(&kept.list.program(plugin, &self.config.programs)?, &request).await?;
        }
        Ok(())
    }

    async fn status(&self) -> Result<()> {
        let list = NetworkList::load(&self.config.configuration)?;
        for plugin in &list.plugins {
            let program = list.program(plugin, &self.config.programs)?;
            if list.version >= Version(1, 1, 0) {
                let nobody = Attachment::default();
                let input = list.input(plugin, &(&nobody).into(), None);
                call::run(&program, &self.request(Command::Status, &nobody, &input)).await?;
            }
        }
        Ok(())
    }

    /// Removes the kept sandboxes that are gone, then lets plugins of 1.1 collect
    /// what nobody kept.
    async fn collect(&self, live: &BTreeSet<String>) -> Result<()> {
        for kept in self.store.all()? {
            if !live.contains(&kept.id) {
                self.remove(&kept.attachment()).await?;
            }
        }
        let Ok(list) = NetworkList::load(&self.config.configuration) else { return Ok(()) };
        if list.version < Version(1, 1, 0) || list.disable_gc {
            return Ok(());
        }
        let valid: Vec<Value> =
            live.iter().map(|id| json!({"containerID": id, "ifname": INSIDE})).collect();
        for plugin in &list.plugins {
            let nobody = Attachment::default();
            let mut input = list.input(plugin, &(&nobody).into(), None);
            input["cni.dev/valid-attachments"] = Value::Array(valid.clone());
            input["cni.dev/attachments"] = Value::Array(valid.clone());
            let request = self.request(Command::Gc, &nobody, &input);
            call::run(&list.program(plugin, &self.config.programs)?, &request).await?;
        }
        Ok(())
    }

    fn request(&self, command: Command, attachment: &Attachment, input: &Value) -> Request {
        Request {
            command,
            id: attachment.id.clone(),
            netns: Some(attachment.netns.clone()),
            arguments: arguments(attachment),
            path: self.config.programs.clone(),
            input: input.to_string(),
            deadline: self.config.deadline,
            group: self.config.group.clone(),
        }
    }
}

impl Cni for Exec {
    fn add<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<Addresses>> {
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

    fn collect<'a>(&'a self, live: &'a BTreeSet<String>) -> BoxFuture<'a, Result<()>> {
        self.collect(live).boxed()
    }
}

/// What kubelets tell plugins about the pod.
fn arguments(attachment: &Attachment) -> String {
    if attachment.id.is_empty() {
        return String::new();
    }
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
        attachment.namespace, attachment.name, attachment.id, attachment.uid
    )
}

/// The loopback interface is the runtime's work, not a plugin's.
async fn bring_up_loopback(attachment: &Attachment) -> Result<()> {
    let path = attachment.netns.clone();
    let up = move || -> Result<()> {
        within(&NetworkNamespace::open(&path)?, || -> Result<()> {
            let mut socket = Socket::open(Family::Route)?;
            let index = netlink::link(&mut socket, "lo")?.index;
            Ok(netlink::set_up(&mut socket, index)?)
        })?
    };
    tokio::task::spawn_blocking(up)
        .await
        .map_err(|e| Error::Io("network task".to_owned(), std::io::Error::other(e)))?
}

/// Some networks serve host ports by their own means, so this is no error.
fn warn_unheard(list: &NetworkList, attachment: &Attachment) {
    let heard = |capability: &str| {
        list.plugins.iter().any(|p| p["capabilities"][capability].as_bool() == Some(true))
    };
    for (wished, capability) in [
        (!attachment.ports.is_empty(), "portMappings"),
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
