//! The authenticators that the flags configure.

use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use object::Clock;
use server::{Authenticator, Registry};

use crate::{
    Config,
    authn::{
        Anonymous, AnonymousConfig, AuthenticationConfiguration, BootstrapTokenAuthenticator,
        ClientCertAuthenticator, JwtAuthenticator, PasswordFile, ProxyHeaders, RequestHeader,
        ServiceAccountAuthenticator, TokenFile, TokenWebhook,
    },
    config::duration,
    features::CERTIFICATE_UID,
    reload::{self, Task, WatchedFiles},
    remote::from_kubeconfig,
    serving::TrustedCas,
};

/// The authenticators in order, and the task that reloads their configuration.
type Authenticating = (Vec<Arc<dyn Authenticator>>, Option<Task>);

/// Builds the authenticators; the first one that recognizes a request's credentials decides. The
/// task reloads the AuthenticationConfiguration, if there is one.
pub(crate) fn authenticators(
    config: &Config,
    believed: &TrustedCas,
    accounts: Arc<ServiceAccountAuthenticator>,
    registry: &Arc<OnceLock<Arc<Registry>>>,
    clock: &Arc<dyn Clock>,
) -> Result<Authenticating> {
    let flags = &config.flags;
    let mut all: Vec<Arc<dyn Authenticator>> = Vec::new();
    all.push(Arc::new(RequestHeader {
        trust: believed.proxies.clone(),
        clock: clock.clone(),
        allowed: flags.requestheader_allowed_names.clone(),
        headers: ProxyHeaders {
            names: flags.requestheader_username_headers.clone(),
            uids: flags.requestheader_uid_headers.clone(),
            groups: flags.requestheader_group_headers.clone(),
            extra_prefixes: flags.requestheader_extra_headers_prefix.clone(),
        },
    }));
    let trust = believed.clients.clone();
    let left = believed.left.clone();
    let with_uid = config.gates.is_enabled(CERTIFICATE_UID);
    all.push(Arc::new(ClientCertAuthenticator { trust, clock: clock.clone(), left, with_uid }));
    if let Some(path) = &flags.basic_auth_file {
        let users = PasswordFile::parse(&reload::text(path)?).context("--basic-auth-file")?;
        all.push(Arc::new(users));
    }
    if let Some(path) = &flags.token_auth_file {
        all.push(Arc::new(TokenFile::parse(&reload::text(path)?).context("--token-auth-file")?));
    }
    all.push(accounts);
    if flags.enable_bootstrap_token_auth {
        all.push(Arc::new(BootstrapTokenAuthenticator {
            registry: registry.clone(),
            clock: clock.clone(),
        }));
    }
    let configured = configured(config)?;
    let anonymous = configured.anonymous.clone();
    ensure!(
        anonymous.is_none() || flags.anonymous_auth.is_none(),
        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"
    );
    let tokens = Arc::new(JwtAuthenticator::new(configured.issuers, clock.clone()));
    all.push(tokens.clone());
    if let Some(path) = &flags.authentication_token_webhook_config_file {
        let ttl = duration(&flags.authentication_token_webhook_cache_ttl)?;
        let version = &flags.authentication_token_webhook_version;
        all.push(Arc::new(TokenWebhook::new(from_kubeconfig(path, &config.egress)?, version, ttl)));
    }
    let flag = AnonymousConfig { enabled: flags.anonymous_auth.unwrap_or(true), paths: Vec::new() };
    all.push(Arc::new(Anonymous(anonymous.clone().unwrap_or(flag))));
    let task = flags.authentication_config.clone().map(|path| -> Task {
        let config = config.clone();
        Box::pin(WatchedFiles::new([path]).watch(move || {
            let new = self::configured(&config)?;
            ensure!(
                new.anonymous == anonymous,
                "anonymous: Forbidden: changed from initial configuration file"
            );
            tokens.replace(new.issuers);
            Ok(())
        }))
    });
    Ok((all, task))
}

/// The JWT issuers and the anonymous configuration, with the proxies to the issuers.
fn configured(config: &Config) -> Result<AuthenticationConfiguration> {
    let mut read = read(config)?;
    for issuer in &mut read.issuers {
        issuer.set_egress(&config.egress);
    }
    Ok(read)
}

fn read(config: &Config) -> Result<AuthenticationConfiguration> {
    let flags = &config.flags;
    let own = flags.service_account_issuer.clone();
    let wrong = "invalid authentication configuration";
    if let Some(path) = &flags.authentication_config {
        return AuthenticationConfiguration::parse(&reload::text(path)?, &own).context(wrong);
    }
    match flags.oidc.configuration()? {
        Some(tree) => {
            AuthenticationConfiguration::read(&tree, &own, &flags.oidc.signing_algs).context(wrong)
        }
        None => Ok(AuthenticationConfiguration { issuers: Vec::new(), anonymous: None }),
    }
}
