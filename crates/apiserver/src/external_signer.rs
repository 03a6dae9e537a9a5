//! External signer of service account tokens: `ExternalJWTSigner` v1, gRPC over a unix socket. Its
//! public keys are cached here, and fetched again at the interval that it asks for, or when a token
//! has an unknown key.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::uri::PathAndQuery;
use object::{Clock, from_json};
use pki::{PublicKey, ServiceAccountClaims};
use server::{CounterVec, GaugeVec, HistogramVec, MetricDesc, MetricsSource};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout_at},
};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tracing::warn;

use crate::grpc_connector::GrpcConnector;

/// Timeout of FetchKeys.
const KEYS: Duration = Duration::from_mins(1);
/// Timeout of all other calls.
const WITHIN: Duration = Duration::from_secs(10);
/// Interval before a failed fetch is retried.
const AGAIN: Duration = Duration::from_secs(10);
const LONGEST_ID: usize = 1024;
/// Minimum lifetime of a token, in seconds.
const SHORTEST: i64 = 600;
const SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Client of the external signer, with its cached keys.
pub(crate) struct ExternalSigner {
    grpc: Grpc<Channel>,
    issuer: String,
    clock: Arc<dyn Clock>,
    keys: RwLock<Arc<Keys>>,
    /// Held while keys are fetched; other requests wait for the same response.
    fetching: Mutex<()>,
    /// Maximum lifetime of the tokens that it signs.
    pub(crate) max_expiration: Duration,
    tally: ExternalSignerMetrics,
}

/// The public keys of the signer, and when to fetch them again.
#[derive(Debug)]
struct Keys {
    /// All keys that may have signed a token.
    all: Vec<PublicKey>,
    /// The keys for OIDC discovery.
    shown: Vec<PublicKey>,
    refresh: Instant,
}

impl std::fmt::Debug for ExternalSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalSigner").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl ExternalSigner {
    /// Connects to the signer at a socket, and fetches its keys and metadata.
    pub(crate) async fn open(path: &str, issuer: &str, clock: &Arc<dyn Clock>) -> Result<Self> {
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(WITHIN);
        let channel = endpoint.connect_with_connector_lazy(GrpcConnector::socket(path));
        let none = Keys { all: Vec::new(), shown: Vec::new(), refresh: Instant::now() };
        let mut signer = Self {
            grpc: Grpc::new(channel),
            issuer: issuer.to_owned(),
            clock: clock.clone(),
            keys: RwLock::new(Arc::new(none)),
            fetching: Mutex::default(),
            max_expiration: Duration::ZERO,
            tally: ExternalSignerMetrics::default(),
        };
        let setting_up = "while setting up external-jwt-signer";
        signer.fetch().await.with_context(|| {
            format!("{setting_up}: while initially filling key cache: while performing initial cache fill")
        })?;
        let asked = signer.call("Metadata", MetadataRequest {}, WITHIN).await;
        let about: MetadataResponse = asked.map_err(said).context(setting_up)?;
        let longest = about.max_token_expiration_seconds;
        ensure!(
            longest >= SHORTEST,
            "max token life supported by external-jwt-signer ({longest}s) is less than acceptable \
             (min {SHORTEST}s)"
        );
        signer.max_expiration = Duration::from_secs(u64::try_from(longest)?);
        Ok(signer)
    }

    /// Signs a token with these claims.
    pub(crate) async fn sign(&self, claims: ServiceAccountClaims) -> Result<String> {
        let signed = self.signed(claims).await;
        self.tally.signed.count(&[code_of(signed.as_ref().err())]);
        signed
    }

    async fn signed(&self, claims: ServiceAccountClaims) -> Result<String> {
        let claims = claims.payload(&self.issuer)?;
        let request = SignJwtRequest { claims: claims.clone() };
        let answer = self.call("Sign", request, WITHIN).await;
        let SignJwtResponse { header, signature } =
            answer.map_err(said).context("while signing jwt")?;
        self.check(&header).await.context("while validating header")?;
        ensure!(!signature.is_empty(), "empty signature returned");
        Ok(format!("{header}.{claims}.{signature}"))
    }

    /// Checks the header that the signer returned: only known fields, a supported algorithm, and no
    /// key that is excluded from OIDC discovery.
    async fn check(&self, header: &str) -> Result<()> {
        let header = URL_SAFE_NO_PAD.decode(header).context("while unwrapping header")?;
        let header = from_json(&header).context("while parsing header JSON")?;
        for (name, _) in header.entries() {
            let known = ["alg", "kid", "typ"].contains(&name);
            ensure!(known, "while parsing header JSON: json: unknown field {name:?}");
        }
        let text = |name: &str| header.get(name).as_str().unwrap_or_default();
        ensure!(text("typ") == "JWT", "bad type");
        let id = text("kid");
        ensure!(!id.is_empty(), "key id missing");
        ensure!(id.len() <= LONGEST_ID, "key id longer than 1 kb");
        let algorithm = text("alg");
        ensure!(
            ["RS256", "ES256", "ES384", "ES512"].contains(&algorithm),
            "bad signing algorithm {algorithm:?}"
        );
        let named = |keys: &[PublicKey]| keys.iter().any(|key| key.id() == id);
        if !named(&self.keys().all)
            && let Err(error) = self.fetch_newer(self.keys().refresh).await
        {
            warn!(error = format!("{error:#}"), "the keys of the external signer are old");
        }
        let keys = self.keys();
        ensure!(
            !named(&keys.all) || named(&keys.shown),
            "key used for signing JWT (kid: {id}) is excluded from OIDC discovery docs"
        );
        Ok(())
    }

    fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `verify` with the cached keys, and again with new ones if the token's key is unknown.
    pub(crate) async fn with_keys<T>(
        &self,
        verify: impl Fn(&[PublicKey]) -> Result<T, pki::TokenError>,
    ) -> Result<T, pki::TokenError> {
        let keys = self.keys();
        match verify(&keys.all) {
            Err(pki::TokenError::UnknownKey) => {}
            done => return done,
        }
        if let Err(error) = self.fetch_newer(keys.refresh).await {
            warn!(error = format!("{error:#}"), "the external signer gives no keys");
        }
        verify(&self.keys().all)
    }

    /// The keys for OIDC discovery, and for how many seconds clients may cache them.
    pub(crate) fn published_keys(&self) -> (Vec<PublicKey>, u64) {
        let keys = self.keys();
        (keys.shown.clone(), keys.refresh.saturating_duration_since(Instant::now()).as_secs())
    }

    /// Fetches the keys at the interval that the signer asks for, for ever.
    pub(crate) async fn run_key_refresh(self: Arc<Self>) {
        loop {
            tokio::time::sleep_until(self.keys().refresh).await;
            if let Err(error) = self.fetch().await {
                warn!(error = format!("{error:#}"), "the keys of the external signer are old");
                sleep(AGAIN).await;
            }
        }
    }

    /// Fetches the keys, unless that has been done since `than`.
    async fn fetch_newer(&self, than: Instant) -> Result<()> {
        let _alone = self.fetching.lock().await;
        match self.keys().refresh > than {
            true => Ok(()),
            false => self.fetch().await,
        }
    }

    async fn fetch(&self) -> Result<()> {
        let fetched = self.fetched().await;
        self.tally.fetched.count(&[code_of(fetched.as_ref().err())]);
        let (keys, moment) = fetched.context("while fetching token verification keys")?;
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a date fit")]
        self.tally.last.set(&[], self.clock.now_micros() as f64 / 1e6);
        self.tally.data.set(&[], moment);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(())
    }

    async fn fetched(&self) -> Result<(Keys, f64)> {
        let answer = self.call("FetchKeys", FetchKeysRequest {}, KEYS).await;
        let FetchKeysResponse { keys, data_timestamp, refresh_hint_seconds: seconds } =
            answer.map_err(said).context("while getting externally supported jwt signing keys")?;
        let refresh = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let refresh =
            refresh.with_context(|| format!("found invalid refresh hint ({seconds}s)"))?;
        ensure!(!keys.is_empty(), "found no keys");
        let Some(Timestamp { seconds, nanos }) = data_timestamp else {
            bail!("invalid data timestamp: invalid nil Timestamp");
        };
        let (mut all, mut shown) = (Vec::new(), Vec::new());
        for Key { key_id, key, exclude_from_oidc_discovery } in keys {
            let fits = (1..=LONGEST_ID).contains(&key_id.len());
            ensure!(fits, "found invalid public key id {key_id:?}");
            ensure!(!key.is_empty(), "found empty public key");
            let key = PublicKey::from_der(&key).context("while parsing external public keys")?;
            let key = key.with_key_id(&key_id);
            if !exclude_from_oidc_discovery {
                shown.push(key.clone());
            }
            all.push(key);
        }
        // At most a day, so that the time cannot overflow.
        let refresh = Instant::now() + Duration::from_secs(refresh.min(24 * 3600));
        #[expect(clippy::cast_precision_loss, reason = "seconds of a date fit")]
        let moment = seconds as f64 + f64::from(nanos) / 1e9;
        Ok((Keys { all, shown, refresh }, moment))
    }

    /// Calls a method. While nothing listens on the socket, retries until the timeout.
    async fn call<Q, A>(&self, method: &str, question: Q, within: Duration) -> Result<A, Status>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let (began, mut grpc) = (Instant::now(), self.grpc.clone());
        let path = format!("/v1.ExternalJWTSigner/{method}");
        let path: PathAndQuery = path.parse().map_err(|_| Status::internal("no such method"))?;
        let asked = async {
            loop {
                let ready = grpc.ready().await;
                let answer = match ready {
                    Ok(()) => {
                        let codec = ProstCodec::<Q, A>::default();
                        grpc.unary(Request::new(question.clone()), path.clone(), codec).await
                    }
                    Err(error) => Err(Status::unavailable(error.to_string())),
                };
                match answer {
                    Err(status) if status.code() == Code::Unavailable => {
                        sleep(Duration::from_millis(200)).await;
                    }
                    answer => return answer.map(tonic::Response::into_inner),
                }
            }
        };
        let late = |_| Err(Status::deadline_exceeded("context deadline exceeded"));
        let answer = timeout_at(began + within, asked).await.unwrap_or_else(late);
        let code = answer.as_ref().map_or_else(|status| go_code(status.code()), |_| "OK");
        self.tally.seconds.observe(&[code, method], began.elapsed().as_secs_f64());
        answer
    }
}

impl MetricsSource for ExternalSigner {
    fn report(&self, out: &mut String) {
        self.tally.last.write(out);
        self.tally.data.write(out);
        self.tally.fetched.write(out);
        self.tally.signed.write(out);
        self.tally.seconds.write(out);
    }
}

/// Metrics of the external signer, with upstream's names.
struct ExternalSignerMetrics {
    last: GaugeVec,
    data: GaugeVec,
    fetched: CounterVec,
    signed: CounterVec,
    seconds: HistogramVec,
}

impl Default for ExternalSignerMetrics {
    fn default() -> Self {
        let name = |name, help, labels| MetricDesc { name, help, labels };
        Self {
            last: GaugeVec::new(name(
                "apiserver_externaljwt_fetch_keys_success_timestamp",
                "Time of the last successful fetch of keys from the external signer.",
                &[],
            )),
            data: GaugeVec::new(name(
                "apiserver_externaljwt_fetch_keys_data_timestamp",
                "Data timestamp of the keys of the external signer.",
                &[],
            )),
            fetched: CounterVec::new(name(
                "apiserver_externaljwt_fetch_keys_request_total",
                "Fetches of keys from the external signer, by code.",
                &["code"],
            )),
            signed: CounterVec::new(name(
                "apiserver_externaljwt_sign_request_total",
                "Requests for tokens to the external signer, by code.",
                &["code"],
            )),
            seconds: HistogramVec::new(
                name(
                    "apiserver_externaljwt_request_duration_seconds",
                    "Latency of requests to the external signer in seconds.",
                    &["code", "method"],
                ),
                SECONDS,
            ),
        }
    }
}

/// A gRPC error, formatted as Go's client does.
fn said(status: Status) -> anyhow::Error {
    let shown = format!("rpc error: code = {} desc = {}", go_code(status.code()), status.message());
    anyhow::Error::new(status).context(shown)
}

fn code_of(error: Option<&anyhow::Error>) -> &'static str {
    let Some(error) = error else { return "OK" };
    let status = error.chain().find_map(|cause| cause.downcast_ref::<Status>());
    status.map_or("unknown-non-grpc", |status| go_code(status.code()))
}

/// The name of a gRPC code in Go.
fn go_code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct SignJwtRequest {
    #[prost(string, tag = "1")]
    claims: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SignJwtResponse {
    #[prost(string, tag = "1")]
    header: String,
    #[prost(string, tag = "2")]
    signature: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FetchKeysRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<Key>,
    #[prost(message, optional, tag = "2")]
    data_timestamp: Option<Timestamp>,
    #[prost(int64, tag = "3")]
    refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Key {
    #[prost(string, tag = "1")]
    key_id: String,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bool, tag = "3")]
    exclude_from_oidc_discovery: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetadataRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct MetadataResponse {
    #[prost(int64, tag = "1")]
    max_token_expiration_seconds: i64,
}
