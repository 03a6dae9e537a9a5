//! `AuthenticationConfiguration`: decoded, validated with upstream's messages, and compiled.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Result, bail};
use cel::Environment;
use client::{Pem, TlsOptions};
use object::Value;
use schema::{ErrorList, ErrorType, FieldPath};

use super::{
    JwtIssuer, TokenRequirements,
    check::{check_email, check_issuer, check_key},
    config_fields::CONFIGURATION,
    distributed_claims::DistributedClaims,
    keys::RemoteKeySet,
    mapping::{ClaimMappings, ClaimSource, Expression, JwtValidationRule},
};
use crate::structured::{self, aggregate, text, texts};

/// Maximum number of issuers.
const MOST: usize = 64;

/// The contents of the configuration file.
#[derive(Debug)]
pub(crate) struct AuthenticationConfiguration {
    pub(crate) issuers: Vec<JwtIssuer>,
    /// `None` if `--anonymous-auth` decides.
    pub(crate) anonymous: Option<AnonymousConfig>,
}

/// Whether anonymous requests are accepted, and for which paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnonymousConfig {
    pub(crate) enabled: bool,
    /// The only paths that accept anonymous requests; empty means all.
    pub(crate) paths: Vec<String>,
}

impl AuthenticationConfiguration {
    /// `own` are the issuers of this server itself, which may not be configured.
    pub(crate) fn parse(yaml: &str, own: &[String]) -> Result<Self> {
        let algorithms = pki::SIGNING_ALGORITHMS.map(str::to_owned);
        let file = structured::read(yaml, &CONFIGURATION, &["v1", "v1beta1", "v1alpha1"])?;
        Self::read(&file, own, &algorithms)
    }

    /// Validates and compiles a decoded configuration; `algorithms` are the signing algorithms that
    /// are accepted.
    pub(crate) fn read(file: &Value, own: &[String], algorithms: &[String]) -> Result<Self> {
        let mut errors = ErrorList::default();
        let all = file.get("jwt").items();
        let root = FieldPath::Root.field("jwt");
        if all.len() > MOST {
            errors.too_many_with_count(&root, all.len(), MOST);
            bail!(aggregate(&errors));
        }
        let environments = CelEnvironments {
            claims: cel::access::claims_environment(),
            user: cel::access::user_environment(),
        };
        let mut issuers = Vec::new();
        let (mut urls, mut discoveries) = (HashSet::new(), HashSet::new());
        for (at, tree) in all.iter().enumerate() {
            let path = root.index(at);
            issuers.extend(environments.issuer(tree, &path, (own, algorithms), &mut errors));
            let (place, issuer) = (path.field("issuer"), tree.get("issuer"));
            if !urls.insert(text(issuer, "url")) {
                errors.duplicate(&place.field("url"), text(issuer, "url"));
            }
            let discovery = text(issuer, "discoveryURL");
            if !discovery.is_empty() && !discoveries.insert(discovery) {
                errors.duplicate(&place.field("discoveryURL"), discovery);
            }
        }
        let anonymous = anonymous(file.get("anonymous"), &mut errors);
        if !errors.is_empty() {
            bail!(aggregate(&errors));
        }
        Ok(Self { issuers, anonymous })
    }
}

/// The CEL environments in which claim and user expressions are compiled.
struct CelEnvironments {
    claims: Arc<Environment>,
    user: Arc<Environment>,
}

impl CelEnvironments {
    /// Compiles an issuer; `None` if it is invalid, with the reason in `errors`.
    fn issuer(
        &self,
        tree: &Value,
        path: &FieldPath<'_>,
        (own, algorithms): (&[String], &[String]),
        errors: &mut ErrorList,
    ) -> Option<JwtIssuer> {
        let issuer = tree.get("issuer");
        check_issuer(issuer, &path.field("issuer"), own, errors);
        let rules = path.field("claimValidationRules");
        let (required, claim_rules) = self.claim_rules(tree, &rules, errors);
        let mappings = tree.get("claimMappings");
        let place = path.field("claimMappings");
        let username = self.source(mappings, &place, "username", errors);
        if username.is_none() && mappings.get("username").entries().len() == 0 {
            errors.required(&place.field("username"), "claim or expression is required");
        }
        let groups = self.source(mappings, &place, "groups", errors);
        let uid = self.source(mappings, &place, "uid", errors);
        let extra = self.extra(mappings, &place, errors);
        check_email(username.as_ref(), &claim_rules, &extra, &place, errors);
        let user_rules = tree.get("userValidationRules");
        let user_rules = self.user_rules(user_rules, &path.field("userValidationRules"), errors);
        let pem = Some(text(issuer, "certificateAuthority")).filter(|pem| !pem.is_empty());
        let authorities = pem.map(|pem| Pem::Data(pem.as_bytes().to_vec()));
        let tls = TlsOptions { ca: authorities, ..TlsOptions::default() };
        let distributed = DistributedClaims::new(groups.as_ref(), tls.clone());
        let mappings = ClaimMappings {
            username: username?,
            groups,
            uid,
            extra,
            required,
            claim_rules,
            user_rules,
        };
        Some(JwtIssuer {
            url: text(issuer, "url").to_owned(),
            terms: TokenRequirements {
                audiences: texts(issuer.get("audiences")),
                algorithms: algorithms.to_vec(),
            },
            keys: RemoteKeySet::new(text(issuer, "url"), text(issuer, "discoveryURL"), tls),
            distributed,
            mappings,
            egress: text(issuer, "egressSelectorType").to_owned(),
        })
    }

    /// Compiles a claim with its prefix, or an expression.
    fn source(
        &self,
        of: &Value,
        path: &FieldPath<'_>,
        name: &str,
        errors: &mut ErrorList,
    ) -> Option<ClaimSource> {
        let (tree, path) = (of.get(name), path.field(name));
        let (claim, expression) = (text(tree, "claim"), text(tree, "expression"));
        let prefix = tree.get("prefix");
        match (claim.is_empty(), expression.is_empty()) {
            (false, false) => {
                errors.invalid(&path, "", "claim and expression can't both be set");
                None
            }
            (true, true) => {
                if name == "username" && tree.entries().len() > 0 {
                    errors.required(&path, "claim or expression is required");
                }
                None
            }
            (true, false) => {
                if !prefix.is_null() {
                    let why = "may not be specified when expression is set";
                    errors.invalid(&path.field("prefix"), prefix.clone(), why);
                }
                let at = path.field("expression");
                compile(&self.claims, expression, false, &at, errors).map(ClaimSource::Expression)
            }
            (false, true) => {
                if prefix.is_null() && name != "uid" {
                    let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                    errors.required(&path.field("prefix"), why);
                }
                let prefix = text(tree, "prefix").to_owned();
                Some(ClaimSource::Claim { name: claim.to_owned(), prefix })
            }
        }
    }

    fn claim_rules(
        &self,
        tree: &Value,
        path: &FieldPath<'_>,
        errors: &mut ErrorList,
    ) -> (Vec<(String, String)>, Vec<JwtValidationRule>) {
        let (mut required, mut rules) = (Vec::new(), Vec::new());
        let (mut claims, mut expressions) = (HashSet::new(), HashSet::new());
        for (at, tree) in tree.get("claimValidationRules").items().iter().enumerate() {
            let path = path.index(at);
            let (claim, expression) = (text(tree, "claim"), text(tree, "expression"));
            let message = text(tree, "message");
            let value = text(tree, "requiredValue");
            match (claim.is_empty(), expression.is_empty()) {
                (false, false) => {
                    errors.invalid(&path, claim, "claim and expression can't both be set");
                }
                (true, true) => errors.required(&path, "claim or expression is required"),
                (false, true) => {
                    if !message.is_empty() {
                        let why = "may not be specified when claim is set";
                        errors.invalid(&path.field("message"), message, why);
                    }
                    if !claims.insert(claim) {
                        errors.duplicate(&path.field("claim"), claim);
                    }
                    required.push((claim.to_owned(), value.to_owned()));
                }
                (true, false) => {
                    if !value.is_empty() {
                        let why = "may not be specified when expression is set";
                        errors.invalid(&path.field("requiredValue"), value, why);
                    }
                    let place = path.field("expression");
                    if !expressions.insert(expression) {
                        errors.duplicate(&place, expression);
                        continue;
                    }
                    let compiled = compile(&self.claims, expression, true, &place, errors);
                    let message = message.to_owned();
                    rules.extend(
                        compiled.map(|expression| JwtValidationRule { expression, message }),
                    );
                }
            }
        }
        (required, rules)
    }

    fn user_rules(
        &self,
        all: &Value,
        path: &FieldPath<'_>,
        errors: &mut ErrorList,
    ) -> Vec<JwtValidationRule> {
        let (mut rules, mut seen) = (Vec::new(), HashSet::new());
        for (at, tree) in all.items().iter().enumerate() {
            let path = path.index(at);
            let (place, expression) = (path.field("expression"), text(tree, "expression"));
            if expression.is_empty() {
                errors.required(&place, "");
            } else if !seen.insert(expression) {
                errors.duplicate(&place, expression);
            } else if let Some(expression) = compile(&self.user, expression, true, &place, errors) {
                rules.push(JwtValidationRule {
                    expression,
                    message: text(tree, "message").to_owned(),
                });
            }
        }
        rules
    }

    fn extra(
        &self,
        mappings: &Value,
        path: &FieldPath<'_>,
        errors: &mut ErrorList,
    ) -> Vec<(String, Expression)> {
        let root = path.field("extra");
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for (at, tree) in mappings.get("extra").items().iter().enumerate() {
            let path = root.index(at);
            let (key, source) = (text(tree, "key"), text(tree, "valueExpression"));
            check_key(key, &path.field("key"), errors);
            if !seen.insert(key) {
                errors.duplicate(&path.field("key"), key);
                continue;
            }
            let place = path.field("valueExpression");
            if source.is_empty() {
                errors.required(&place, "");
            } else if let Some(compiled) = compile(&self.claims, source, false, &place, errors) {
                all.push((key.to_owned(), compiled));
            }
        }
        all
    }
}

fn compile(
    environment: &Arc<Environment>,
    source: &str,
    truth: bool,
    path: &FieldPath<'_>,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match environment.compile(source) {
        Ok(program) if truth && *program.output_type() != cel::Type::Bool => {
            errors.invalid(path, source, "must evaluate to bool");
            None
        }
        Ok(program) => match program.instantiation_error() {
            Some(flaw) => {
                let why = format!("{}{flaw}", cel::INSTANTIATION_FAILED);
                errors.push(ErrorType::Internal, path, Value::Null, why);
                None
            }
            None => Some(Expression { source: source.to_owned(), program }),
        },
        Err(why) => {
            errors.invalid(path, source, format!("compilation failed: {why}"));
            None
        }
    }
}

fn anonymous(tree: &Value, errors: &mut ErrorList) -> Option<AnonymousConfig> {
    if !tree.is_object() {
        return None;
    }
    let path = FieldPath::Root.field("anonymous");
    let conditions = tree.get("conditions");
    let enabled = tree.get("enabled").as_bool().unwrap_or_default();
    if !enabled && !conditions.items().is_empty() {
        let why = "enabled should be set to true when conditions are defined";
        let paths =
            conditions.items().iter().map(|one| format!("{{\"Path\":{:?}}}", text(one, "path")));
        let shown = format!("[{}]", paths.collect::<Vec<_>>().join(","));
        errors.invalid_formatted(&path.field("conditions"), shown, why);
    }
    let paths = conditions.items().iter().map(|condition| text(condition, "path").to_owned());
    Some(AnonymousConfig { enabled, paths: paths.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(jwt: &str) -> String {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- {jwt}\n"
        );
        let own = ["https://kubernetes.default.svc".to_owned()];
        match AuthenticationConfiguration::parse(&text, &own) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        let good = r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ""}}}"#;
        assert_eq!(refusal(good), "");
        let cases = [
            (
                r#"{issuer: {url: "http://i", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ""}}}"#,
                r#"jwt[0].issuer.url: Invalid value: "http://i": URL scheme must be https"#,
            ),
            (
                r#"{issuer: {url: "https://kubernetes.default.svc", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ""}}}"#,
                "URL must not overlap with disallowed issuers",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a, b]}, claimMappings: {username: {claim: sub, prefix: ""}}}"#,
                "audienceMatchPolicy must be MatchAny for multiple audiences",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {claim: sub}}}"#,
                "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}}"#,
                "jwt[0].claimMappings.username: Required value: claim or expression is required",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {expression: "claims.email"}}}"#,
                "claims.email_verified must be used",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {expression: "claims.sub"}}, claimValidationRules: [{expression: "claims.a + 'b'"}]}"#,
                "jwt[0].claimValidationRules[0].expression: Invalid value",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {expression: "claims.sub"}, extra: [{key: foo, valueExpression: "'a'"}]}}"#,
                "must be a domain-prefixed path",
            ),
            (
                r#"{issuer: {url: "https://i", audiences: [a]}, claimMappings: {username: {expression: "claims.sub"}}, nope: 1}"#,
                r#"strict decoding error: unknown field "jwt[0].nope""#,
            ),
        ];
        for (jwt, expected) in cases {
            let said = refusal(jwt);
            assert!(said.contains(expected), "{jwt}: {said}");
        }
    }

    /// The error message for an issuer with another field.
    fn of_issuer(field: &str) -> String {
        let mappings = r#"claimMappings: {username: {claim: sub, prefix: ""}}"#;
        refusal(&format!(
            r#"{{issuer: {{url: "https://i", audiences: [a], {field}}}, {mappings}}}"#
        ))
    }

    #[test]
    fn issuers_are_addresses_with_certificates() {
        for (field, expected) in [
            (r#"discoveryURL: "https://d""#, ""),
            (
                r#"discoveryURL: "https://i/""#,
                r#"jwt[0].issuer.discoveryURL: Invalid value: "https://i/": discoveryURL must be different from URL"#,
            ),
            (
                r#"discoveryURL: "::""#,
                r#"jwt[0].issuer.discoveryURL: Invalid value: "::": parse "::": missing protocol scheme"#,
            ),
            (
                r#"discoveryURL: "https://a b""#,
                r#"jwt[0].issuer.discoveryURL: Invalid value: "https://a b": parse "https://a b": invalid character " " in host name"#,
            ),
            (
                r#"discoveryURL: "https://u:p@d?q#f""#,
                r#"[jwt[0].issuer.discoveryURL: Invalid value: "https://u:p@d?q#f": URL must not contain a username or password, jwt[0].issuer.discoveryURL: Invalid value: "https://u:p@d?q#f": URL must not contain a query, jwt[0].issuer.discoveryURL: Invalid value: "https://u:p@d?q#f": URL must not contain a fragment]"#,
            ),
            (
                "certificateAuthority: nope",
                r#"jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates"#,
            ),
            (
                r#"certificateAuthority: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n""#,
                r#"jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": x509: malformed certificate"#,
            ),
            (
                "egressSelectorType: nope",
                r#"jwt[0].issuer.egressSelectorType: Invalid value: "nope": egress selector must be either controlplane or cluster"#,
            ),
            (
                "audienceMatchPolicy: 1",
                "json: cannot unmarshal number into Go struct field Issuer.jwt.issuer.audienceMatchPolicy of type string",
            ),
        ] {
            assert_eq!(of_issuer(field), expected, "{field}");
        }
    }

    /// The error message for a username expression.
    fn of_username(source: &str) -> String {
        let said = refusal(&format!(
            r#"{{issuer: {{url: "https://i", audiences: [a]}}, claimMappings: {{username: {{expression: {source:?}}}}}}}"#
        ));
        let place =
            format!("jwt[0].claimMappings.username.expression: Invalid value: {source:?}: ");
        said.strip_prefix(&place).map_or_else(|| said.clone(), str::to_owned)
    }

    #[test]
    fn expressions_are_about_claims() {
        let missing = |name: &str, source: &str| {
            let at = "undeclared reference to";
            format!(
                "compilation failed: ERROR: <input>:1:1: {at} '{name}' (in container '')\n | {source}\n | ^"
            )
        };
        let verified = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
        for (source, expected) in [
            ("claims.sub", String::new()),
            ("claims['email']", String::new()),
            ("dyn(claims.roles).filter(r, r != '')[0]", String::new()),
            ("claims.email_verified ? claims.email : claims.sub", String::new()),
            ("claims.email", verified.to_owned()),
            ("claims.?email.orValue('x')", verified.to_owned()),
            ("user.username", missing("user", "user.username")),
            ("request.user", missing("request", "request.user")),
            (
                "claims.roles.filter(r, true)[0]",
                "compilation failed: ERROR: <input>:1:7: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)\n | claims.roles.filter(r, true)[0]\n | ......^".to_owned(),
            ),
            (
                "string([claims.a, 1])",
                "compilation failed: ERROR: <input>:1:7: found no matching overload for 'string' applied to '(list(any))'\n | string([claims.a, 1])\n | ......^".to_owned(),
            ),
            (
                "int('x')",
                "jwt[0].claimMappings.username.expression: Internal error: program instantiation failed: type conversion error from 'string' to 'int'".to_owned(),
            ),
        ] {
            assert_eq!(of_username(source), expected, "{source}");
        }
    }
}
