//! The thread that calls a KMS: polls its status once a minute, encrypts a new seed when the key id
//! changes, and decrypts the seeds of stored values.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use http::uri::PathAndQuery;
use tokio::runtime::Runtime;
use tonic::{
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tracing::{info, warn};

use super::{
    ActiveSeed, Config, DekSource, Shared,
    messages::{
        DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, EncryptedObject, SEED,
        StatusRequest, StatusResponse,
    },
};
use crate::encryption::ciphers::random;

/// Interval of status polls: while the KMS is healthy, and while it is not.
const HEALTHY_POLL: Duration = Duration::from_mins(1);
const UNHEALTHY_POLL: Duration = Duration::from_secs(10);
/// How long a seed is used for writes after the last successful status poll.
const SEED_GRACE_PERIOD: Duration = Duration::from_mins(3);
/// Maximum number of queued decryptions.
const WAITING: usize = 256;

/// A seed to decrypt, and where to send the result.
pub(super) struct DecryptJob {
    pub(super) request: DecryptRequest,
    pub(super) answer: mpsc::SyncSender<Result<Vec<u8>, String>>,
}

/// The thread's connection to the KMS.
pub(super) struct Plugin {
    config: Config,
    shared: Arc<Shared>,
    runtime: Runtime,
    grpc: Grpc<Channel>,
}

impl Plugin {
    /// Starts the thread. It ends when the returned sender is dropped.
    pub(super) fn start(
        config: &Config,
        shared: Arc<Shared>,
    ) -> io::Result<mpsc::SyncSender<DecryptJob>> {
        let endpoint = Endpoint::from_shared(config.endpoint.clone()).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_timeout(config.timeout).connect_lazy()
        };
        let (sender, asked) = mpsc::sync_channel(WAITING);
        let this = Self { config: config.clone(), shared, runtime, grpc: Grpc::new(channel) };
        thread::Builder::new().name("kms".into()).spawn(move || this.run(&asked))?;
        Ok(sender)
    }

    fn run(mut self, asked: &mpsc::Receiver<DecryptJob>) {
        loop {
            let outcome = panics::catch("kms", || self.poll_status());
            let outcome = outcome.unwrap_or_else(|panicked| Err(panicked.to_string()));
            let pause = if outcome.is_ok() { HEALTHY_POLL } else { UNHEALTHY_POLL };
            if let Err(error) = &outcome {
                warn!(kms = self.config.name, error, "the KMS plugin is unhealthy");
            }
            self.shared.state().last_error = outcome.err();
            self.shared.changed.notify_all();
            let next = Instant::now() + pause;
            loop {
                match asked.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(DecryptJob { request, answer }) => {
                        let plain = panics::catch("kms", || self.call("Decrypt", request));
                        let plain = plain.unwrap_or_else(|panicked| Err(panicked.to_string()));
                        let plain = plain.map(|plain: DecryptResponse| plain.plaintext);
                        let _ = answer.send(plain); // the caller may have timed out
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => break,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    /// Polls the status, and has a new seed encrypted if the key id has changed.
    fn poll_status(&mut self) -> Result<(), String> {
        let status: StatusResponse = self.call("Status", StatusRequest {})?;
        if status.healthz != "ok" {
            return Err(format!("the plugin reports its health as {:?}", status.healthz));
        } else if status.version != "v2" && status.version != "v2beta1" {
            return Err(format!("the plugin has API version {:?}, not v2", status.version));
        } else if status.key_id.is_empty() {
            return Err("the plugin does not report its key id".to_owned());
        }
        let until = Instant::now() + SEED_GRACE_PERIOD;
        if let Some(writing) = &mut self.shared.state().writing
            && writing.object.key_id == status.key_id
        {
            writing.until = until;
            return Ok(());
        }
        let seed = random::<32>().ok_or("cannot get random bytes")?.to_vec();
        let request = EncryptRequest { plaintext: seed.clone(), uid: uid() };
        let sealed: EncryptResponse = self.call("Encrypt", request)?;
        let mut object = EncryptedObject {
            encrypted_data: vec![0],
            key_id: sealed.key_id,
            encrypted_dek_source: sealed.ciphertext,
            annotations: sealed.annotations,
            encrypted_dek_source_type: SEED,
        };
        object.check()?;
        if object.key_id != status.key_id {
            return Err("the plugin encrypted with another key than it reports".to_owned());
        }
        object.encrypted_data.clear();
        info!(kms = self.config.name, "using a new data encryption seed");
        let secret = Arc::new(DekSource::Seed(seed));
        let mut state = self.shared.state();
        state.remember(object.sealed(), secret.clone());
        state.writing = Some(ActiveSeed { secret, object, until });
        Ok(())
    }

    fn call<Q, A>(&mut self, method: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let path = format!("/v2.KeyManagementService/{method}");
        let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
        let (grpc, timeout) = (&mut self.grpc, self.config.timeout);
        let asking = async {
            grpc.ready().await.map_err(|error| error.to_string())?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
        };
        let answer = async { tokio::time::timeout(timeout, asking).await };
        self.runtime
            .block_on(answer)
            .unwrap_or_else(|_| Err(format!("no response within {timeout:?}")))
    }
}

/// A random uid that identifies the request in the logs of the KMS.
pub(super) fn uid() -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in random::<16>().unwrap_or_default().into_iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        text.push_str(&format!("{dash}{byte:02x}"));
    }
    text
}
