//! Tokens of service accounts: who signs them, how they are checked, and what others are told
//! of the keys.

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use object::Clock;
use pki::{Cluster, PublicKey, Signer, Verifier};
use server::Registry;

use crate::{
    Config, Flags,
    authn::{ServiceAccounts, Used},
    external_signer::ExternalSigner,
    handlers::{Issuer, TokenSigner, Tokens},
};

/// Who else signs tokens, if anybody, and how long tokens are good at most.
pub(crate) struct AccountSigner {
    pub(crate) external: Option<Arc<ExternalSigner>>,
    longest: Option<Duration>,
}

impl AccountSigner {
    pub(crate) async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self> {
        let flags = &config.flags;
        let longest = flags.accounts.longest()?;
        let Some(path) = flags.accounts.signing_endpoint() else {
            return Ok(Self { external: None, longest });
        };
        let signer = ExternalSigner::open(path, &flags.service_account_issuer[0], clock).await?;
        let most = signer.longest;
        let longest = longest.unwrap_or(most);
        let go =
            |time: Duration| object::Duration::text(time.as_nanos().try_into().unwrap_or(i64::MAX));
        ensure!(
            longest <= most,
            "service-account-max-token-expiration cannot be set longer than the token expiration \
             supported by service-account-signing-endpoint: {} > {}",
            go(longest),
            go(most)
        );
        Ok(Self { external: Some(Arc::new(signer)), longest: Some(longest) })
    }

    /// Whose tokens are believed.
    pub(crate) fn accounts(
        &self,
        config: &Config,
        cluster: &Cluster,
        registry: Arc<OnceLock<Arc<Registry>>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<ServiceAccounts>> {
        let flags = &config.flags;
        let mut keys = cluster.service_account_keys.clone();
        for path in &flags.service_account_key_file {
            let pem = fs::read(path)
                .with_context(|| format!("--service-account-key-file {}", path.display()))?;
            for key in PublicKey::all_from_pem(&pem)? {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let issuers = flags.service_account_issuer.clone();
        Ok(Arc::new(ServiceAccounts {
            verifier: Verifier { keys, issuers, audiences: audiences(flags) },
            external: self.external.clone(),
            registry,
            clock: clock.clone(),
            lookup: flags.accounts.service_account_lookup,
            used: Used::default(),
        }))
    }

    /// Who gives new ones.
    pub(crate) fn tokens(&self, config: &Config) -> Result<Tokens> {
        let flags = &config.flags;
        let signer = if let Some(external) = &self.external {
            TokenSigner::External(external.clone())
        } else {
            TokenSigner::Own(Signer::new(signing_key(flags)?, &flags.service_account_issuer[0]))
        };
        Ok(Tokens {
            signer: Arc::new(signer),
            audiences: audiences(flags),
            longest: self.longest,
            extends: flags.accounts.service_account_extend_token_expiration,
        })
    }
}

/// Who tells others how to check tokens.
pub(crate) fn issuer(flags: &Flags, accounts: Arc<ServiceAccounts>, address: SocketAddr) -> Issuer {
    Issuer {
        name: flags.service_account_issuer[0].clone(),
        accounts,
        keys_at: keys_at(flags, address),
    }
}

/// What tokens must be meant for.
fn audiences(flags: &Flags) -> Vec<String> {
    match &flags.accounts.api_audiences[..] {
        [] => vec![flags.service_account_issuer[0].clone()],
        given => given.to_vec(),
    }
}

/// Where the keys are that sign tokens.
fn keys_at(flags: &Flags, address: SocketAddr) -> String {
    if let Some(given) = &flags.accounts.service_account_jwks_uri {
        return given.clone();
    }
    let host = match &flags.connections.external_hostname {
        Some(host) if host.contains(':') => host.clone(),
        Some(host) => format!("{host}:{}", address.port()),
        None => address.to_string(),
    };
    format!("https://{host}/openid/v1/jwks")
}

fn signing_key(flags: &Flags) -> Result<pki::Key> {
    let own = flags.data_dir.join("pki/sa.key");
    let path = flags.service_account_signing_key_file.as_ref().unwrap_or(&own);
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(pki::Key::from_pem(&pem)?)
}
