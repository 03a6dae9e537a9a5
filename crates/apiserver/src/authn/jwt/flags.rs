//! The `--oidc-*` flags: one issuer, described as in an AuthenticationConfiguration.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use object::Value;

use crate::reload;

/// Who issues the tokens of people.
#[derive(Args, Clone, Debug, Default)]
pub struct OidcFlags {
    /// The address of an OpenID issuer, whose tokens are believed.
    #[arg(long = "oidc-issuer-url", value_name = "URL")]
    pub issuer_url: Option<String>,
    /// Whom its tokens must be meant for.
    #[arg(long = "oidc-client-id")]
    pub client_id: Option<String>,
    /// The authorities that sign the issuer's certificate.
    #[arg(long = "oidc-ca-file", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The claim that is the user's name.
    #[arg(long = "oidc-username-claim", default_value = "sub")]
    pub username_claim: String,
    /// What names of users begin with; -: nothing. Without it: the issuer's address, where
    /// the name is no e-mail address.
    #[arg(long = "oidc-username-prefix")]
    pub username_prefix: Option<String>,
    /// The claim that is the user's groups.
    #[arg(long = "oidc-groups-claim")]
    pub groups_claim: Option<String>,
    /// What names of groups begin with.
    #[arg(long = "oidc-groups-prefix")]
    pub groups_prefix: Option<String>,
    /// How tokens may be signed.
    #[arg(long = "oidc-signing-algs", value_delimiter = ',', default_value = "RS256")]
    pub signing_algs: Vec<String>,
    /// A claim that must be there, with this value: claim=value. May be said again.
    #[arg(long = "oidc-required-claim", value_name = "CLAIM=VALUE")]
    pub required_claim: Vec<String>,
}

impl OidcFlags {
    /// Whether any of the flags is set.
    pub(crate) fn any(&self) -> bool {
        let Self { issuer_url, client_id, ca_file, username_prefix, .. } = self;
        issuer_url.is_some()
            || client_id.is_some()
            || ca_file.is_some()
            || username_prefix.is_some()
            || self.username_claim != "sub"
            || self.groups_claim.is_some()
            || self.groups_prefix.is_some()
            || self.signing_algs != ["RS256"]
            || !self.required_claim.is_empty()
    }

    /// The flags as an AuthenticationConfiguration; `None` if none is set.
    pub(crate) fn configuration(&self) -> Result<Option<Value>> {
        if !self.any() {
            return Ok(None);
        }
        let (Some(issuer), Some(client)) = (&self.issuer_url, &self.client_id) else {
            anyhow::bail!(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
            );
        };
        for algorithm in &self.signing_algs {
            ensure!(
                pki::SIGNING_ALGORITHMS.contains(&algorithm.as_str()),
                "oidc: unsupported signing alg: {algorithm:?}"
            );
        }
        let mut jwt = Value::object();
        jwt["issuer"]["url"] = issuer.as_str().into();
        jwt["issuer"]["audiences"] = [client.as_str()].into_iter().collect();
        if let Some(path) = &self.ca_file {
            jwt["issuer"]["certificateAuthority"] =
                reload::text(path).context("--oidc-ca-file")?.into();
        }
        let prefix = match self.username_prefix.as_deref() {
            Some("-") => String::new(),
            None | Some("") if self.username_claim != "email" => format!("{issuer}#"),
            given => given.unwrap_or_default().to_owned(),
        };
        jwt["claimMappings"]["username"]["claim"] = self.username_claim.as_str().into();
        jwt["claimMappings"]["username"]["prefix"] = prefix.into();
        if let Some(claim) = &self.groups_claim {
            jwt["claimMappings"]["groups"]["claim"] = claim.as_str().into();
            let prefix = self.groups_prefix.as_deref().unwrap_or_default();
            jwt["claimMappings"]["groups"]["prefix"] = prefix.into();
        }
        let mut rules = Vec::new();
        for required in &self.required_claim {
            let (claim, value) = required
                .split_once('=')
                .with_context(|| format!("malformed pair, expect string=string: {required:?}"))?;
            let mut rule = Value::object();
            rule["claim"] = claim.trim().into();
            rule["requiredValue"] = value.trim().into();
            rules.push(rule);
        }
        jwt["claimValidationRules"] = rules.into_iter().collect();
        let mut configuration = Value::object();
        configuration["apiVersion"] = "apiserver.config.k8s.io/v1".into();
        configuration["kind"] = "AuthenticationConfiguration".into();
        configuration["jwt"] = [jwt].into_iter().collect();
        Ok(Some(configuration))
    }
}
