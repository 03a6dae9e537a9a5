//! KMS v2 provider: envelope encryption with a key management service, reached by gRPC over a unix
//! socket.
//!
//! ```text
//!  KMS      has a key that never leaves it, and reports its id
//!  seed     random, encrypted by the KMS once, and stored with every value
//!  value    AES-GCM with a key derived from the seed and 32 random bytes of the value
//! ```
//!
//! A write therefore needs no request to the KMS, and a read needs one for each new seed. Values
//! are encrypted and decrypted in synchronous code, so a separate thread sends the requests.

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

/// Length of the random HKDF info that each value has.
const INFO: usize = 32;
/// Maximum number of cached seeds.
const SEEDS: usize = 4_096;

/// A KMS of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    pub(super) name: String,
    /// `unix:///…`
    pub(super) endpoint: String,
    pub(super) timeout: Duration,
}

/// A KMS provider. Its thread starts on first use.
pub(super) struct Kms {
    pub(super) config: Config,
    pub(super) prefix: String,
    shared: Arc<Shared>,
    plugin: OnceLock<Option<mpsc::SyncSender<DecryptJob>>>,
}

/// State shared with the thread that calls the KMS.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// What is known of a KMS.
#[derive(Default)]
struct State {
    /// The seed for writes; it expires if the KMS stops responding.
    writing: Option<ActiveSeed>,
    /// The error of the last status poll.
    last_error: Option<String>,
    /// Cached seeds, by their encrypted form.
    seeds: HashMap<Vec<u8>, Arc<DekSource>>,
}

/// The seed that new values are encrypted with.
#[derive(Clone)]
struct ActiveSeed {
    secret: Arc<DekSource>,
    /// The stored form, without data.
    object: EncryptedObject,
    until: Instant,
}

/// The secret that a KMS has encrypted (the DEK source).
enum DekSource {
    /// A seed from which data encryption keys are derived.
    Seed(Vec<u8>),
    /// A data encryption key, as older releases wrote.
    Key(Vec<u8>),
}

impl Kms {
    pub(super) fn new(config: Config) -> Self {
        let prefix = format!("k8s:enc:kms:v2:{}:", config.name);
        Self { config, prefix, shared: Arc::default(), plugin: OnceLock::new() }
    }

    /// Starts the thread that calls the KMS, if it is not running.
    pub(super) fn start(&self) {
        self.plugin();
    }

    fn plugin(&self) -> Option<&mpsc::SyncSender<DecryptJob>> {
        let plugin = self.plugin.get_or_init(|| {
            let started = Plugin::start(&self.config, self.shared.clone());
            started
                .inspect_err(|error| warn!(%error, "cannot start the thread of a KMS plugin"))
                .ok()
        });
        plugin.as_ref()
    }

    /// Why values cannot be encrypted: the error of the last status poll.
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
            warn!(kms = self.config.name, "the KMS plugin does not respond; rejecting the write");
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

    /// Decrypts a value; `None` if it has another prefix or cannot be decrypted.
    pub(super) fn open(&self, at: &str, stored: &[u8]) -> Option<Vec<u8>> {
        let object = EncryptedObject::decode(stored.strip_prefix(self.prefix.as_bytes())?).ok()?;
        if let Err(wrong) = object.check() {
            warn!(at, wrong, "invalid encrypted value in storage");
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

    /// The seed to encrypt with. The first call waits for the first status poll.
    fn writing(&self) -> Option<ActiveSeed> {
        self.plugin()?;
        let state = self.shared.state();
        let unknown = |state: &mut State| state.writing.is_none() && state.last_error.is_none();
        let waited = self.shared.changed.wait_timeout_while(state, self.config.timeout, unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.writing.clone().filter(|writing| Instant::now() < writing.until)
    }

    /// The secret that a value was encrypted with; calls the KMS if it is not cached.
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
        // Another call may be in progress, and each has its own timeout.
        let plain = answered.recv_timeout(self.config.timeout * 3).ok()?;
        let plain = plain
            .inspect_err(|error| {
                warn!(kms = self.config.name, error, "the KMS plugin cannot decrypt a value");
            })
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
            self.seeds.clear(); // they are decrypted again when needed
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

/// Omits secrets, which must not be logged.
impl fmt::Debug for Kms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kms").field(&self.config).finish()
    }
}

/// HKDF-Expand with SHA-256; its first block is the key.
fn derived(seed: &[u8], info: &[u8]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, seed));
    context.update(info);
    context.update(&[1]);
    context.sign().as_ref().to_vec()
}

#[cfg(test)]
mod tests;
