//! Registry client: fetches manifests and blobs, with the authentication that the registry requires, trying mirrors
//! first.

mod auth;
mod http;
mod resolve;

use std::{collections::BTreeMap, fmt, fs::File, io::Write, path::Path, time::Duration};

use ::http::{HeaderValue, Request, StatusCode, Uri, header};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc};

use super::{
    Digest, Error, Reference, Result, TagOrDigest,
    digest::DigestStream,
    disk_reserve::Reserving,
    layer::LIMITS,
    manifest::{DOCKER_INDEX, DOCKER_MANIFEST, Descriptor, INDEX, MANIFEST, MAX_DOCUMENT_BYTES},
    reference,
};
use auth::Authorization;
use http::{HttpClient, HttpResponse, Reach};

const MAX_ATTEMPTS: u32 = 3;
/// Capacity of the channel between network and disk; a chunk is the result of one read.
const BUFFERED_CHUNKS: usize = 64;
const LARGEST_ERROR: u64 = 64 << 10;

/// Configuration of registries.
#[derive(Clone, Debug, Default)]
pub struct RegistryConfig {
    /// Endpoint URLs by registry host, such as `http://127.0.0.1:5000`, tried in this order. `*` applies to every other
    /// host. A host that is not listed is contacted itself, by https, or by plain http if it is a loopback address.
    pub endpoints: BTreeMap<String, Vec<String>>,
    /// CA certificates in PEM, in addition to the system's.
    pub roots: Vec<u8>,
    /// Timeout for a response, and for each further 64 KiB of a body; `None`: one minute.
    pub patience: Option<Duration>,
}

impl RegistryConfig {
    /// Parses flags of the form `HOST=URL`. The endpoints of a host are tried in this order.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut registries = Self::default();
        for flag in flags {
            let Some((host, url)) = flag.split_once('=') else {
                return Err(Error::Malformed(format!("{flag:?}: a registry is written HOST=URL")));
            };
            registries.endpoints.entry(host.to_owned()).or_default().push(url.to_owned());
        }
        Ok(registries)
    }
}

/// Credentials for a pull.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RegistryAuth {
    pub username: String,
    pub password: String,
    /// Exchanged for a token at the registry's token service.
    pub identity_token: String,
    /// Sent to the registry unchanged.
    pub registry_token: String,
}

impl RegistryAuth {
    pub fn basic(username: &str, password: &str) -> Self {
        Self { username: username.to_owned(), password: password.to_owned(), ..Self::default() }
    }

    /// Decodes `auth` of a docker configuration: base64 of `user:password`.
    pub fn from_base64(text: &str) -> Result<Self> {
        let invalid = || Error::malformed("invalid registry credentials");
        let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| invalid())?;
        let text = String::from_utf8(bytes).map_err(|_| invalid())?;
        let (username, password) = text.split_once(':').ok_or_else(invalid)?;
        Ok(Self::basic(username, password.trim_end_matches('\0')))
    }
}

/// Keeps secrets out of logs.
impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Client for one repository.
pub(super) struct Client {
    http: HttpClient,
    reference: Reference,
    endpoints: Vec<String>,
    auth: Option<RegistryAuth>,
    /// The last successful authorization, per endpoint.
    authorizations: Mutex<BTreeMap<String, Authorization>>,
}

impl Client {
    pub(super) fn new(
        registries: &RegistryConfig,
        reference: &Reference,
        auth: Option<RegistryAuth>,
    ) -> Result<Self> {
        let listed = registries.endpoints.get(&reference.host).or(registries.endpoints.get("*"));
        let endpoints = match listed {
            Some(endpoints) if !endpoints.is_empty() => endpoints.clone(),
            _ => vec![reference::endpoint(&reference.host)],
        };
        let http = HttpClient::new(&registries.roots, registries.patience)?;
        Ok(Self {
            http,
            reference: reference.clone(),
            endpoints,
            auth,
            authorizations: Mutex::default(),
        })
    }

    /// Fetches a manifest or index; verifies its digest if the version is one.
    pub(super) async fn manifest(&self, version: &TagOrDigest) -> Result<(Descriptor, Vec<u8>)> {
        let path = format!("manifests/{}", version.as_text());
        let bytes = self.try_endpoints(|endpoint| self.document(endpoint, &path)).await?;
        let digest = Digest::of(&bytes);
        match version {
            TagOrDigest::Digest(wanted) if *wanted != digest => {
                Err(Error::malformed(format!("manifest {wanted} has digest {digest}")))
            }
            _ => Ok((Descriptor::new("", digest, bytes.len() as u64), bytes)),
        }
    }

    /// Downloads a blob to `path` and verifies its digest.
    pub(super) async fn blob(&self, blob: &Descriptor, path: &Path) -> Result<()> {
        self.try_endpoints(|endpoint| self.download(endpoint, blob, path)).await
    }

    /// Tries each endpoint until one succeeds. Network errors are retried; if all fail, the first error is returned.
    async fn try_endpoints<T, F: Future<Output = Result<T>>>(
        &self,
        ask: impl Fn(String) -> F,
    ) -> Result<T> {
        let mut first = None;
        for endpoint in &self.endpoints {
            for attempt in 0..MAX_ATTEMPTS {
                match ask(endpoint.clone()).await {
                    Err(Error::Registry(reason)) if attempt + 1 < MAX_ATTEMPTS => {
                        tracing::debug!(%endpoint, %reason, "retrying a request to the registry");
                        tokio::time::sleep(Duration::from_millis(200 << (2 * attempt))).await;
                    }
                    Err(error) => {
                        first.get_or_insert(error);
                        break;
                    }
                    done => return done,
                }
            }
        }
        Err(first.unwrap_or_else(|| Error::NotFound(self.reference.to_string())))
    }

    async fn document(&self, endpoint: String, path: &str) -> Result<Vec<u8>> {
        let accept = [MANIFEST, DOCKER_MANIFEST, INDEX, DOCKER_INDEX].join(", ");
        self.get(&endpoint, path, &accept).await?.bytes(MAX_DOCUMENT_BYTES).await
    }

    async fn download(&self, endpoint: String, blob: &Descriptor, path: &Path) -> Result<()> {
        let mut answer = self.get(&endpoint, &format!("blobs/{}", blob.digest), "*/*").await?;
        let (sender, mut receiver) = mpsc::channel::<Bytes>(BUFFERED_CHUNKS);
        let folder = path.parent().unwrap_or(Path::new("."));
        let file = Reserving::new(File::create(path)?, File::open(folder)?)?;
        let mut file = DigestStream::new(file, blob.size.min(LIMITS.bytes));
        let writing = crate::threads::run(move || {
            while let Some(bytes) = receiver.blocking_recv() {
                file.write_all(&bytes)?;
            }
            Ok::<_, std::io::Error>(file.finish())
        });
        let reading = async move {
            while let Some(bytes) = answer.chunk().await? {
                if sender.send(bytes).await.is_err() {
                    break; // the writer's error is returned below
                }
            }
            Ok::<_, Error>(())
        };
        let (written, read) = tokio::join!(writing, reading);
        read?;
        let (_, digest, size) = written??;
        if digest == blob.digest {
            Ok(())
        } else if size < blob.size {
            Err(Error::Registry(format!(
                "{endpoint}: content {} ended after {size} bytes",
                blob.digest
            )))
        } else {
            Err(Error::malformed(format!("content {} has digest {digest}", blob.digest)))
        }
    }

    async fn get(&self, endpoint: &str, path: &str, accept: &str) -> Result<HttpResponse> {
        let url = format!("{}/v2/{}/{path}", endpoint.trim_end_matches('/'), self.reference.path);
        let known = self.authorizations.lock().await.get(endpoint).cloned();
        let answer = self.send(&url, accept, known.as_ref()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return self.check(answer, &url).await;
        }
        let challenges = answer.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenges: Vec<String> =
            challenges.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
        let authorization = auth::authorize(&self.http, &challenges, self.auth_for(endpoint), &url)
            .await
            .map_err(|error| self.with_reference(error))?;
        let Some(authorization) = authorization else { return self.check(answer, &url).await };
        let answer = self.send(&url, accept, Some(&authorization)).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            self.authorizations.lock().await.insert(endpoint.to_owned(), authorization);
        }
        self.check(answer, &url).await
    }

    /// Credentials are only sent to the registry that the image names, not to mirrors.
    fn auth_for(&self, endpoint: &str) -> Option<&RegistryAuth> {
        let host = |url: &str| Some(url.parse::<Uri>().ok()?.authority()?.to_string());
        let itself = host(endpoint) == host(&reference::endpoint(&self.reference.host));
        self.auth.as_ref().filter(|_| itself)
    }

    async fn send(
        &self,
        url: &str,
        accept: &str,
        authorization: Option<&Authorization>,
    ) -> Result<HttpResponse> {
        let mut request = Request::get(url).header(header::ACCEPT, accept);
        if let Some(Authorization(value)) = authorization {
            let mut value =
                HeaderValue::from_str(value).map_err(|_| Error::malformed("invalid token"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        self.http.send(request, Reach::Anywhere).await
    }

    async fn check(&self, answer: HttpResponse, url: &str) -> Result<HttpResponse> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let reason = reason(answer).await;
        Err(match status {
            StatusCode::NOT_FOUND => Error::NotFound(self.reference.to_string()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.with_reference(Error::Unauthorized {
                reference: String::new(),
                reason: format!("pull access denied, repository does not exist or may require authorization: {reason}"),
            }),
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Error::Registry(format!("unexpected status from GET request to {url}: {status}: {reason}"))
            }
            _ => Error::malformed(format!("unexpected status from GET request to {url}: {status}: {reason}")),
        })
    }

    fn with_reference(&self, error: Error) -> Error {
        match error {
            Error::Unauthorized { reason, .. } => {
                Error::Unauthorized { reference: self.reference.to_string(), reason }
            }
            other => other,
        }
    }
}

/// The registry's own error message, if the response has one.
async fn reason(answer: HttpResponse) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Problem>,
    }
    #[derive(Deserialize)]
    struct Problem {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let status = answer.status();
    let bytes = answer.bytes(LARGEST_ERROR).await.unwrap_or_default();
    match serde_json::from_slice::<Errors>(&bytes).ok().and_then(|e| e.errors.into_iter().next()) {
        Some(problem) => format!("{}: {}", problem.code.to_lowercase(), problem.message),
        None => status.to_string(),
    }
}
