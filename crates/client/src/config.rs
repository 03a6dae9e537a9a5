//! Configuration of a client.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use http::HeaderMap;

use crate::{
    Auth, Connector, Error, Pem, PipeConnector, TcpConnector, TlsOptions, UnixConnector,
    proxy_env::ProxyEnv,
};

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TIMEOUT: Duration = Duration::from_mins(1);

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct Config {
    pub connect: Arc<dyn Connector>,
    /// Base path of the server's URL; usually empty.
    pub base: String,
    pub auth: Auth,
    /// Sent with every request.
    pub headers: HeaderMap,
    pub user_agent: String,
    /// The field manager of writes; if empty, the server derives it from the user agent.
    pub field_manager: String,
    /// The namespace of objects that specify none.
    pub namespace: String,
    /// Timeout of all requests but watches.
    pub timeout: Duration,
    /// Whether a request that the server answers with Retry-After is sent again, within the timeout.
    pub retries: bool,
    /// Handler of the server's warnings; they are logged if there is none.
    pub on_warning: Option<OnWarning>,
}

/// A handler of the server's warnings.
#[derive(Clone)]
pub struct OnWarning(pub(crate) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for OnWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWarning")
    }
}

impl Config {
    pub fn new(connect: Arc<dyn Connector>) -> Self {
        Self {
            connect,
            base: String::new(),
            auth: Auth::None,
            headers: HeaderMap::new(),
            user_agent: concat!("tiphys/", env!("CARGO_PKG_VERSION")).into(),
            field_manager: String::new(),
            namespace: "default".into(),
            timeout: TIMEOUT,
            retries: true,
            on_warning: None,
        }
    }

    pub fn unix(path: &Path) -> Self {
        Self::new(Arc::new(UnixConnector(path.to_owned())))
    }

    pub fn pipe(pipe: PipeConnector) -> Self {
        Self::new(Arc::new(pipe))
    }

    /// The configuration of the pod's service account. `host` and `port` come from KUBERNETES_SERVICE_HOST and
    /// KUBERNETES_SERVICE_PORT.
    pub fn in_cluster(host: &str, port: u16) -> Result<Self, Error> {
        let folder = Path::new(SERVICE_ACCOUNT);
        let auth = Auth::TokenFile(folder.join("token"));
        if !folder.join("token").exists() {
            return Err(Error::Invalid(format!("{SERVICE_ACCOUNT}: there is no token")));
        }
        let authorities = Some(Pem::File(folder.join("ca.crt")));
        let tls = TlsOptions { ca: authorities, ..TlsOptions::default() };
        let namespace = std::fs::read_to_string(folder.join("namespace")).unwrap_or_default();
        let proxy = ProxyEnv::from_process().proxy(true, host, port)?;
        let tcp = TcpConnector::new(host, port, Some(Arc::new(tls))).with_proxy(proxy);
        Ok(Self::new(Arc::new(tcp)).auth(auth).namespace(namespace.trim()))
    }

    #[must_use]
    pub fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    #[must_use]
    pub fn headers(self, headers: HeaderMap) -> Self {
        Self { headers, ..self }
    }

    #[must_use]
    pub fn user_agent(self, agent: &str) -> Self {
        Self { user_agent: agent.into(), ..self }
    }

    #[must_use]
    pub fn manager(self, manager: &str) -> Self {
        Self { field_manager: manager.into(), ..self }
    }

    /// Sets the namespace; an empty one changes nothing.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        if namespace.is_empty() { self } else { Self { namespace: namespace.into(), ..self } }
    }

    #[must_use]
    pub fn on_warning(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { on_warning: Some(OnWarning(Arc::new(tell))), ..self }
    }

    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}
