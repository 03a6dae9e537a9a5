//! Kubeconfig files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use object::{Value, yaml};

use crate::{
    Auth, Config, Error, Proxy, TcpConnector, TlsOptions, UnixConnector,
    exec::ExecCredentialPlugin, oidc::OidcTokenSource, proxy_env::ProxyEnv, tls::Pem,
};

/// One or several files, merged: of entries with the same name the first counts.
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    files: Vec<(PathBuf, Value)>,
}

impl Kubeconfig {
    /// Adds a file; relative paths in it are relative to `path`.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let tree = yaml::from_yaml(text)
            .map_err(|error| Error::Invalid(format!("{}: {error}", path.display())))?;
        self.files.push((path.to_owned(), tree));
        Ok(())
    }

    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Invalid(format!("{}: {error}", path.display())))?;
        let mut this = Self::default();
        this.add(path, &text)?;
        Ok(this)
    }

    pub fn current_context(&self) -> Option<&str> {
        let texts = self.files.iter().filter_map(|(_, tree)| tree["current-context"].as_str());
        texts.into_iter().find(|text| !text.is_empty())
    }

    /// The client configuration of a context; `None` for the current one.
    pub fn config(&self, context: Option<&str>) -> Result<Config, Error> {
        self.config_of(context, true)
    }

    /// Like `config`, without the user's credentials.
    pub fn anonymous_config(&self, context: Option<&str>) -> Result<Config, Error> {
        self.config_of(context, false)
    }

    fn config_of(&self, context: Option<&str>, known: bool) -> Result<Config, Error> {
        let name = context.or(self.current_context()).unwrap_or_default();
        let (_, context) = self
            .entry("contexts", "context", name)
            .ok_or_else(|| Error::Invalid(format!("context {name:?} does not exist")))?;
        let part = |of: &str| context[of].as_str().unwrap_or_default();
        let cluster = part("cluster");
        let (folder, cluster) = self
            .entry("clusters", "cluster", cluster)
            .ok_or_else(|| Error::Invalid(format!("cluster {cluster:?} does not exist")))?;
        let cluster = Cluster { folder, tree: cluster };
        let user = match part("user") {
            name if name.is_empty() || !known => {
                User { folder, file: folder, name: "", tree: &object::NULL }
            }
            name => {
                let missing = || Error::Invalid(format!("auth info {name:?} does not exist"));
                let (folder, tree) = self.entry("users", "user", name).ok_or_else(missing)?;
                let file = self.file("users", name).unwrap_or(folder);
                User { folder, file, name, tree }
            }
        };
        let config = connect(&cluster, &user)?;
        Ok(config.namespace(part("namespace")).headers(user.impersonation()?))
    }

    fn file(&self, list: &str, name: &str) -> Option<&Path> {
        let is = |entry: &Value| entry["name"].as_str() == Some(name);
        let found = self.files.iter().find(|(_, tree)| tree[list].items().iter().any(is));
        found.map(|(path, _)| &**path)
    }

    fn entry(&self, list: &str, of: &str, name: &str) -> Option<(&Path, &Value)> {
        self.files.iter().find_map(|(path, tree)| {
            let found = tree[list].items().iter().find(|e| e["name"].as_str() == Some(name))?;
            Some((path.parent().unwrap_or(Path::new("")), &found[of]))
        })
    }
}

struct Cluster<'a> {
    folder: &'a Path,
    tree: &'a Value,
}

struct User<'a> {
    folder: &'a Path,
    /// The file that contains the user, and the user's name in it.
    file: &'a Path,
    name: &'a str,
    tree: &'a Value,
}

fn connect(cluster: &Cluster<'_>, user: &User<'_>) -> Result<Config, Error> {
    let server = cluster.tree["server"].as_str().unwrap_or_default();
    let auth = user.auth(cluster)?;
    if let Some(path) = server.strip_prefix("unix://") {
        return Ok(Config::new(Arc::new(UnixConnector(path.into()))).auth(auth));
    }
    let full = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let wrong = || Error::Invalid(format!("{server:?} is not the address of a server"));
    let uri: Uri = full.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
    let base = uri.path().trim_end_matches('/').to_owned();
    let (tls, port) = match uri.scheme_str() {
        Some("https") => (Some(cluster.tls(user, auth.clone())?), 443),
        Some("http") => (None, 80),
        _ => return Err(wrong()),
    };
    let port = uri.port_u16().unwrap_or(port);
    let proxy = match cluster.tree["proxy-url"].as_str().filter(|url| !url.is_empty()) {
        Some(url) => Some(Proxy::parse(url)?),
        None => ProxyEnv::from_process().proxy(tls.is_some(), &host, port)?,
    };
    let tcp = TcpConnector::new(&host, port, tls.map(Arc::new)).with_proxy(proxy);
    Ok(Config { base, ..Config::new(Arc::new(tcp)).auth(auth) })
}

impl Cluster<'_> {
    /// The cluster information for credential plugins with `provideClusterInfo`.
    fn exec_info(&self) -> Result<Value, Error> {
        let mut told = Value::object();
        for name in ["server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"] {
            if !self.tree[name].is_null() {
                told[name] = self.tree[name].clone();
            }
        }
        let authorities = match pem(self.folder, self.tree, "certificate-authority")? {
            Some(Pem::Data(data)) => Some(data),
            Some(Pem::File(path)) => Some(
                std::fs::read(&path)
                    .map_err(|error| Error::Invalid(format!("{}: {error}", path.display())))?,
            ),
            None => None,
        };
        if let Some(data) = authorities {
            told["certificate-authority-data"] = BASE64_STANDARD.encode(data).into();
        }
        let ours = |one: &&Value| one["name"].as_str() == Some("client.authentication.k8s.io/exec");
        if let Some(extension) = self.tree["extensions"].items().iter().find(ours) {
            told["config"] = extension["extension"].clone();
        }
        Ok(told)
    }

    fn tls(&self, user: &User<'_>, auth: Auth) -> Result<TlsOptions, Error> {
        let certificate = pem(user.folder, user.tree, "client-certificate")?;
        let key = pem(user.folder, user.tree, "client-key")?;
        let pair = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::Invalid("a client certificate needs its key".into())),
        };
        Ok(TlsOptions {
            ca: pem(self.folder, self.tree, "certificate-authority")?,
            pair,
            server_name: self.tree["tls-server-name"].as_str().map(str::to_owned),
            insecure: self.tree["insecure-skip-tls-verify"].as_bool() == Some(true),
            auth,
        })
    }
}

impl User<'_> {
    fn auth(&self, cluster: &Cluster<'_>) -> Result<Auth, Error> {
        let text = |name: &str| self.tree[name].as_str().filter(|text| !text.is_empty());
        let provider = &self.tree["auth-provider"];
        if !provider.is_null() {
            return Ok(Auth::TokenSource(Arc::new(OidcTokenSource::parse(
                provider, self.file, self.name,
            )?)));
        }
        if let Some(file) = text("tokenFile") {
            return Ok(Auth::TokenFile(self.folder.join(file)));
        }
        if let Some(token) = text("token") {
            return Ok(Auth::Token(token.into()));
        }
        if let Some(user) = text("username") {
            let password = text("password").unwrap_or_default().into();
            return Ok(Auth::Basic { user: user.into(), password });
        }
        let exec = &self.tree["exec"];
        if exec.is_null() {
            return Ok(Auth::None);
        }
        Ok(Auth::Exec(Arc::new(ExecCredentialPlugin::parse(
            exec,
            self.folder,
            cluster.exec_info()?,
        )?)))
    }

    fn impersonation(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let bad = || Error::Invalid(format!("{name}: {value:?} is not a valid header value"));
            let name = HeaderName::try_from(name).map_err(|_| bad())?;
            headers.append(name, HeaderValue::try_from(value).map_err(|_| bad())?);
            Ok::<_, Error>(())
        };
        let texts = |value: &Value| -> Vec<String> {
            value.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        if let Some(user) = self.tree["as"].as_str() {
            add("impersonate-user", user)?;
        }
        if let Some(uid) = self.tree["as-uid"].as_str() {
            add("impersonate-uid", uid)?;
        }
        for group in texts(&self.tree["as-groups"]) {
            add("impersonate-group", &group)?;
        }
        for (name, values) in self.tree["as-user-extra"].entries() {
            for value in texts(values) {
                add(&format!("impersonate-extra-{}", escaped(name)), &value)?;
            }
        }
        Ok(headers)
    }
}

/// Escapes a name for use in a header name.
fn escaped(name: &str) -> String {
    let legal = |c: u8| c.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&c);
    let one = |c: u8| {
        if legal(c) { char::from(c).to_ascii_lowercase().to_string() } else { format!("%{c:02X}") }
    };
    name.bytes().map(one).collect()
}

/// The data of `NAME-data`, or else the file of `NAME`.
fn pem(folder: &Path, tree: &Value, name: &str) -> Result<Option<Pem>, Error> {
    if let Some(data) = tree[&*format!("{name}-data")].as_str().filter(|text| !text.is_empty()) {
        let data = BASE64_STANDARD
            .decode(data)
            .map_err(|error| Error::Invalid(format!("{name}-data: {error}")))?;
        return Ok(Some(Pem::Data(data)));
    }
    let file = tree[name].as_str().filter(|text| !text.is_empty());
    Ok(file.map(|file| Pem::File(folder.join(file))))
}
