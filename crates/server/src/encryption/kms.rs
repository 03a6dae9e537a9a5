//! Keys that somebody else keeps: KMS v2, gRPC over a unix socket.
//!
//! ```text
//!  KMS      keeps a key that never leaves it, and says its id
//!  seed     drawn here, sealed by the KMS once and written with every value
//!  value    AES-GCM with a key derived from the seed and 32 bytes of its own
//! ```
//!
//! So a write asks nobody, and a read asks once for each seed. Values are written and read
//! where nobody can wait for a future, so whoever asks is a thread.

mod messages;
mod plugin;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    time::{Duration, Instant},
};

use prost::Message as _;
use ring::hmac;
use tracing::warn;

use self::{
    messages::{DecryptRequest, EncryptedObject, SEED},
    plugin::{DecryptJob, Plugin},
};
use super::ciphers::{open_gcm, random, seal_gcm};

/// What each value has of its own.
const INFO: usize = 32;
/// How many seeds are remembered.
const SEEDS: usize = 4_096;

/// Where a KMS is, as the configuration says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    pub(super) name: String,
    /// `unix:///…`
    pub(super) endpoint: String,
    pub(super) timeout: Duration,
}

/// A KMS, asked from when it is first needed.
pub(super) struct Kms {
    pub(super) config: Config,
    pub(super) prefix: String,
    shared: Arc<Shared>,
    plugin: OnceLock<Option<mpsc::SyncSender<DecryptJob>>>,
}

/// What the thread that asks tells the others.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is written with, until the KMS has been silent for too long.
    writing: Option<ActiveSeed>,
    /// Why the last question had no good answer.
    last_error: Option<String>,
    /// By how they are sealed.
    seeds: HashMap<Vec<u8>, Arc<DekSource>>,
}

#[derive(Clone)]
struct ActiveSeed {
    secret: Arc<DekSource>,
    /// All of it but the data.
    object: EncryptedObject,
    until: Instant,
}

/// What a KMS has sealed.
enum DekSource {
    /// Keys are derived from it.
    Seed(Vec<u8>),
    /// A key itself, as older releases wrote.
    Key(Vec<u8>),
}

impl Kms {
    pub(super) fn new(config: Config) -> Self {
        let prefix = format!("k8s:enc:kms:v2:{}:", config.name);
        Self { config, prefix, shared: Arc::default(), plugin: OnceLock::new() }
    }

    /// Begins to ask, if nobody does yet.
    pub(super) fn start(&self) {
        self.plugin();
    }

    fn plugin(&self) -> Option<&mpsc::SyncSender<DecryptJob>> {
        let plugin = self.plugin.get_or_init(|| {
            let started = Plugin::start(&self.config, self.shared.clone());
            started.inspect_err(|error| warn!(%error, "no thread for a KMS")).ok()
        });
        plugin.as_ref()
    }

    /// Why it cannot be written with.
    pub(super) fn health(&self) -> Result<(), String> {
        self.start();
        let state = self.shared.state();
        match (&state.last_error, &state.writing) {
            (Some(trouble), _) => Err(format!("{}: {trouble}", self.config.name)),
            (None, None) => Err(format!("{}: it has not answered yet", self.config.name)),
            (None, Some(_)) => Ok(()),
        }
    }

    pub(super) fn seal(&self, at: &str, text: &[u8]) -> Option<Vec<u8>> {
        let Some(ActiveSeed { secret, object, .. }) = self.writing() else {
            warn!(kms = self.config.name, "it does not answer: nothing is written");
            return None;
        };
        let DekSource::Seed(seed) = &*secret else { return None };
        let info = random::<INFO>()?;
        let mut data = info.to_vec();
        data.extend(seal_gcm(&derived(seed, &info), at, text)?);
        let mut out = self.prefix.clone().into_bytes();
        EncryptedObject { encrypted_data: data, ..object }.encode(&mut out).ok()?;
        Some(out)
    }

    /// `None`: another has sealed it, or it cannot be opened.
    pub(super) fn open(&self, at: &str, stored: &[u8]) -> Option<Vec<u8>> {
        let object = EncryptedObject::decode(stored.strip_prefix(self.prefix.as_bytes())?).ok()?;
        if let Err(wrong) = object.check() {
            warn!(at, wrong, "a stored value makes no sense");
            return None;
        }
        match &*self.secret(&object)? {
            DekSource::Seed(seed) => {
                let (info, sealed) = object.encrypted_data.split_at_checked(INFO)?;
                open_gcm(&derived(seed, info), at, sealed)
            }
            DekSource::Key(key) => open_gcm(key, at, &object.encrypted_data),
        }
    }

    /// What to write with. The first who asks waits for the first answer.
    fn writing(&self) -> Option<ActiveSeed> {
        self.plugin()?;
        let state = self.shared.state();
        let unknown = |state: &mut State| state.writing.is_none() && state.last_error.is_none();
        let waited = self.shared.changed.wait_timeout_while(state, self.config.timeout, unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.writing.clone().filter(|writing| Instant::now() < writing.until)
    }

    /// What a value was sealed with; the KMS is asked if that is not known.
    fn secret(&self, object: &EncryptedObject) -> Option<Arc<DekSource>> {
        let sealed = object.sealed();
        if let Some(known) = self.shared.state().seeds.get(&sealed) {
            return Some(known.clone());
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let request = DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: plugin::uid(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        self.plugin()?.try_send(DecryptJob { request, answer }).ok()?;
        // One question may be before it, and each has its own deadline.
        let plain = answered.recv_timeout(self.config.timeout * 3).ok()?;
        let plain = plain
            .inspect_err(|error| warn!(kms = self.config.name, error, "it does not decrypt"))
            .ok()?;
        let secret = if object.encrypted_dek_source_type == SEED {
            DekSource::Seed(plain).long_enough()?
        } else {
            DekSource::Key(plain).long_enough()?
        };
        let secret = Arc::new(secret);
        self.shared.state().remember(sealed, secret.clone());
        Some(secret)
    }
}

impl State {
    fn remember(&mut self, sealed: Vec<u8>, secret: Arc<DekSource>) {
        if self.seeds.len() >= SEEDS {
            self.seeds.clear(); // they are asked for again
        }
        self.seeds.insert(sealed, secret);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DekSource {
    fn long_enough(self) -> Option<Self> {
        let good = match &self {
            Self::Seed(seed) => seed.len() >= 32,
            Self::Key(key) => matches!(key.len(), 16 | 24 | 32),
        };
        good.then_some(self)
    }
}

/// Secrets are not for logs.
impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kms").field(&self.config).finish()
    }
}

/// HKDF-Expand with SHA-256: one block of it is a key.
fn derived(seed: &[u8], info: &[u8]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, seed));
    context.update(info);
    context.update(&[1]);
    context.sign().as_ref().to_vec()
}

#[cfg(test)]
mod tests;
