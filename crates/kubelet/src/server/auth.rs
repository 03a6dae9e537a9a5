//! Authentication and authorization of requests to the kubelet: by client certificate or TokenReview, and by
//! SubjectAccessReview.

use http::{HeaderMap, Method, header::AUTHORIZATION};
use object::{Value, to_json};
use rustls::pki_types::CertificateDer;

use crate::KubeletContext;

const JSON: &str = "application/json";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// An authenticated user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// Further attributes of a token's owner from the TokenReview, passed on to authorizers.
    pub(crate) uid: String,
    pub(crate) extra: Value,
}

/// Authenticates by client certificate.
pub(crate) fn by_certificate(host: &KubeletContext, chain: &[CertificateDer<'_>]) -> Option<User> {
    let trust = host.config.client_ca.as_ref().filter(|_| !chain.is_empty())?;
    let identity = trust.identify(chain, host.now()).ok()?;
    let mut groups = identity.organizations;
    groups.push("system:authenticated".into());
    let (uid, extra) = (String::new(), Value::Null);
    Some(User { name: identity.common_name, groups, uid, extra })
}

/// Authenticates by bearer token, with a TokenReview.
pub(crate) async fn by_token(host: &KubeletContext, headers: &HeaderMap) -> Option<User> {
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    if host.config.standalone {
        return None;
    }
    let mut review = Value::object();
    (review["apiVersion"], review["kind"]) =
        ("authentication.k8s.io/v1".into(), "TokenReview".into());
    review["spec"]["token"] = token.into();
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = host.cx.client().call(Method::POST, path, JSON, to_json(&review).into()).await;
    let status = answer.ok()?["status"].clone();
    if status["authenticated"].as_bool() != Some(true) {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(User {
        name: text(&status["user"]["username"]),
        groups: status["user"]["groups"].items().iter().map(text).collect(),
        uid: text(&status["user"]["uid"]),
        extra: status["user"]["extra"].clone(),
    })
}

/// Whether the user may make this request; the error says why not.
pub(crate) async fn authorize(
    host: &KubeletContext,
    user: &User,
    method: &Method,
    path: &str,
) -> Result<(), String> {
    if user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let verb = verb(method, path);
    let mut asked = Vec::new();
    for part in subresources(path) {
        if !host.config.standalone && review(host, user, verb, part).await? {
            return Ok(());
        }
        asked.push(part);
    }
    Err(format!(
        "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)={asked:?})",
        user.name
    ))
}

/// The verb of a request. Streams into containers are always `create`, whatever the method: WebSockets begin with GET,
/// and a user who may only read must not run commands.
fn verb(method: &Method, path: &str) -> &'static str {
    match (root(path), method.as_str()) {
        ("exec" | "attach" | "run" | "portForward" | "cri", _) | (_, "POST") => "create",
        (_, "PUT") => "update",
        (_, "PATCH") => "patch",
        (_, "DELETE") => "delete",
        _ => "get",
    }
}

/// The first segment of a path.
fn root(path: &str) -> &str {
    path.split('/').find(|part| !part.is_empty()).unwrap_or_default()
}

/// The subresources of `nodes` that authorize a path, the most general one last.
fn subresources(path: &str) -> &'static [&'static str] {
    match root(path) {
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "healthz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        "pods" | "runningpods" => &["pods", "proxy"],
        _ => &["proxy"],
    }
}

async fn review(
    host: &KubeletContext,
    user: &User,
    verb: &str,
    part: &str,
) -> Result<bool, String> {
    let review = access_review(&host.config.node_name, user, verb, part);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = host.cx.client().call(Method::POST, path, JSON, to_json(&review).into()).await;
    let answer = answer.map_err(|error| format!("Authorization error: {error}"))?;
    Ok(answer["status"]["allowed"].as_bool() == Some(true))
}

/// The SubjectAccessReview for a verb on a subresource of the node.
fn access_review(node: &str, user: &User, verb: &str, part: &str) -> Value {
    let mut review = Value::object();
    (review["apiVersion"], review["kind"]) =
        ("authorization.k8s.io/v1".into(), "SubjectAccessReview".into());
    let spec = &mut review["spec"];
    spec["user"] = (&*user.name).into();
    spec["groups"] = user.groups.iter().map(|group| Value::from(&**group)).collect();
    if !user.uid.is_empty() {
        spec["uid"] = (&*user.uid).into();
    }
    if user.extra.is_object() {
        spec["extra"] = user.extra.clone();
    }
    let what = &mut spec["resourceAttributes"];
    (what["verb"], what["resource"], what["subresource"]) =
        (verb.into(), "nodes".into(), part.into());
    (what["name"], what["version"]) = (node.into(), "v1".into());
    review
}

#[test]
fn rights_are_named_by_path() {
    assert_eq!(subresources("/stats/summary"), ["stats"]);
    assert_eq!(subresources("/exec/n/p/c"), ["proxy"]);
    assert_eq!(subresources("/healthz"), ["healthz", "proxy"]);
    for path in ["/exec/n/p/c", "//attach/n/p/c", "/portForward/n/p", "/run/n/p/c", "/cri/exec/t"] {
        assert_eq!(verb(&Method::GET, path), "create", "{path}");
        assert_eq!(verb(&Method::DELETE, path), "create", "{path}");
    }
    assert_eq!(verb(&Method::GET, "/containerLogs/n/p/c"), "get");
    assert_eq!(verb(&Method::POST, "/checkpoint/n/p/c"), "create");
}

#[test]
fn authorizers_learn_all_that_is_known_of_a_user() {
    let extra = object::yaml::from_yaml("{authentication.kubernetes.io/pod-name: [p]}").unwrap();
    let user = User { name: "u".into(), groups: vec!["g".into()], uid: "7".into(), extra };
    let got = access_review("n", &user, "get", "healthz");
    let spec = &got["spec"];
    assert_eq!((spec["user"].as_str(), spec["uid"].as_str()), (Some("u"), Some("7")));
    assert_eq!(spec["extra"], user.extra);
    assert_eq!(spec["groups"].items().len(), 1);
    let what = &spec["resourceAttributes"];
    assert_eq!((what["name"].as_str(), what["subresource"].as_str()), (Some("n"), Some("healthz")));
}
