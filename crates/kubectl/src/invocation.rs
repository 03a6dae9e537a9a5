//! The context of one run of a command: its flags, the kubeconfig and the server.

use std::{
    cell::{Cell, OnceCell},
    path::Path,
    time::Duration,
};

use client::Kubeconfig;
use object::{Clock as _, SystemClock, Value, quote::quote, yaml};

use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType, ParsedFlags},
    kubeconfig::{self, KubeconfigFiles},
    request_log::{self, RequestLog},
    resources::RestMapper,
    server::Server,
    stdio,
};

/// Values from environment variables, read once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub(crate) kubeconfig: String,
    pub(crate) home: String,
    pub(crate) editor: String,
    /// The diff program, with its arguments.
    pub(crate) external_diff: String,
    pub(crate) path: String,
    /// Path of the kuberc file, or `off`.
    pub(crate) kuberc: String,
    pub(crate) service_host: String,
    pub(crate) service_port: String,
    /// Whether exec and attach sessions use WebSockets, if the server supports them.
    pub(crate) websockets: bool,
    /// Whether port-forward tries WebSockets first.
    pub(crate) port_forward_websockets: bool,
    /// Data directory of a cluster on this host, which need not exist.
    pub(crate) data_dir: String,
}

/// Flags that every command accepts.
pub(crate) const GLOBAL_FLAGS: &[Flag] = &[
    Flag::text("kubeconfig"),
    Flag::text("kuberc"),
    Flag::text("context"),
    Flag::text("cluster"),
    Flag::text("user"),
    Flag::text("namespace").short('n'),
    Flag::text("server").short('s'),
    Flag::text("token"),
    Flag::text("username"),
    Flag::text("password"),
    Flag::text("as"),
    Flag::text("as-uid"),
    Flag::new("as-group", FlagType::StringArray),
    Flag::new("as-user-extra", FlagType::StringArray),
    Flag::text("certificate-authority"),
    Flag::text("client-certificate"),
    Flag::text("client-key"),
    Flag::bool("insecure-skip-tls-verify"),
    Flag::text("tls-server-name"),
    Flag::text("request-timeout").default("0"),
    Flag::text("cache-dir"),
    Flag::bool("disable-compression"),
    Flag::bool("match-server-version"),
    Flag::bool("warnings-as-errors"),
    Flag::new("v", FlagType::Int32).short('v'),
    Flag::bool("help").short('h'),
];

/// A running command.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) environment: &'a Environment,
    /// The full name of the command: `create secret generic`.
    pub(crate) command: String,
    pub(crate) flags: ParsedFlags,
    config: OnceCell<Value>,
    server: OnceCell<Server>,
    resources: OnceCell<RestMapper>,
    /// Number of YAML documents that were printed.
    documents: Cell<usize>,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(environment: &'a Environment, command: String, flags: ParsedFlags) -> Self {
        Self {
            environment,
            command,
            flags,
            config: OnceCell::new(),
            server: OnceCell::new(),
            resources: OnceCell::new(),
            documents: Cell::new(0),
        }
    }

    /// Prints a YAML document, separated from the previous one. Commands that make a printer for every object
    /// separate nothing.
    pub(crate) fn print_document(&self, text: &str) {
        let before = self.documents.replace(self.documents.get() + 1);
        let mut words = self.command.split(' ');
        let separates = match words.next() {
            Some("label" | "patch" | "taint") => false,
            Some("rollout") => words.next() == Some("history"),
            _ => true,
        };
        if before > 0 && separates {
            self.print("---\n");
        }
        self.print(text);
    }

    pub(crate) fn args(&self) -> &[String] {
        &self.flags.args
    }

    /// Prints to stdout.
    pub(crate) fn print(&self, text: &str) {
        self.out_bytes(text.as_bytes());
    }

    /// Writes bytes to stdout.
    #[expect(clippy::unused_self, reason = "a call is what speaks")]
    pub(crate) fn out_bytes(&self, bytes: &[u8]) {
        stdio::write(&mut std::io::stdout().lock(), bytes);
    }

    /// Prints a line to stderr.
    #[expect(clippy::unused_self, reason = "a call is what speaks")]
    pub(crate) fn print_err(&self, text: &str) {
        stdio::write(&mut std::io::stderr(), format!("{text}\n").as_bytes());
    }

    /// Prints the five "Couldn't get current server API group list" lines that upstream logs when discovery gets
    /// "connection refused".
    fn log_refused(&self, fail: &CommandError) {
        let refused = matches!(fail, CommandError::Raw(says) if says.contains(" was refused - "));
        let Ok(address) = self.address() else { return };
        let address = address.trim_end_matches('/');
        let host = address.split_once("://").map_or(address, |(_, host)| host);
        let host = host.replace("localhost:", "127.0.0.1:");
        for _ in 0..if refused { 5 } else { 0 } {
            self.log('E', &format!("\"Couldn't get current server API group list\" err=\"Get \\\"{address}/api?timeout=32s\\\": dial tcp {host}: connect: connection refused\""));
        }
    }

    /// Prints a warning in klog's format.
    pub(crate) fn log_warning(&self, text: &str) {
        self.log('W', text);
    }

    /// Prints a log line in klog's format.
    pub(crate) fn log(&self, level: char, text: &str) {
        self.print_err(&request_log::line(level, text));
    }

    /// The current time in seconds since 1970.
    #[expect(clippy::unused_self, reason = "a call is what knows the time")]
    pub(crate) fn now(&self) -> i64 {
        SystemClock.now()
    }

    pub(crate) fn usage(&self, says: impl Into<String>) -> CommandError {
        CommandError::usage(&self.command, says)
    }

    /// The kubeconfig files in use. A user who has none uses that of the cluster on this host, if it exists and is
    /// readable.
    pub(crate) fn files(&self) -> Result<KubeconfigFiles> {
        let files = self.own_files()?;
        if !files.files.is_empty() || !self.is_local() {
            return Ok(files);
        }
        Ok(self.local_files().ok().filter(|local| !local.files.is_empty()).unwrap_or(files))
    }

    fn own_files(&self) -> Result<KubeconfigFiles> {
        let flag = self.flags.global("kubeconfig");
        let paths = kubeconfig::paths(flag, &self.environment.kubeconfig, &self.environment.home);
        KubeconfigFiles::load(&paths, !flag.is_empty())
    }

    fn local_files(&self) -> Result<KubeconfigFiles> {
        KubeconfigFiles::load(
            &[Path::new(&self.environment.data_dir).join("kubeconfig/admin")],
            false,
        )
    }

    /// The merged kubeconfig.
    pub(crate) fn config(&self) -> Result<&Value> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let mut files = self.own_files()?;
        if files.files.is_empty() && self.is_local() {
            files = self.local_files()?;
        }
        let config = files.merged(true);
        Ok(self.config.get_or_init(|| config))
    }

    /// Whether neither a flag nor the environment selects a cluster.
    fn is_local(&self) -> bool {
        self.environment.kubeconfig.is_empty()
            && self.environment.service_host.is_empty()
            && self.flags.global("server").is_empty()
    }

    /// The current context: its name and content.
    pub(crate) fn context(&self) -> Result<(String, Value)> {
        let config = self.config()?;
        let given = self.flags.global("context");
        let name = if given.is_empty() {
            config["current-context"].as_str().unwrap_or_default()
        } else {
            given
        };
        let found = kubeconfig::entry(config, "contexts", "context", name).cloned();
        match found {
            Some(context) => Ok((name.to_owned(), context)),
            None if name.is_empty() => Ok((String::new(), Value::Null)),
            None if given.is_empty() => Err(CommandError::error(format!(
                "context was not found for specified context: {name}"
            ))),
            None => Err(CommandError::Raw(format!(
                "Error in configuration: context was not found for specified context: {name}"
            ))),
        }
    }

    /// Whether `--namespace` was given.
    pub(crate) fn namespace_given(&self) -> bool {
        !self.flags.global("namespace").is_empty()
    }

    /// The namespace from the flag, the current context, or `default`.
    pub(crate) fn namespace(&self) -> Result<String> {
        let given = self.flags.global("namespace");
        if !given.is_empty() {
            return Ok(given.to_owned());
        }
        let context = self.context()?.1;
        let set = context["namespace"].as_str().unwrap_or_default();
        Ok(if set.is_empty() { "default" } else { set }.to_owned())
    }

    /// The API server; connects at the first call.
    pub(crate) fn server(&self) -> Result<&Server> {
        if let Some(server) = self.server.get() {
            return Ok(server);
        }
        let server = self.connect()?;
        Ok(self.server.get_or_init(|| server))
    }

    /// Number of distinct warnings that the server sent.
    pub(crate) fn warnings(&self) -> usize {
        self.server.get().map_or(0, Server::warnings)
    }

    /// The resources of the server; runs discovery at the first call.
    pub(crate) fn resources(&self) -> Result<&RestMapper> {
        if let Some(resources) = self.resources.get() {
            return Ok(resources);
        }
        let resources =
            RestMapper::load(self.server()?).inspect_err(|fail| self.log_refused(fail))?;
        Ok(self.resources.get_or_init(|| resources))
    }

    /// The URL of the server, as in the kubeconfig.
    pub(crate) fn address(&self) -> Result<String> {
        Ok(self.effective_config()?["clusters"].items()[0]["cluster"]["server"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// A kubeconfig with one context, with the flags applied.
    fn effective_config(&self) -> Result<Value> {
        let context = self.context()?.1;
        let config = self.config()?;
        let named = |flag: &str, of: &str| match self.flags.global(flag) {
            "" => context[of].as_str().unwrap_or_default().to_owned(),
            given => given.to_owned(),
        };
        let (cluster_name, user_name) = (named("cluster", "cluster"), named("user", "user"));
        let found = kubeconfig::entry(config, "clusters", "cluster", &cluster_name).cloned();
        let mut cluster = found.unwrap_or_else(Value::object);
        let found = kubeconfig::entry(config, "users", "user", &user_name).cloned();
        if found.is_none() && !self.flags.global("user").is_empty() {
            return Err(CommandError::error(format!(
                "auth info {} does not exist",
                quote(&user_name)
            )));
        }
        let mut user = found.unwrap_or_else(Value::object);
        let take = |tree: &mut Value, flag: &str, name: &str| {
            if self.flags.is_set(flag) && !self.flags.global(flag).is_empty() {
                tree[name] = self.flags.global(flag).into();
            }
        };
        take(&mut cluster, "server", "server");
        if let Some(address) = cluster["server"].as_str()
            && !address.is_empty()
            && !address.contains("://")
        {
            cluster["server"] = format!("http://{address}").as_str().into();
        }
        take(&mut cluster, "certificate-authority", "certificate-authority");
        take(&mut cluster, "tls-server-name", "tls-server-name");
        if self.flags.is_true("insecure-skip-tls-verify") {
            cluster["insecure-skip-tls-verify"] = true.into();
            cluster.remove("certificate-authority");
            cluster.remove("certificate-authority-data");
        }
        for name in
            ["client-certificate", "client-key", "token", "username", "password", "as", "as-uid"]
        {
            take(&mut user, name, name);
        }
        self.check_credentials(&cluster_name, &user_name)?;
        let groups = self.flags.all("as-group");
        if !groups.is_empty() {
            let groups: Vec<Value> = groups.iter().map(|group| group.as_str().into()).collect();
            user["as-groups"] = Value::List(groups.into());
        }
        for extra in self.flags.all("as-user-extra") {
            let (name, value) = extra.split_once('=').unwrap_or((extra, ""));
            let mut values = user["as-user-extra"][name].items().to_vec();
            values.push(value.into());
            user["as-user-extra"][name] = Value::List(values.into());
        }
        if user["as"].is_null()
            && !(user["as-groups"].is_null()
                && user["as-uid"].is_null()
                && user["as-user-extra"].is_null())
        {
            return Err(CommandError::error(format!(
                "requesting uid, groups or user-extra for {user_name} without impersonating a user"
            )));
        }
        if cluster["server"].as_str().unwrap_or_default().is_empty() {
            if !self.flags.global("cluster").is_empty() {
                return Err(CommandError::error(format!(
                    "no server found for cluster {}",
                    quote(&cluster_name)
                )));
            }
            cluster["server"] = "http://localhost:8080".into();
        }
        let mut config = Value::object();
        kubeconfig::put_entry(&mut config, "clusters", "cluster", "c", cluster);
        kubeconfig::put_entry(&mut config, "users", "user", "u", user);
        let mut context = Value::object();
        context["cluster"] = "c".into();
        context["user"] = "u".into();
        kubeconfig::put_entry(&mut config, "contexts", "context", "x", context);
        config["current-context"] = "x".into();
        Ok(config)
    }

    /// Fails as upstream does if flags name unreadable files, or two authentication methods.
    fn check_credentials(&self, cluster: &str, user: &str) -> Result {
        for (flag, title, owner) in [
            ("certificate-authority", "certificate-authority", cluster),
            ("client-certificate", "client-cert", user),
            ("client-key", "client-key", user),
        ] {
            let file = self.flags.global(flag);
            if self.flags.is_set(flag)
                && !file.is_empty()
                && let Err(error) = std::fs::File::open(file)
            {
                return Err(CommandError::error(format!(
                    "unable to read {title} {file} for {owner} due to open {file}: {}",
                    crate::files::go_io_error(&error)
                )));
            }
        }
        if !self.flags.global("token").is_empty() && !self.flags.global("username").is_empty() {
            return Err(CommandError::error(format!(
                "more than one authentication method found for {user}; found [token basicAuth], only one is allowed"
            )));
        }
        Ok(())
    }

    fn connect(&self) -> Result<Server> {
        let timeout = self.timeout()?;
        let context = self.context()?;
        if context.0.is_empty()
            && !self.flags.is_set("server")
            && !self.environment.service_host.is_empty()
        {
            let port = self.environment.service_port.parse().unwrap_or(443);
            let address = format!("{}:{port}", self.environment.service_host);
            let config = client::Config::in_cluster(&self.environment.service_host, port)
                .map_err(CommandError::from)?;
            let log = self.request_log(&format!("https://{address}"));
            return Server::new(config.user_agent("kubectl"), address, log);
        }
        let tree = self.effective_config()?;
        let mut kubeconfig = Kubeconfig::default();
        kubeconfig.add(Path::new("config"), &yaml::to_yaml(&tree)).map_err(CommandError::from)?;
        let mut config = kubeconfig.config(None).map_err(CommandError::from)?.user_agent("kubectl");
        if let Some(timeout) = timeout {
            config = config.timeout(timeout);
        }
        let address = tree["clusters"].items()[0]["cluster"]["server"].as_str().unwrap_or_default();
        let log = self.request_log(address);
        let address = address
            .split_once("://")
            .map_or(address, |(_, rest)| rest)
            .trim_end_matches('/')
            .to_owned();
        Server::new(config, address, log)
    }

    fn request_log(&self, address: &str) -> RequestLog {
        let base = address.trim_end_matches('/').to_owned();
        RequestLog { level: self.flags.int("v"), base }
    }

    /// The value of `--request-timeout`, which also limits a watch.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>> {
        let text = self.flags.text("request-timeout");
        if text == "0" {
            return Ok(None);
        }
        let whole = text.parse::<u64>().map(Duration::from_secs).ok();
        let spelled = object::Duration::parse_nanos(text)
            .ok()
            .and_then(|n| u64::try_from(n).ok())
            .map(Duration::from_nanos);
        whole.or(spelled).map(|time| Some(time).filter(|time| !time.is_zero())).ok_or_else(|| {
            CommandError::error("Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)")
        })
    }
}
