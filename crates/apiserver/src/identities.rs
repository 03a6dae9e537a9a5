//! All ways in which callers show who they are, and all opinions on what they may do, as
//! the flags say.

use std::{
    fs,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use object::{Clock, Value, yaml::from_yaml};
use pki::{Cluster, Trust};
use server::{Authenticate, Authorize, Registry};

use crate::{
    Config,
    authn::{
        BootstrapTokens, Certificates, PasswordFile, RequestHeader, ServiceAccounts, TokenFile,
        TokenWebhook,
    },
    authz::{Abac, AccessWebhook, AlwaysAllow, AlwaysDeny, Masters, NodeAuthorizer, Rbac, Terms},
    remote::from_kubeconfig,
};

/// The authorities that client certificates are signed by: the cluster's own, and those
/// of `--client-ca-file`.
pub(crate) fn client_trust(config: &Config, cluster: &Cluster) -> Result<Trust> {
    let mut all = vec![cluster.ca.certificate().clone()];
    if let Some(path) = &config.flags.client_ca_file {
        all.extend(pki::certificates(&read(path)?)?);
    }
    Ok(Trust::new(&all)?)
}

/// The first that understands a request decides who calls.
pub(crate) fn authenticators(
    config: &Config,
    cluster: &Cluster,
    accounts: Arc<ServiceAccounts>,
    registry: &Arc<OnceLock<Arc<Registry>>>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Authenticate>>> {
    let flags = &config.flags;
    let mut all: Vec<Arc<dyn Authenticate>> = Vec::new();
    let proxies = match &flags.requestheader_client_ca_file {
        Some(path) => Trust::new(&pki::certificates(&read(path)?)?)?,
        None => Trust::new(&[cluster.front_proxy_ca.certificate().clone()])?,
    };
    all.push(Arc::new(RequestHeader {
        trust: proxies,
        clock: clock.clone(),
        allowed: flags.requestheader_allowed_names.clone(),
        names: flags.requestheader_username_headers.clone(),
        uids: flags.requestheader_uid_headers.clone(),
        groups: flags.requestheader_group_headers.clone(),
        extra_prefixes: flags.requestheader_extra_headers_prefix.clone(),
    }));
    all.push(Arc::new(Certificates {
        trust: client_trust(config, cluster)?,
        clock: clock.clone(),
    }));
    if let Some(path) = &flags.basic_auth_file {
        all.push(Arc::new(PasswordFile::parse(&text(path)?).context("--basic-auth-file")?));
    }
    if let Some(path) = &flags.token_auth_file {
        all.push(Arc::new(TokenFile::parse(&text(path)?).context("--token-auth-file")?));
    }
    all.push(accounts);
    if flags.enable_bootstrap_token_auth {
        all.push(Arc::new(BootstrapTokens { registry: registry.clone(), clock: clock.clone() }));
    }
    if let Some(path) = &flags.authentication_token_webhook_config_file {
        let ttl = duration(&flags.authentication_token_webhook_cache_ttl)?;
        all.push(Arc::new(TokenWebhook::new(from_kubeconfig(path)?, ttl)));
    }
    Ok(all)
}

/// The first that has an opinion decides.
pub(crate) fn authorizers(
    config: &Config,
    rbac: &Rbac,
    registry: &Arc<Registry>,
) -> Result<Vec<Arc<dyn Authorize>>> {
    let flags = &config.flags;
    let mut all: Vec<Arc<dyn Authorize>> = vec![Arc::new(Masters)];
    if let Some(path) = &flags.authorization_config {
        for entry in configured(path)? {
            let webhook = entry.get("webhook");
            match entry.get("type").as_str().unwrap_or_default() {
                "Webhook" => all.push(Arc::new(structured(path, webhook)?)),
                mode => all.push(plain(mode, config, rbac, registry)?),
            }
        }
        return Ok(all);
    }
    for mode in &flags.authorization_mode {
        all.push(plain(mode, config, rbac, registry)?);
    }
    Ok(all)
}

fn plain(
    mode: &str,
    config: &Config,
    rbac: &Rbac,
    registry: &Arc<Registry>,
) -> Result<Arc<dyn Authorize>> {
    let flags = &config.flags;
    Ok(match mode {
        "Node" => Arc::new(NodeAuthorizer { registry: Arc::downgrade(registry) }),
        "RBAC" => Arc::new(rbac.clone()),
        "AlwaysAllow" => Arc::new(AlwaysAllow),
        "AlwaysDeny" => Arc::new(AlwaysDeny),
        "ABAC" => {
            let path = flags.authorization_policy_file.as_ref();
            let path =
                path.context("--authorization-mode=ABAC needs --authorization-policy-file")?;
            Arc::new(Abac::parse(&text(path)?).context("--authorization-policy-file")?)
        }
        "Webhook" => {
            let path = flags.authorization_webhook_config_file.as_ref();
            let path = path.context(
                "--authorization-mode=Webhook needs --authorization-webhook-config-file",
            )?;
            let terms = Terms {
                within: Duration::from_secs(30),
                authorized_ttl: duration(&flags.authorization_webhook_cache_authorized_ttl)?,
                unauthorized_ttl: duration(&flags.authorization_webhook_cache_unauthorized_ttl)?,
                deny_on_failure: false,
            };
            Arc::new(AccessWebhook::new(from_kubeconfig(path)?, terms))
        }
        other => bail!("authorization mode {other:?} is not supported"),
    })
}

/// The authorizers of an `AuthorizationConfiguration`.
fn configured(path: &Path) -> Result<Vec<Value>> {
    let file = from_yaml(&text(path)?)?;
    let kind = file.get("kind").as_str().unwrap_or_default();
    ensure!(kind == "AuthorizationConfiguration", "{}: kind {kind:?} is none", path.display());
    let all = file.get("authorizers").items().to_vec();
    ensure!(!all.is_empty(), "{}: names no authorizer", path.display());
    Ok(all)
}

fn structured(path: &Path, webhook: &Value) -> Result<AccessWebhook> {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    ensure!(
        webhook.get("matchConditions").items().is_empty(),
        "{}: matchConditions of a webhook are not supported",
        path.display()
    );
    let connection = webhook.get("connectionInfo");
    ensure!(
        text(connection, "type") == "KubeConfigFile",
        "{}: connectionInfo.type must be KubeConfigFile",
        path.display()
    );
    let folder = path.parent().unwrap_or(path);
    let remote = from_kubeconfig(&folder.join(text(connection, "kubeConfigFile")))?;
    let or = |name: &str, otherwise: &str| match &*text(webhook, name) {
        "" => duration(otherwise),
        given => duration(given),
    };
    let terms = Terms {
        within: or("timeout", "30s")?,
        authorized_ttl: or("authorizedTTL", "5m")?,
        unauthorized_ttl: or("unauthorizedTTL", "30s")?,
        deny_on_failure: match &*text(webhook, "failurePolicy") {
            "Deny" => true,
            "NoOpinion" => false,
            other => {
                bail!("{}: failurePolicy {other:?} is neither Deny nor NoOpinion", path.display())
            }
        },
    };
    Ok(AccessWebhook::new(remote, terms))
}

/// As Go writes durations: `2m0s`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let nanos = object::Duration::nanos(text).map_err(|why| anyhow::anyhow!("{text:?}: {why}"))?;
    Ok(Duration::from_nanos(u64::try_from(nanos).context("a duration cannot be negative")?))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
