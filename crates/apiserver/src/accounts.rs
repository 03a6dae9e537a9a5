//! Service account tokens: which key signs them, how they are authenticated, and how the public
//! keys are published (OIDC discovery).

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use object::Clock;
use pki::{ClusterPki, PublicKey, TokenSigner, TokenVerifier};
use server::Registry;

use crate::{
    Config, Flags,
    authn::{ServiceAccountAuthenticator, TokenMetrics},
    external_signer::ExternalSigner,
    handlers::{AnyTokenSigner, Issuer, TokenRequestHandler},
};

/// The external token signer, if one is configured, and the maximum lifetime of a token.
pub(crate) struct TokenSigning {
    pub(crate) external: Option<Arc<ExternalSigner>>,
    max_expiration: Option<Duration>,
}

impl TokenSigning {
    /// Connects to the external signer, if one is configured, and limits the lifetime to its
    /// maximum.
    pub(crate) async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self> {
        let flags = &config.flags;
        let longest = flags.accounts.max_expiration()?;
        let Some(path) = flags.accounts.signing_endpoint() else {
            return Ok(Self { external: None, max_expiration: longest });
        };
        let signer = ExternalSigner::open(path, &flags.service_account_issuer[0], clock).await?;
        let most = signer.max_expiration;
        let longest = longest.unwrap_or(most);
        let go = |time: Duration| {
            object::Duration::format_nanos(time.as_nanos().try_into().unwrap_or(i64::MAX))
        };
        ensure!(
            longest <= most,
            "service-account-max-token-expiration cannot be set longer than the token expiration \
             supported by service-account-signing-endpoint: {} > {}",
            go(longest),
            go(most)
        );
        Ok(Self { external: Some(Arc::new(signer)), max_expiration: Some(longest) })
    }

    /// The authenticator of service account tokens, with all keys that verify them.
    pub(crate) fn authenticator(
        &self,
        config: &Config,
        cluster: &ClusterPki,
        registry: Arc<OnceLock<Arc<Registry>>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<ServiceAccountAuthenticator>> {
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
        Ok(Arc::new(ServiceAccountAuthenticator {
            verifier: TokenVerifier { keys, issuers, audiences: audiences(flags) },
            external: self.external.clone(),
            registry,
            clock: clock.clone(),
            lookup: flags.accounts.service_account_lookup,
            used: TokenMetrics::default(),
        }))
    }

    /// The handler of TokenRequest, which issues new tokens.
    pub(crate) fn token_request_handler(&self, config: &Config) -> Result<TokenRequestHandler> {
        let flags = &config.flags;
        let signer = if let Some(external) = &self.external {
            AnyTokenSigner::External(external.clone())
        } else {
            AnyTokenSigner::Own(TokenSigner::new(
                signing_key(flags)?,
                &flags.service_account_issuer[0],
            ))
        };
        Ok(TokenRequestHandler {
            signer: Arc::new(signer),
            audiences: audiences(flags),
            max_expiration: self.max_expiration,
            extends: flags.accounts.service_account_extend_token_expiration,
        })
    }
}

/// The handler of OIDC discovery, which publishes the issuer and where its keys are.
pub(crate) fn issuer(
    flags: &Flags,
    accounts: Arc<ServiceAccountAuthenticator>,
    address: SocketAddr,
) -> Issuer {
    Issuer {
        name: flags.service_account_issuer[0].clone(),
        accounts,
        keys_at: keys_at(flags, address),
    }
}

/// The audiences that a token must have one of: `--api-audiences`, by default the issuer.
fn audiences(flags: &Flags) -> Vec<String> {
    match &flags.accounts.api_audiences[..] {
        [] => vec![flags.service_account_issuer[0].clone()],
        given => given.to_vec(),
    }
}

/// The `jwks_uri` of the OIDC discovery document: where the public keys can be fetched.
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

fn signing_key(flags: &Flags) -> Result<pki::PrivateKey> {
    let own = flags.data_dir.join("pki/sa.key");
    let path = flags.service_account_signing_key_file.as_ref().unwrap_or(&own);
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(pki::PrivateKey::from_pem(&pem)?)
}
