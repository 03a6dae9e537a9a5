//! Flags about service account tokens.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{ArgAction, Args};

use crate::config::duration;

#[derive(Args, Clone, Debug)]
pub struct ServiceAccountFlags {
    /// Who this server is to its callers: what tokens must be meant for. Without it: who
    /// issues them.
    #[arg(long, value_delimiter = ',')]
    pub api_audiences: Vec<String>,
    /// Where others find the keys that sign tokens, if not here.
    #[arg(long, value_name = "URL")]
    pub service_account_jwks_uri: Option<String>,
    /// How long a token is good at most; 0: as long as is asked for.
    #[arg(long, default_value = "0s")]
    pub service_account_max_token_expiration: String,
    /// Whether tokens that pods have always had are good for a year, and only noted as old
    /// after an hour.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub service_account_extend_token_expiration: bool,
    /// The socket of somebody else who signs tokens and knows the keys of those that count: a
    /// path, or after @ a name in no folder.
    #[arg(long, value_name = "SOCKET")]
    pub service_account_signing_endpoint: Option<String>,
    /// Whether a token that lives in a secret ends with the secret and its account.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub service_account_lookup: bool,
}

impl ServiceAccountFlags {
    /// Maximum lifetime of a token; `None` if there is no limit.
    pub(crate) fn max_expiration(&self) -> Result<Option<Duration>> {
        let longest = duration(&self.service_account_max_token_expiration)?;
        let bounds = Duration::from_hours(1)..=Duration::from_secs(1 << 32);
        ensure!(
            longest.is_zero() || bounds.contains(&longest),
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
        );
        Ok((!longest.is_zero()).then_some(longest))
    }

    /// The socket of the external signer, if one is configured.
    pub(crate) fn signing_endpoint(&self) -> Option<&str> {
        self.service_account_signing_endpoint.as_deref().filter(|path| !path.is_empty())
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.max_expiration()?;
        let uri = self.service_account_jwks_uri.as_deref().unwrap_or("https://");
        if let Some(name) = self.signing_endpoint().and_then(|path| path.strip_prefix('@')) {
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let fits = name.split('.').all(|part| !part.is_empty() && part.chars().all(letters));
            ensure!(
                fits,
                "invalid value \"@{name}\" passed for `--service-account-signing-endpoint`, when \
                 prefixed with @ must be a valid abstract socket name"
            );
        }
        ensure!(
            uri.starts_with("https://"),
            "service-account-jwks-uri requires https scheme, parsed as: {uri}"
        );
        Ok(())
    }
}
