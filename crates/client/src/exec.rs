//! Credential plugins (client.authentication.k8s.io/v1).

use std::{fmt, io::IsTerminal, path::Path, process::Stdio, sync::Arc, time::Duration};

use object::{Clock, SystemClock, Time, Value, from_json, to_json};
use tokio::{io::AsyncReadExt, process::Command, sync::Mutex, time::timeout};

use crate::Error;

const PLUGIN_TIMEOUT: Duration = Duration::from_mins(1);
const LARGEST: u64 = 1 << 20;

/// A credential plugin and its cached credential.
pub struct ExecCredentialPlugin {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub api_version: String,
    pub install_hint: String,
    /// Whether the plugin may interact with the user.
    pub interactive: Interactive,
    /// The cluster information for plugins with `provideClusterInfo`.
    pub cluster: Option<Value>,
    pub clock: Arc<dyn Clock>,
    cached: Mutex<Option<Credential>>,
}

/// Whether a plugin may interact with the user (`interactiveMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interactive {
    Never,
    /// If stdin is a terminal.
    IfAvailable,
    /// Stdin must be a terminal.
    Always,
}

/// A credential that a plugin returned.
#[derive(Clone, Default)]
pub(crate) struct Credential {
    pub(crate) token: Option<String>,
    pub(crate) pair: Option<(Vec<u8>, Vec<u8>)>,
    expires: Option<i64>,
}

impl fmt::Debug for ExecCredentialPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exec({})", self.command)
    }
}

impl ExecCredentialPlugin {
    /// Parses the `exec` section of a kubeconfig user.
    pub(crate) fn parse(tree: &Value, folder: &Path, cluster: Value) -> Result<Self, Error> {
        let text = |name: &str| tree[name].as_str().unwrap_or_default().to_owned();
        let api_version = text("apiVersion");
        if !matches!(
            &*api_version,
            "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1"
        ) {
            return Err(Error::Invalid(format!("exec plugin: invalid apiVersion {api_version:?}")));
        }
        if text("command").is_empty() {
            return Err(Error::Invalid("exec plugin: command must be specified".into()));
        }
        let interactive = match (&*text("interactiveMode"), &*api_version) {
            ("Never", _) => Interactive::Never,
            ("IfAvailable", _) | ("", "client.authentication.k8s.io/v1beta1") => {
                Interactive::IfAvailable
            }
            ("Always", _) => Interactive::Always,
            ("", _) => {
                let why = "exec plugin: interactiveMode must be specified to use exec \
                           authentication plugin";
                return Err(Error::Invalid(why.into()));
            }
            (other, _) => {
                let why = format!("exec plugin: invalid interactiveMode {other:?}");
                return Err(Error::Invalid(why));
            }
        };
        // A path is relative to the kubeconfig; a name is searched in PATH.
        let command = text("command");
        let command = match command.contains('/') {
            true => folder.join(command).to_string_lossy().into_owned(),
            false => command,
        };
        let entry = |pair: &Value| {
            let part = |name: &str| pair[name].as_str().unwrap_or_default().to_owned();
            (part("name"), part("value"))
        };
        Ok(Self {
            command,
            args: tree["args"].items().iter().filter_map(Value::as_str).map(Into::into).collect(),
            env: tree["env"].items().iter().map(entry).collect(),
            api_version,
            install_hint: text("installHint"),
            interactive,
            cluster: (tree["provideClusterInfo"].as_bool() == Some(true)).then_some(cluster),
            clock: Arc::new(SystemClock),
            cached: Mutex::default(),
        })
    }

    /// The credential, cached until it expires.
    pub(crate) async fn credential(&self) -> Result<Credential, Error> {
        let mut known = self.cached.lock().await; // held while the plugin runs, so that it runs once
        if let Some(credential) = &*known
            && credential.expires.is_none_or(|end| self.clock.now() < end)
        {
            return Ok(credential.clone());
        }
        let credential = self.run().await?;
        *known = Some(credential.clone());
        Ok(credential)
    }

    pub(crate) async fn forget(&self) {
        *self.cached.lock().await = None;
    }

    async fn run(&self) -> Result<Credential, Error> {
        let failed = |why: &dyn fmt::Display| {
            let hint = if self.install_hint.is_empty() { "" } else { "\n" };
            let Self { command, install_hint, .. } = self;
            Error::Invalid(format!("getting credentials: {command}: {why}{hint}{install_hint}"))
        };
        let talks = self.is_interactive().map_err(|why| failed(&why))?;
        let stdin = if talks { Stdio::inherit() } else { Stdio::null() };
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .env("KUBERNETES_EXEC_INFO", self.info(talks))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let stdout = child.stdout.take().ok_or_else(|| failed(&"no output"))?;
        let mut said = Vec::new();
        let mut limited = stdout.take(LARGEST);
        let run = async {
            limited.read_to_end(&mut said).await?;
            child.wait().await
        };
        let ended = timeout(PLUGIN_TIMEOUT, run).await.map_err(|_| failed(&"it takes too long"))?;
        let ended = ended.map_err(|error| failed(&error))?;
        if !ended.success() {
            return Err(failed(&ended));
        }
        read(&said, &self.api_version).map_err(|why| failed(&why))
    }

    /// Whether the plugin can interact with the user, if it may.
    fn is_interactive(&self) -> Result<bool, &'static str> {
        let there = std::io::stdin().is_terminal();
        match self.interactive {
            Interactive::Never => Ok(false),
            Interactive::IfAvailable => Ok(there),
            Interactive::Always if there => Ok(true),
            Interactive::Always => Err("it must talk with a user, but stdin is not a terminal"),
        }
    }

    fn info(&self, talks: bool) -> String {
        let mut info = Value::object();
        info["apiVersion"] = (&*self.api_version).into();
        info["kind"] = "ExecCredential".into();
        info["spec"]["interactive"] = talks.into();
        if let Some(cluster) = &self.cluster {
            info["spec"]["cluster"] = cluster.clone();
        }
        String::from_utf8_lossy(&to_json(&info)).into_owned()
    }
}

fn read(said: &[u8], api_version: &str) -> Result<Credential, String> {
    let tree = from_json(said).map_err(|error| format!("decoding stdout: {error}"))?;
    if tree["apiVersion"].as_str() != Some(api_version) {
        return Err(format!("the plugin is configured to use {api_version}"));
    }
    let status = &tree["status"];
    let text = |name: &str| status[name].as_str().filter(|text| !text.is_empty());
    let pair = match (text("clientCertificateData"), text("clientKeyData")) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err("certificate and key must come together".into()),
    };
    let token = text("token").map(str::to_owned);
    if token.is_none() && pair.is_none() {
        return Err("neither a token nor a certificate came".into());
    }
    Ok(Credential {
        token,
        pair,
        expires: text("expirationTimestamp").and_then(Time::parse_seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(script: &str) -> ExecCredentialPlugin {
        let mut tree = Value::object();
        tree["apiVersion"] = "client.authentication.k8s.io/v1".into();
        tree["command"] = "sh".into();
        tree["interactiveMode"] = "Never".into();
        tree["args"] = ["-c", script].into_iter().collect();
        ExecCredentialPlugin::parse(&tree, Path::new(""), Value::Null).unwrap()
    }

    #[tokio::test]
    async fn a_program_gives_a_token_once() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!(
            r#"echo x >> {}; echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"secret"}}}}'"#,
            count.display()
        );
        let exec = exec(&script);
        for _ in 0..2 {
            assert_eq!(exec.credential().await.unwrap().token.unwrap(), "secret");
        }
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
        exec.forget().await;
        exec.credential().await.unwrap();
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\n");
    }

    #[test]
    fn how_it_may_talk_must_be_said() {
        let mut tree = Value::object();
        tree["apiVersion"] = "client.authentication.k8s.io/v1".into();
        tree["command"] = "./give".into();
        let parse =
            |tree: &Value| ExecCredentialPlugin::parse(tree, Path::new("/home/me"), Value::Null);
        assert!(parse(&tree).is_err());
        tree["interactiveMode"] = "Sometimes".into();
        assert!(parse(&tree).is_err());
        tree["interactiveMode"] = "IfAvailable".into();
        assert_eq!(parse(&tree).unwrap().command, "/home/me/./give");
        tree["interactiveMode"] = Value::Null;
        tree["apiVersion"] = "client.authentication.k8s.io/v1beta1".into();
        assert_eq!(parse(&tree).unwrap().interactive, Interactive::IfAvailable);
    }

    #[tokio::test]
    async fn failures_are_told() {
        assert!(exec("exit 3").credential().await.is_err());
        assert!(exec("echo '{}'").credential().await.is_err());
    }
}
