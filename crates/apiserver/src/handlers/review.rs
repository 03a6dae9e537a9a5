//! The review handlers: TokenReview, SelfSubjectReview, SubjectAccessReview and its variants, and
//! SelfSubjectRulesReview.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    authentication::{self, SelfSubjectReview, TokenReview},
    authorization::{
        LocalSubjectAccessReview, ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview,
        SubjectAccessReview, SubjectAccessReviewStatus, SubjectRulesReviewStatus,
    },
};
use object::{
    List, Map, Object, Status, Time, Value, View,
    selector::{FieldSelector, Selector},
};
use schema::ErrorList;
use server::{
    Attributes, Decision, EndpointHandler, Peer, Request, RequestContext, RequestInfo,
    ResponseFuture, Server, UserInfo,
};

use super::{
    ResponseParams, body_of, request_context, same_namespace, served, typed, warned,
    with_managed_fields,
};
use crate::{authn::ServiceAccountAuthenticator, authz::Rbac};

const GROUP: &str = "authorization.k8s.io";
const SYSTEM: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

#[derive(Debug)]
pub(super) struct ReviewHandler {
    pub(super) accounts: Arc<ServiceAccountAuthenticator>,
    pub(super) rbac: Rbac,
}

impl EndpointHandler for ReviewHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (user, asked) = (request.user.clone(), ResponseParams::of(&request));
            let kind = served(server, &request)?.definition;
            let (mut call, info) = (request_context(&request), request.info.clone());
            let given = body_of(server, &mut call, request, &kind).await?;
            let answer = self.answer(server, (&call, &info), &user, given).await;
            match answer {
                Ok(mut answer) => {
                    if answer.get("metadata").is_null() {
                        answer["metadata"] = Value::object();
                    }
                    Ok(warned(asked.reply(server, &kind, (201, &answer))?, &call))
                }
                Err(why) => Ok(asked.failure(&why, &call)),
            }
        })
    }
}

impl ReviewHandler {
    /// Evaluates a review.
    async fn answer(
        &self,
        server: &Server,
        (call, info): Asking<'_>,
        user: &UserInfo,
        given: Value,
    ) -> Result<Value, Status> {
        let checked = |check: fn(&Server, Asking<'_>, Value) -> Result<Value, Status>| {
            check(server, (call, info), given.clone())
        };
        match &*info.resource {
            "tokenreviews" => {
                self.token(server, begun::<TokenReview>(server, (call, info), given)?).await
            }
            "selfsubjectreviews" => {
                let mut review = SelfSubjectReview::new();
                review.status_mut().set_user_info(told(user));
                let now = Time::format(server.registry.clock().now());
                review.metadata_mut().set_creation_timestamp(now);
                Ok(typed::<SelfSubjectReview>(review))
            }
            "selfsubjectaccessreviews" => {
                let given = checked(check::<SelfSubjectAccessReview>)?;
                let status = decide(server, user, given.get("spec")).await?;
                let review = SelfSubjectAccessReview::from(given).with_status(status);
                Ok(typed::<SelfSubjectAccessReview>(review))
            }
            "subjectaccessreviews" => {
                let given = checked(check::<SubjectAccessReview>)?;
                let status = decide(server, &subject(given.get("spec")), given.get("spec")).await?;
                let review = SubjectAccessReview::from(given).with_status(status);
                Ok(typed::<SubjectAccessReview>(review))
            }
            "localsubjectaccessreviews" => {
                let given = checked(check::<LocalSubjectAccessReview>)?;
                let status = decide(server, &subject(given.get("spec")), given.get("spec")).await?;
                let review = LocalSubjectAccessReview::from(given).with_status(status);
                Ok(typed::<LocalSubjectAccessReview>(review))
            }
            "selfsubjectrulesreviews" => self.rules(server, user, given),
            _ => Err(Status::unknown_resource()),
        }
    }

    /// Authenticates the token of a TokenReview with all authenticators, like that of a request.
    async fn token(&self, server: &Server, mut given: Value) -> Result<Value, Status> {
        // Other fields of the sent status stay, unless they are overwritten.
        if given.get("status").is_object() {
            given["status"].remove("authenticated");
        }
        let mut review = TokenReview::from(given);
        let token = review.spec().token().to_owned();
        if token.is_empty() {
            let why = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(why));
        }
        let wanted: Vec<String> = review.spec().audiences().iter().map(str::to_owned).collect();
        let mut known = self.accounts.identify(&token, &wanted).await;
        if let Err(pki::TokenError::NotOurToken) = known
            && let Some(user) = other_token(server, &token).await
        {
            // Such a token has no audience; it is valid for this server's own audiences.
            let own = self.accounts.audiences().iter();
            let own = own.filter(|own| wanted.is_empty() || wanted.contains(own));
            let good: Vec<String> = own.cloned().collect();
            if wanted.is_empty() || !good.is_empty() {
                known = Ok((user, good));
            }
        }
        let status = review.status_mut();
        match known {
            Ok((user, audiences)) => {
                let mut info = told(&user);
                if !user.in_group("system:authenticated") {
                    info.groups_mut().push("system:authenticated");
                }
                status.set_authenticated(true);
                status.set_user(info);
                let audiences: List<String> = audiences.iter().map(String::as_str).collect();
                status.set_audiences(audiences);
            }
            Err(pki::TokenError::NotOurToken) => status.set_error("invalid bearer token"),
            Err(refusal) => status.set_error(format!("[invalid bearer token, {refusal}]")),
        }
        let mut review = typed::<TokenReview>(review);
        if review.get("status").get("user").is_null() {
            review["status"]["user"] = Value::object(); // as upstream does
        }
        Ok(review)
    }

    fn rules(&self, server: &Server, user: &UserInfo, given: Value) -> Result<Value, Status> {
        let mut review = SelfSubjectRulesReview::from(given);
        let namespace = review.spec().namespace().to_owned();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (mut resources, mut urls) = (Vec::new(), Vec::new());
        for rule in self.rbac.rules(user, &namespace) {
            if rule.non_resource_urls().is_empty() {
                resources.push(
                    ResourceRule::new()
                        .with_verbs(rule.verbs().clone())
                        .with_api_groups(rule.api_groups().clone())
                        .with_resources(rule.resources().clone())
                        .with_resource_names(rule.resource_names().clone()),
                );
            } else {
                let rule_of = api::authorization::NonResourceRule::new();
                let rule_of = rule_of.with_verbs(rule.verbs().clone());
                urls.push(rule_of.with_non_resource_urls(rule.non_resource_urls().clone()));
            }
        }
        review.set_status(SubjectRulesReviewStatus::new());
        let status = review.status_mut();
        status.set_resource_rules(resources.into_iter().collect::<List<_>>());
        status.set_non_resource_rules(urls.into_iter().collect::<List<_>>());
        let mut unknown = Vec::new();
        unknown
            .extend(server.authorizers.iter().filter_map(|way| way.incomplete_rules_reason(user)));
        status.set_incomplete(!unknown.is_empty());
        if !unknown.is_empty() {
            status.set_evaluation_error(unknown.join(", "));
        }
        let mut answer = typed::<SelfSubjectRulesReview>(review);
        answer["spec"] = Value::object(); // as upstream does
        answer.remove("metadata");
        Ok(answer)
    }
}

/// The user of a token by the other authenticators.
async fn other_token(server: &Server, token: &str) -> Option<UserInfo> {
    let request = http::Request::builder().header("authorization", format!("Bearer {token}"));
    let (head, ()) = request.body(()).ok()?.into_parts();
    for way in &server.authenticators {
        if let Ok(Some(user)) = way.authenticate(&Peer::default(), &head).await {
            return Some(user);
        }
    }
    None
}

fn told(user: &UserInfo) -> authentication::UserInfo {
    let mut extra = Value::object();
    for (name, values) in &user.extra {
        extra[name.as_str()] = values.iter().map(String::as_str).collect();
    }
    let groups: List<String> = user.groups.iter().map(object::Text::as_str).collect();
    let mut info =
        authentication::UserInfo::new().with_username(user.name.as_str()).with_groups(groups);
    if !user.uid.is_empty() {
        info.set_uid(user.uid.as_str());
    }
    if extra.entries().len() > 0 {
        info.set_extra(Map::<List<String>>::view(&extra).clone());
    }
    info
}

/// The context and the request of a review.
type Asking<'a> = (&'a RequestContext, &'a RequestInfo);

/// Validates an access review.
fn check<K: schema::Kind>(
    server: &Server,
    asking: Asking<'_>,
    given: Value,
) -> Result<Value, Status> {
    let given = begun::<K>(server, asking, given)?;
    let mut errs = ErrorList::default();
    K::view(&given).validate(&mut errs);
    if errs.is_empty() { Ok(given) } else { Err(errs.into_status(GROUP, "", "")) }
}

/// Normalizes a review, and sets its namespace and managedFields.
fn begun<K: schema::Kind>(
    server: &Server,
    (call, info): Asking<'_>,
    mut given: Value,
) -> Result<Value, Status> {
    schema::normalize(K::SHAPE, &mut given);
    // Fields that only the server sets are ignored.
    for name in SYSTEM {
        given["metadata"].remove(name);
    }
    if info.namespace.is_empty() {
        given["metadata"].remove("namespace"); // a cluster-scoped review has no namespace
    } else {
        same_namespace(Object::view(&given).metadata().namespace(), &info.namespace)?;
        given["metadata"]["namespace"] = info.namespace.clone().into();
    }
    with_managed_fields(server, call, (&K::NAMES, K::SHAPE), "", given)
}

/// The user that a review asks about.
fn subject(spec: &Value) -> UserInfo {
    let name = spec.get("user").as_str().unwrap_or_default();
    let groups: Vec<&str> = spec.get("groups").items().iter().filter_map(Value::as_str).collect();
    let mut user = UserInfo::new(name, &groups);
    user.uid = spec.get("uid").as_str().unwrap_or_default().into();
    let extra = spec.get("extra").entries().map(|(name, values)| {
        let values = values.items().iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (name.to_owned(), values)
    });
    user.extra = extra.collect::<BTreeMap<_, _>>();
    user
}

async fn decide(
    server: &Server,
    user: &UserInfo,
    spec: &Value,
) -> Result<SubjectAccessReviewStatus, Status> {
    let (resource, plain) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    let unread = selector_parse_errors(resource);
    let told = |status: SubjectAccessReviewStatus| match &*unread {
        "" => status,
        unread => status.with_evaluation_error(unread),
    };
    let text =
        |tree: &Value, name: &str| object::Text::from(tree.get(name).as_str().unwrap_or_default());
    let wanted = if resource.is_object() {
        Attributes {
            verb: text(resource, "verb"),
            group: text(resource, "group"),
            version: text(resource, "version"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            is_resource: true,
            field_selector: fields(resource).into(),
            ..Attributes::default()
        }
    } else {
        Attributes { verb: text(plain, "verb"), path: text(plain, "path"), ..Attributes::default() }
    };
    let mut reasons = Vec::new();
    for way in &server.authorizers {
        match way.authorize(user, &wanted).await {
            Decision::Allow(why) => {
                let status = SubjectAccessReviewStatus::new().with_allowed(true);
                return Ok(told(status.with_reason(why)));
            }
            Decision::Deny(why) => {
                let status = SubjectAccessReviewStatus::new().with_allowed(false).with_denied(true);
                return Ok(told(status.with_reason(why)));
            }
            Decision::NoOpinion(why) => reasons.push(why),
        }
    }
    reasons.retain(|why| !why.is_empty());
    Ok(told(SubjectAccessReviewStatus::new().with_allowed(false).with_reason(reasons.join("\n"))))
}

/// The field selector of a review, in the form of a query.
fn fields(resource: &Value) -> String {
    let selector = resource.get("fieldSelector");
    let raw = selector.get("rawSelector").as_str().unwrap_or_default().to_owned();
    let of = |one: &Value| {
        let [value] = one.get("values").items() else { return None };
        let sign = match one.get("operator").as_str()? {
            "In" => "=",
            "NotIn" => "!=",
            _ => return None,
        };
        Some(format!("{}{sign}{}", one.get("key").as_str()?, value.as_str()?))
    };
    match selector.get("requirements").items() {
        [] => raw,
        all => all.iter().filter_map(of).collect::<Vec<_>>().join(","),
    }
}

/// The parse errors of the selectors of a review; such a selector does not narrow it.
fn selector_parse_errors(resource: &Value) -> String {
    let by_field = |one: &Value| {
        matches!(one.get("operator").as_str(), Some("In" | "NotIn"))
            && one.get("values").items().len() == 1
    };
    let by_label = |one: &Value| {
        let operator = one.get("operator").as_str();
        matches!(operator, Some("In" | "NotIn" | "Exists" | "DoesNotExist"))
    };
    let of = |name: &str, fits: &dyn Fn(&Value) -> bool, reads: fn(&str) -> bool| {
        let all = resource.get(name).get("requirements").items();
        let raw = resource.get(name).get("rawSelector").as_str().unwrap_or_default();
        let read = all.iter().filter(|one| fits(one)).count();
        let how = match read {
            read if read == all.len() && (read > 0 || reads(raw)) => return None,
            0 => "ignored",
            _ => "partially ignored",
        };
        Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
    };
    let both = [
        of("fieldSelector", &by_field, |raw| FieldSelector::parse(raw).is_ok()),
        of("labelSelector", &by_label, |raw| Selector::parse(raw).is_ok()),
    ];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn selectors_that_cannot_be_read_are_told() {
        let told = |text: &str| selector_parse_errors(&from_json(text.as_bytes()).expect("JSON"));
        assert_eq!(told("{}"), "");
        let fields = r#"{"fieldSelector":{"requirements":[{"operator":"In","values":["a"]},
            {"operator":"Exists"}]}}"#;
        let said = "spec.resourceAttributes.fieldSelector partially ignored due to parse error";
        assert_eq!(told(fields), said);
        let labels = r#"{"labelSelector":{"requirements":[{"operator":"Near"}]}}"#;
        let said = "spec.resourceAttributes.labelSelector ignored due to parse error";
        assert_eq!(told(labels), said);
        assert_eq!(told(r#"{"labelSelector":{"rawSelector":"a in"}}"#), said);
        assert_eq!(told(r#"{"fieldSelector":{"rawSelector":"a=b"}}"#), "");
    }
}
