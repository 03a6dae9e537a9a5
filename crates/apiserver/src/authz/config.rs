//! Configuration of the authorizers and their order: by the flags, or by an
//! `AuthorizationConfiguration`, which is reloaded while the server runs.

use std::{collections::HashSet, fmt, path::Path as File, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use object::{Value, names};
use pki::Reloadable;
use schema::{ErrorList, ErrorType, FieldPath};
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, Registry, UserInfo};

use super::{
    Abac, AlwaysAllow, AlwaysDeny, NodeAuthorizer, Rbac, SystemMasters, WebhookAuthorizer,
    WebhookSettings, conditions::AuthorizerMatchConditions,
};
use crate::{
    Config,
    config::duration,
    egress::EgressSelector,
    reload::{self, Task, WatchedFiles},
    remote::from_kubeconfig,
    structured::{self, ConfigSchema, FieldKind, aggregate, text},
};

/// The values of `--authorization-mode`, in the order in which upstream's messages list them.
pub(crate) const MODES: &[&str] = &["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

/// Maximum timeout of an authorization webhook.
const LONGEST: Duration = Duration::from_secs(30);

type Authorizers = Vec<Arc<dyn Authorizer>>;

/// What authorizers are built from.
#[derive(Clone)]
pub(crate) struct AuthorizerBuilder {
    pub(crate) config: Config,
    pub(crate) rbac: Rbac,
    pub(crate) registry: Arc<Registry>,
}

/// The authorizers of an `AuthorizationConfiguration`; the first one with an opinion decides.
pub(crate) struct ReloadableAuthorizer(Reloadable<Authorizers>);

impl fmt::Debug for ReloadableAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Configured({:?})", self.0.current())
    }
}

impl Authorizer for ReloadableAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> AuthorizeFuture<'a> {
        let all = self.0.current();
        Box::pin(async move {
            let mut reasons = Vec::new();
            for way in all.iter() {
                match way.authorize(user, attributes).await {
                    Decision::NoOpinion(why) if why.is_empty() => {}
                    Decision::NoOpinion(why) => reasons.push(why),
                    decided => return decided,
                }
            }
            Decision::NoOpinion(reasons.join("\n"))
        })
    }
}

impl AuthorizerBuilder {
    /// The authorizers in order; the first one with an opinion decides. The task reloads the
    /// configuration file, if there is one.
    pub(crate) fn build(self) -> Result<(Authorizers, Option<Task>)> {
        let mut all: Authorizers = vec![Arc::new(SystemMasters)];
        let Some(path) = self.config.flags.authorization_config.clone() else {
            for mode in &self.config.flags.authorization_mode {
                all.push(self.plain(mode)?);
            }
            return Ok((all, None));
        };
        let followed = WatchedFiles::new([path.clone()]);
        let file = parse(&reload::text(&path)?)
            .with_context(|| format!("--authorization-config {}", path.display()))?;
        let required = plain_types(&file);
        let configured = Arc::new(ReloadableAuthorizer(Reloadable::new(self.structured(&file)?)));
        all.push(configured.clone());
        let task = followed.watch(move || {
            let file = parse(&reload::text(&path)?)?;
            let own = plain_types(&file);
            let missing: Vec<_> = required.difference(&own).collect();
            ensure!(missing.is_empty(), "missing required types: {missing:?}");
            configured.0.replace(self.structured(&file)?);
            Ok(())
        });
        Ok((all, Some(Box::pin(task))))
    }

    fn structured(&self, authorizers: &[Value]) -> Result<Authorizers> {
        let make = |entry: &Value| -> Result<Arc<dyn Authorizer>> {
            match text(entry, "type") {
                "Webhook" => Ok(Arc::new(webhook(entry.get("webhook"), &self.config.egress)?)),
                mode => self.plain(mode),
            }
        };
        authorizers.iter().map(make).collect()
    }

    fn plain(&self, mode: &str) -> Result<Arc<dyn Authorizer>> {
        let flags = &self.config.flags;
        Ok(match mode {
            "Node" => {
                let (registry, gates) = (Arc::downgrade(&self.registry), self.config.gates.clone());
                Arc::new(NodeAuthorizer { registry, gates })
            }
            "RBAC" => Arc::new(self.rbac.clone()),
            "AlwaysAllow" => Arc::new(AlwaysAllow),
            "AlwaysDeny" => Arc::new(AlwaysDeny),
            "ABAC" => {
                let path = flags.authorization_policy_file.as_ref();
                let path =
                    path.context("--authorization-mode=ABAC needs --authorization-policy-file")?;
                let policies = reload::text(path)?;
                Arc::new(Abac::parse(&policies).context("--authorization-policy-file")?)
            }
            "Webhook" => {
                let path = flags.authorization_webhook_config_file.as_ref();
                let path = path.context(
                    "--authorization-mode=Webhook needs --authorization-webhook-config-file",
                )?;
                let terms = WebhookSettings {
                    version: flags.authorization_webhook_version.clone(),
                    within: LONGEST,
                    authorized_ttl: duration(&flags.authorization_webhook_cache_authorized_ttl)?,
                    unauthorized_ttl: duration(
                        &flags.authorization_webhook_cache_unauthorized_ttl,
                    )?,
                    deny_on_failure: false,
                    conditions: AuthorizerMatchConditions::default(),
                };
                Arc::new(WebhookAuthorizer::new(from_kubeconfig(path, &self.config.egress)?, terms))
            }
            other => bail!("authorization mode {other:?} is not supported"),
        })
    }
}

/// The authorizer of a validated webhook entry.
fn webhook(tree: &Value, egress: &EgressSelector) -> Result<WebhookAuthorizer> {
    let file = File::new(text(tree.get("connectionInfo"), "kubeConfigFile"));
    let remote = from_kubeconfig(file, egress)?;
    let mut errors = ErrorList::default();
    let conditions = AuthorizerMatchConditions::compile(
        tree.get("matchConditions"),
        &FieldPath::Root,
        &mut errors,
    );
    let ttl = |name: &str, cached: &str, otherwise: &str| {
        if tree.get(cached).as_bool() == Some(false) {
            return Ok(Duration::ZERO);
        }
        duration(Some(text(tree, name)).filter(|text| !text.is_empty()).unwrap_or(otherwise))
    };
    let terms = WebhookSettings {
        version: text(tree, "subjectAccessReviewVersion").to_owned(),
        within: duration(text(tree, "timeout"))?,
        authorized_ttl: ttl("authorizedTTL", "cacheAuthorizedRequests", "5m")?,
        unauthorized_ttl: ttl("unauthorizedTTL", "cacheUnauthorizedRequests", "30s")?,
        deny_on_failure: text(tree, "failurePolicy") == "Deny",
        conditions,
    };
    Ok(WebhookAuthorizer::new(remote, terms))
}

/// Parses and validates the authorizers of a file, with upstream's messages.
fn parse(yaml: &str) -> Result<Vec<Value>> {
    let file = structured::read(yaml, &CONFIGURATION, &["v1", "v1beta1", "v1alpha1"])?;
    let mut errors = ErrorList::default();
    let all = file.get("authorizers").items();
    let root = FieldPath::Root.field("authorizers");
    if all.is_empty() {
        errors.required(&root, "at least one authorization mode must be defined");
    }
    let (mut types, mut seen) = (HashSet::new(), HashSet::new());
    for (at, entry) in all.iter().enumerate() {
        let path = root.index(at);
        let (mode, name) = (text(entry, "type"), text(entry, "name"));
        let place = path.field("type");
        if mode.is_empty() {
            errors.required(&place, "");
            continue;
        } else if !MODES.contains(&mode) {
            errors.not_supported(&place, mode, MODES);
            continue;
        } else if !types.insert(mode) && mode != "Webhook" {
            errors.duplicate(&place, mode);
            continue;
        }
        let place = path.field("name");
        if name.is_empty() {
            errors.required(&place, "");
        } else if !seen.insert(name) {
            errors.duplicate(&place, name);
        } else {
            let wrong = names::dns1123_subdomain(name);
            if !wrong.is_empty() {
                let why = format!("authorizer name is invalid: {}", wrong.join(", "));
                errors.invalid(&place, name, why);
            }
        }
        let webhook = entry.get("webhook");
        match (mode, webhook.is_object()) {
            ("Webhook", false) => {
                errors.required(&path.field("webhook"), "required when type=Webhook");
            }
            ("Webhook", true) => check_webhook(webhook, &path, &mut errors),
            (_, true) => {
                let why = "may only be specified when type=Webhook";
                errors.invalid(&path.field("webhook"), "non-null", why);
            }
            _ => {}
        }
    }
    if !errors.is_empty() {
        bail!(aggregate(&errors));
    }
    let misnamed = all.iter().filter_map(|entry| {
        let (mode, name) = (text(entry, "type"), text(entry, "name"));
        let expected = mode.to_lowercase();
        let wrong = mode != "Webhook" && name != expected;
        wrong.then(|| format!("expected name {expected} for authorizer {mode} instead of {name}"))
    });
    let misnamed: Vec<String> = misnamed.collect();
    ensure!(misnamed.is_empty(), structured::all(misnamed));
    Ok(all.to_vec())
}

const CONFIGURATION: ConfigSchema =
    ConfigSchema("AuthorizationConfiguration", &[("authorizers", FieldKind::List(&AUTHORIZER))]);
const AUTHORIZER: ConfigSchema = ConfigSchema(
    "AuthorizerConfiguration",
    &[
        ("type", FieldKind::Text),
        ("name", FieldKind::Text),
        ("webhook", FieldKind::Object(&WEBHOOK)),
    ],
);
const WEBHOOK: ConfigSchema = ConfigSchema(
    "WebhookConfiguration",
    &[
        ("authorizedTTL", FieldKind::Duration),
        ("cacheAuthorizedRequests", FieldKind::Bool),
        ("unauthorizedTTL", FieldKind::Duration),
        ("cacheUnauthorizedRequests", FieldKind::Bool),
        ("timeout", FieldKind::Duration),
        ("subjectAccessReviewVersion", FieldKind::Text),
        ("matchConditionSubjectAccessReviewVersion", FieldKind::Text),
        ("failurePolicy", FieldKind::Text),
        ("connectionInfo", FieldKind::Object(&CONNECTION)),
        ("matchConditions", FieldKind::List(&CONDITION)),
    ],
);
const CONNECTION: ConfigSchema = ConfigSchema(
    "WebhookConnectionInfo",
    &[("type", FieldKind::Text), ("kubeConfigFile", FieldKind::Text)],
);
const CONDITION: ConfigSchema =
    ConfigSchema("WebhookMatchCondition", &[("expression", FieldKind::Text)]);

fn check_webhook(tree: &Value, path: &FieldPath<'_>, errors: &mut ErrorList) {
    for name in ["timeout", "authorizedTTL", "unauthorizedTTL"] {
        let (place, given) = (path.field(name), text(tree, name));
        let most = if name == "timeout" { LONGEST } else { Duration::MAX };
        // Zero counts as unset. Only the timeout has no default.
        match given {
            given if given.is_empty() || duration(given).is_ok_and(|own| own.is_zero()) => {
                if name == "timeout" {
                    errors.required(&place, "");
                }
            }
            given if duration(given).is_ok_and(|own| own <= most) => {}
            given if name == "timeout" => errors.invalid(&place, given, "must be > 0s and <= 30s"),
            given => errors.invalid(&place, given, "must be > 0s"),
        }
    }
    let choice = |name: &str, allowed: &[&str], errors: &mut ErrorList| match text(tree, name) {
        "" => errors.required(&path.field(name), ""),
        given => errors.one_of(&path.field(name), given, allowed),
    };
    choice("subjectAccessReviewVersion", &["v1", "v1beta1"], errors);
    choice("failurePolicy", &["NoOpinion", "Deny"], errors);
    let conditions = tree.get("matchConditions");
    let place = path.field("matchConditionSubjectAccessReviewVersion");
    match text(tree, "matchConditionSubjectAccessReviewVersion") {
        "" if conditions.items().is_empty() => {}
        "" => errors.required(&place, "required if match conditions are specified"),
        given => errors.one_of(&place, given, &["v1"]),
    }
    check_connection(tree.get("connectionInfo"), &path.field("connectionInfo"), errors);
    AuthorizerMatchConditions::compile(conditions, path, errors);
}

fn check_connection(tree: &Value, path: &FieldPath<'_>, errors: &mut ErrorList) {
    let (place, file) = (path.field("kubeConfigFile"), text(tree, "kubeConfigFile"));
    match text(tree, "type") {
        "" => errors.required(&path.field("type"), ""),
        "KubeConfigFile" if file.is_empty() => errors.required(&place, ""),
        "KubeConfigFile" if !File::new(file).is_absolute() => {
            errors.invalid(&place, file, "must be an absolute path");
        }
        "KubeConfigFile" => match std::fs::metadata(file) {
            Ok(about) if about.is_file() => {}
            Ok(_) => errors.invalid(&place, file, "must be a regular file"),
            Err(error) => {
                let why = error.to_string();
                let why = why.split(" (os error").next().unwrap_or_default().to_lowercase();
                errors.invalid(&place, file, format!("error loading file: stat {file}: {why}"));
            }
        },
        "InClusterConfig" if !file.is_empty() => {
            errors.invalid(&place, file, "can only be set when type=KubeConfigFile");
        }
        // Upstream uses the service account of its pod here; this server does not run in a pod.
        "InClusterConfig" => errors.invalid(
            &path.field("type"),
            "InClusterConfig",
            "is not supported: the server takes a kubeconfig",
        ),
        other => {
            let shown = format!("{{\"Type\":{other:?},\"KubeConfigFile\":null}}");
            let known = "supported values: \"InClusterConfig\", \"KubeConfigFile\"";
            errors.push(ErrorType::NotSupported, &path.field("type"), object::NULL.clone(), known);
            if let Some(last) = errors.0.last_mut() {
                last.formatted_value = Some(shown);
            }
        }
    }
}

/// The authorizer types of a file other than Webhook, which a reload may not remove.
fn plain_types(file: &[Value]) -> HashSet<String> {
    let types = file.iter().map(|entry| text(entry, "type").to_owned());
    types.filter(|mode| mode != "Webhook").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(authorizers: &str) -> String {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
        match parse(&format!("{head}authorizers: {authorizers}\n")) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        assert_eq!(refusal("[{type: Node, name: node}, {type: RBAC, name: rbac}]"), "");
        let cases = [
            ("[]", "authorizers: Required value: at least one authorization mode must be defined"),
            ("[{type: Magic, name: m}]", "authorizers[0].type: Unsupported value: \"Magic\""),
            (
                "[{type: RBAC, name: rbac}, {type: RBAC, name: other}]",
                "authorizers[1].type: Duplicate value: \"RBAC\"",
            ),
            (
                "[{type: RBAC, name: mine}]",
                "expected name rbac for authorizer RBAC instead of mine",
            ),
            ("[{type: Webhook, name: w}]", "authorizers[0].webhook: Required value"),
            (
                "[{type: Webhook, name: w, webhook: {timeout: 31s}}]",
                "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s",
            ),
            (
                "[{type: Webhook, name: w, webhook: {matchConditions: [{expression: \"1\"}]}}]",
                "authorizers[0].matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
            ),
        ];
        for (text, expected) in cases {
            let said = refusal(text);
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    /// The error message for a webhook with another field.
    fn of_webhook(field: &str) -> String {
        refusal(&format!(
            "[{{type: Webhook, name: w, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, \
             matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, \
             connectionInfo: {{type: KubeConfigFile, kubeConfigFile: /dev/null/x}}, {field}}}}}]"
        ))
    }

    #[test]
    fn webhooks_are_described_whole() {
        let file = r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/dev/null/x": error loading file: stat /dev/null/x: not a directory"#;
        for (field, expected) in [
            ("authorizedTTL: 0s", file.to_owned()),
            ("authorizedTTL: x", "time: invalid duration \"x\"".to_owned()),
            (
                "unauthorizedTTL: 5",
                "json: cannot unmarshal number into Go struct field WebhookConfiguration.authorizers.webhook.unauthorizedTTL of type string".to_owned(),
            ),
            (
                "nope: 1",
                r#"strict decoding error: unknown field "authorizers[0].webhook.nope""#.to_owned(),
            ),
            (
                "authorizedTTL: -1s",
                format!(r#"[authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s, {file}]"#),
            ),
            (
                r#"matchConditions: [{expression: "request.user =="}]"#,
                format!("[{file}, authorizers[0].matchConditions[0].expression: Invalid value: \"request.user ==\": compilation failed: ERROR: <input>:1:16: Syntax error: mismatched input '<EOF>' expecting {{'[', '{{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}\n | request.user ==\n | ...............^]"),
            ),
            (
                "matchConditions: [{expression: request.resourceAttributes.nope}]",
                format!("[{file}, authorizers[0].matchConditions[0].expression: Invalid value: \"request.resourceAttributes.nope\": compilation failed: ERROR: <input>:1:27: undefined field 'nope'\n | request.resourceAttributes.nope\n | ..........................^]"),
            ),
        ] {
            assert_eq!(of_webhook(field), expected, "{field}");
        }
    }
}
