//! Claim mappings: from the claims of a token to a user, by claim names or CEL expressions.

use std::collections::BTreeMap;

use cel::{Bindings, CALL_LIMIT, Program};
use object::{Text, Value};
use server::UserInfo;

use super::one_or_many;

/// A compiled CEL expression and its source.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    pub(super) program: Program,
}

/// Where an attribute of the user comes from: a claim with a prefix, or an expression.
#[derive(Debug)]
pub(super) enum ClaimSource {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

/// A validation rule: the expression that must be true, and the message if it is not.
#[derive(Debug)]
pub(super) struct JwtValidationRule {
    pub(super) expression: Expression,
    pub(super) message: String,
}

/// The mappings and validation rules of one issuer.
#[derive(Debug)]
pub(super) struct ClaimMappings {
    pub(super) username: ClaimSource,
    pub(super) groups: Option<ClaimSource>,
    pub(super) uid: Option<ClaimSource>,
    pub(super) extra: Vec<(String, Expression)>,
    /// Claims that must have a given value.
    pub(super) required: Vec<(String, String)>,
    pub(super) claim_rules: Vec<JwtValidationRule>,
    pub(super) user_rules: Vec<JwtValidationRule>,
}

impl ClaimMappings {
    /// The user of a token with these claims; or why the token is rejected.
    pub(super) fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        let read = as_read(claims);
        let evaluated = |part: &str, expression: &Expression| {
            expression
                .evaluate("claims", &read)
                .map_err(|why| format!("oidc: error evaluating {part} claim expression: {why}"))
        };
        let name = match &self.username {
            ClaimSource::Claim { name, prefix } => username(claims, name, prefix)?,
            ClaimSource::Expression(expression) => {
                let name = text(&evaluated("username", expression)?).ok_or(
                    "oidc: error evaluating username claim expression: username claim expression must return a string",
                )?;
                if name.is_empty() {
                    return Err("oidc: empty username via CEL expression is not allowed".to_owned());
                }
                name
            }
        };
        let groups = match &self.groups {
            None => Vec::new(),
            Some(ClaimSource::Claim { name, prefix }) => groups(claims, name, prefix)?,
            Some(ClaimSource::Expression(expression)) => texts(&evaluated("group", expression)?)
                .map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))?,
        };
        let uid = match &self.uid {
            None => String::new(),
            Some(ClaimSource::Claim { name, .. }) => {
                claim(claims, name).map_err(|why| format!("oidc: parse uid claim {name:?}: {why}"))?
            }
            Some(ClaimSource::Expression(expression)) => text(&evaluated("uid", expression)?).ok_or(
                "oidc: error evaluating uid claim expression: uid claim expression must return a string",
            )?,
        };
        let mut extra = BTreeMap::new();
        if let Some(id) = claims.get("jti").as_str().filter(|id| !id.is_empty()) {
            let key = "authentication.kubernetes.io/credential-id".to_owned();
            extra.insert(key, vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.extra {
            let values = texts(&evaluated("extra", expression)?).map_err(|why| {
                let source = &expression.source;
                format!("oidc: error evaluating extra claim expression: {source}: {why}")
            })?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        self.check_claims(claims, &read)?;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let user = UserInfo { uid: uid.into(), extra, ..UserInfo::new(&name, &groups) };
        let shown = shown(&user);
        all_hold(&self.user_rules, "user", &shown)
            .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
        Ok(user)
    }

    fn check_claims(&self, claims: &Value, read: &Value) -> Result<(), String> {
        for (name, wanted) in &self.required {
            if claims.get(name).is_null() {
                return Err(format!("oidc: required claim {name} not present in ID token"));
            }
            let own =
                claim(claims, name).map_err(|why| format!("oidc: parse claim {name}: {why}"))?;
            if own != *wanted {
                return Err(format!(
                    "oidc: required claim {name} value does not match. Got = {own}, want = {wanted}"
                ));
            }
        }
        all_hold(&self.claim_rules, "claims", read)
            .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))
    }
}

impl Expression {
    fn evaluate(&self, name: &str, tree: &Value) -> Result<Value, String> {
        let failed =
            |why: cel::Error| format!("expression '{}' resulted in error: {why}", self.source);
        let bindings = Bindings::new().tree(name, tree, None).map_err(failed)?;
        let (value, _) = self.program.evaluate(&bindings, CALL_LIMIT);
        value.and_then(|value| value.to_tree()).map_err(failed)
    }
}

fn all_hold(rules: &[JwtValidationRule], name: &str, tree: &Value) -> Result<(), String> {
    for JwtValidationRule { expression, message } in rules {
        match expression.evaluate(name, tree)?.as_bool() {
            Some(true) => {}
            Some(false) => {
                let source = &expression.source;
                return Err(format!("validation expression '{source}' failed: {message}"));
            }
            None => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}

fn username(claims: &Value, name: &str, prefix: &str) -> Result<String, String> {
    let own = claim(claims, name)
        .map_err(|why| format!("oidc: parse username claims {name:?}: {why}"))?;
    let verified = claims.get("email_verified");
    if name == "email" && !verified.is_null() {
        match verified.as_bool() {
            Some(true) => {}
            Some(false) => return Err("oidc: email not verified".to_owned()),
            None => return Err("oidc: parse 'email_verified' claim: not a boolean".to_owned()),
        }
    }
    Ok(format!("{prefix}{own}"))
}

fn groups(claims: &Value, name: &str, prefix: &str) -> Result<Vec<String>, String> {
    let own = claims.get(name);
    let all = one_or_many(own);
    if !own.is_null() && own.as_str().is_none() && all.len() != own.items().len() {
        return Err(format!("oidc: parse groups claim {name:?}: not a list of strings"));
    }
    Ok(all.iter().map(|group| format!("{prefix}{group}")).collect())
}

fn claim(claims: &Value, name: &str) -> Result<String, &'static str> {
    match claims.get(name) {
        Value::Null => Err("claim not present"),
        own => text(own).ok_or("not a string"),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The strings of a value that is a string or a list; empty strings are left out.
fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    let wrong = "expression must return a string or a list of strings";
    let mut all = match value {
        Value::Null => Vec::new(),
        Value::Text(_) => one_or_many(value),
        Value::List(items) if items.iter().all(|item| item.as_str().is_some()) => {
            one_or_many(value)
        }
        _ => return Err(wrong),
    };
    all.retain(|text| !text.is_empty());
    Ok(all)
}

/// The claims as CEL expressions see them: numbers are doubles, and a claim whose name is not a CEL
/// identifier also has its escaped name.
fn as_read(claims: &Value) -> Value {
    match claims {
        Value::Int(_) | Value::UInt(_) => claims.as_f64().map_or(Value::Null, Value::Float),
        Value::List(items) => items.iter().map(as_read).collect(),
        Value::Object(_) | Value::Map(_) => {
            let mut all = Value::object();
            for (name, value) in claims.entries() {
                let value = as_read(value);
                if let Some(other) = cel::escape(name).filter(|other| other != name) {
                    all[other.as_str()] = value.clone();
                }
                all[name] = value;
            }
            all
        }
        other => other.clone(),
    }
}

fn shown(user: &UserInfo) -> Value {
    let mut tree = Value::object();
    tree["username"] = user.name.clone().into();
    tree["uid"] = user.uid.clone().into();
    tree["groups"] = user.groups.iter().map(Text::as_str).collect();
    tree["extra"] = Value::object();
    for (key, values) in &user.extra {
        tree["extra"][key.as_str()] = values.iter().map(String::as_str).collect();
    }
    tree
}
