//! The HTTPS server of the controller manager and the scheduler: health, metrics, configz, statusz and flagz, with authentication and
//! authorization delegated to the API server.

mod delegated;
mod flags;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap, convert::Infallible, fs, net::SocketAddr, path::PathBuf, sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use apiserver::zpages::{ProcessState, Zpage, flagz, statusz};
use bytes::Bytes;
use client::Client;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, WARNING},
};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use object::{Clock as _, ResourceRef, Status, SystemClock, Value, to_json};
use pki::{CertKeyPair, ClientCaVerifier, Reloadable, TlsSettings};
use runtime::{
    Context,
    metrics::{Family, Metrics},
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use self::delegated::DelegatedAuth;
pub(crate) use self::flags::ServingFlags;

const MOST_CONNECTIONS: usize = 1000;
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often certificate files are reloaded.
const CERT_POLL_PERIOD: Duration = Duration::from_mins(1);
/// What `/statusz` lists.
const PATHS: [&str; 7] =
    ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"];
const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

const BUILD_INFO: Family = Family::gauge(
    "kubernetes_build_info",
    "[BETA] A metric with a constant '1' value labeled by the version of Kubernetes and how it was built.",
    &[
        "build_date",
        "compiler",
        "git_commit",
        "git_tree_state",
        "git_version",
        "go_version",
        "major",
        "minor",
        "platform",
    ],
);

/// The component that serves.
#[derive(Clone, Debug)]
pub(crate) struct ServedComponent {
    pub(super) name: &'static str,
    /// Default port.
    pub(super) port: u16,
    /// Default of --authentication-tolerate-lookup-failure.
    pub(super) tolerate_lookup_failure: bool,
    /// Its configuration, by the group of its kind.
    pub(super) configuration: Value,
    /// Every flag with its value, for `/flagz`.
    pub(super) flags: BTreeMap<String, String>,
}

/// The serving certificate and the TLS settings.
#[derive(Debug)]
pub(super) struct ServingCertificates {
    /// Files of the certificate and its key.
    pub(super) files: Option<(PathBuf, PathBuf)>,
    /// A self-signed certificate, used without files.
    pub(super) self_signed: CertKeyPair,
    pub(super) client_cas: ClientCaVerifier,
    pub(super) handshakes: TlsSettings,
}

/// Binds and serves until the context stops; does nothing if the port is 0.
pub(super) async fn serve(
    cx: &Context,
    flags: &ServingFlags,
    component: ServedComponent,
) -> Result<()> {
    let wanted = flags.address(&component);
    if wanted.port() == 0 {
        return Ok(());
    }
    let listener = TcpListener::bind(wanted).await.with_context(|| wanted.to_string())?;
    let delegated = flags.delegated(component.tolerate_lookup_failure, None).await?;
    serve_on(listener, cx, flags, (component, delegated))
}

/// A component with its flags.
pub(crate) trait ServingComponent {
    fn serving_flags(&self) -> &ServingFlags;

    fn component(&self) -> ServedComponent;

    /// Address to listen on; port 0 means that nothing is served.
    fn address(&self) -> SocketAddr {
        self.serving_flags().address(&self.component())
    }

    /// Serves on a listener that is open already. `client` is used for TokenReviews and
    /// SubjectAccessReviews.
    fn serve_on(
        &self,
        listener: TcpListener,
        cx: &Context,
        client: &Client,
    ) -> impl Future<Output = Result<()>> {
        async move {
            let (flags, component) = (self.serving_flags(), self.component());
            if flags.address(&component).port() == 0 {
                return Ok(());
            }
            let delegated =
                flags.delegated(component.tolerate_lookup_failure, Some(client)).await?;
            serve_on(listener, cx, flags, (component, delegated))
        }
    }
}

fn serve_on(
    listener: TcpListener,
    cx: &Context,
    flags: &ServingFlags,
    (component, delegated): (ServedComponent, DelegatedAuth),
) -> Result<()> {
    let address = listener.local_addr()?;
    let certificates = flags.certificates(component.name, &delegated)?;
    let tls = Arc::new(Reloadable::new(certificates.config()?));
    info!(component = component.name, %address, "serving");
    cx.spawn("certificates", watch_certificates(cx.clone(), certificates, tls.clone()));
    report_build(cx.metrics());
    let metrics = cx.metrics().clone();
    let since = SystemClock.now();
    let serving = Arc::new(SecureServer { component, delegated, metrics, since });
    cx.spawn("serving", serving.accept(cx.clone(), listener, tls));
    Ok(())
}

fn report_build(metrics: &Metrics) {
    let mut parts = server::VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let platform = match std::env::consts::ARCH {
        "x86_64" => "linux/amd64".to_owned(),
        "aarch64" => "linux/arm64".to_owned(),
        other => format!("linux/{other}"),
    };
    let date = "1970-01-01T00:00:00Z"; // the same in every build, so that builds are reproducible
    let labels = [date, "rustc", "", "clean", server::VERSION, "", major, minor, &platform];
    metrics.gauge(&BUILD_INFO, &labels).set(1.0);
}

impl ServingCertificates {
    fn config(&self) -> Result<ServerConfig> {
        let read = match &self.files {
            Some((certificate, key)) => {
                let read =
                    |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
                Some(CertKeyPair::from_pem(&read(certificate)?, &read(key)?)?)
            }
            None => None,
        };
        let pair = read.as_ref().unwrap_or(&self.self_signed);
        Ok(pki::server_config_named(pair, &[], (&self.client_cas, &self.handshakes))?)
    }
}

/// Reloads the certificate files when they change.
async fn watch_certificates(
    cx: Context,
    certificates: ServingCertificates,
    tls: Arc<Reloadable<ServerConfig>>,
) {
    while certificates.files.is_some() && timeout(CERT_POLL_PERIOD, cx.stopping()).await.is_err() {
        match certificates.config() {
            Ok(config) => tls.replace(config),
            Err(error) => {
                warn!("cannot reload the serving certificate; keeping the current one: {error:#}");
            }
        }
    }
}

/// The HTTPS server of a component.
#[derive(Debug)]
struct SecureServer {
    component: ServedComponent,
    delegated: DelegatedAuth,
    metrics: Metrics,
    /// Start time, in seconds since 1970.
    since: i64,
}

type Answer = Response<Full<Bytes>>;

impl SecureServer {
    async fn accept(
        self: Arc<Self>,
        cx: Context,
        listener: TcpListener,
        tls: Arc<Reloadable<ServerConfig>>,
    ) {
        let (places, tasks) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), TaskTracker::new());
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = cx.stopping() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (serving, cx) = (self.clone(), cx.clone());
            let acceptor = TlsAcceptor::from(tls.current());
            tasks.spawn(async move {
                tokio::select! {
                    _ = panics::contain("serving", serving.connection(acceptor, stream)) => {}
                    () = cx.stopping() => {}
                }
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn connection(self: Arc<Self>, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(Ok(stream)) = timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
            return;
        };
        let chain = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
        let service = service_fn(move |request: Request<Incoming>| {
            let (serving, chain) = (self.clone(), chain.clone());
            async move {
                let now = SystemClock.now();
                let user = serving.delegated.authenticate(&chain, request.headers(), now).await;
                let Some(user) = user else {
                    return Ok::<_, Infallible>(failure(&Status::unauthorized()));
                };
                let (method, path) = (request.method(), request.uri().path());
                if !serving.delegated.authorize(&user, method, path).await {
                    let verb = method.as_str().to_lowercase();
                    let why = format!("User {:?} cannot {verb} path {path:?}", user.name);
                    let nothing = ResourceRef { group: "", resource: "", name: "" };
                    return Ok(failure(&Status::forbidden(nothing, &why)));
                }
                let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
                let query = request.uri().query().unwrap_or_default();
                Ok(serving.answer(path, query, accept.unwrap_or_default()))
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(100);
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            debug!(%error, "connection failed");
        }
    }

    fn answer(&self, path: &str, query: &str, accept: &str) -> Answer {
        let verbose =
            query.split('&').any(|word| word == "verbose" || word.starts_with("verbose="));
        match path {
            "/healthz" | "/livez" | "/readyz" if verbose => {
                let said = format!("[+]ping ok\n{} check passed\n", &path[1..]);
                answer(StatusCode::OK, PLAIN, said)
            }
            "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping"
            | "/readyz/ping" => answer(StatusCode::OK, PLAIN, "ok"),
            "/metrics" => {
                let mut text = String::new();
                server::report_process(&mut text);
                self.metrics.write(&mut text);
                answer(StatusCode::OK, METRICS, text)
            }
            "/configz" => {
                let text = to_json(&self.component.configuration);
                answer(StatusCode::OK, "application/json", text)
            }
            "/statusz" => {
                let process = ProcessState {
                    since: self.since,
                    now: SystemClock.now(),
                    version: server::VERSION,
                    paths: &PATHS,
                };
                zpage(statusz(self.component.name, accept, &process))
            }
            "/flagz" => zpage(flagz(self.component.name, accept, &self.component.flags)),
            _ => answer(StatusCode::NOT_FOUND, PLAIN, "404 page not found\n"),
        }
    }
}

fn zpage(page: Result<Zpage, Status>) -> Answer {
    let page = match page {
        Ok(page) => page,
        Err(status) => return failure(&status),
    };
    let mut answer = answer(StatusCode::OK, PLAIN, page.body);
    let headers = answer.headers_mut();
    headers.extend(HeaderValue::from_str(&page.content_type).ok().map(|form| (CONTENT_TYPE, form)));
    let warning = page.warning.and_then(|warning| HeaderValue::from_str(&warning).ok());
    headers.extend(warning.map(|warning| (WARNING, warning)));
    answer
}

fn failure(status: &Status) -> Answer {
    let code = u16::try_from(status.code()).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let tree: Value = status.clone().into();
    answer(code.unwrap_or(StatusCode::FORBIDDEN), "application/json", to_json(&tree))
}

fn answer(code: StatusCode, form: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
    answer
}
