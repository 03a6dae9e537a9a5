//! Tests of requests and responses.

use client::{
    Api, ApiResource, CAUSE_HEADER, Client, DeleteParams, DeleteResult, ListParams, Patch,
    Propagation, Selectors, cause_from_header,
};
use http::Method;
use object::{NamespacedName, Value, WriteCause, from_json};
use tokio::task::JoinSet;

use crate::server::{Say, Server};

pub(crate) fn deployments() -> ApiResource {
    ApiResource {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        kind: "Deployment".into(),
        namespaced: true,
    }
}

fn api(client: &Client) -> Api<Value> {
    Api::for_resource(client, deployments())
}

fn web() -> Value {
    from_json(br#"{"metadata":{"name":"web","namespace":"ns"}}"#).unwrap()
}

#[tokio::test]
async fn a_write_says_who_and_why() {
    let server = Server::new(|_| Say::Json(201, r#"{"metadata":{"name":"web","uid":"7"}}"#));
    let mut tasks = JoinSet::new();
    let cause = WriteCause {
        reason: "because".into(),
        kind: "Test".into(),
        key: NamespacedName::new("", "t"),
        uid: "1".into(),
        revision: 3,
    };
    let client =
        server.on_pipe(&mut tasks).with_user_agent("tester/1").with_field_manager("tester");
    let made = api(&client).with_cause(&cause).create(web()).await.unwrap();
    assert_eq!(made["metadata"]["uid"].as_str(), Some("7"));
    let asked = &server.asked()[0];
    assert_eq!(asked.uri, "/apis/apps/v1/namespaces/ns/deployments?fieldManager=tester");
    assert_eq!(asked.headers["user-agent"], "tester/1");
    assert_eq!(cause_from_header(&asked.headers[CAUSE_HEADER]), Some(cause));
    assert_eq!(asked.body["apiVersion"].as_str(), Some("apps/v1"));
    assert_eq!(asked.body["kind"].as_str(), Some("Deployment"));
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let server = Server::new(|asked| {
        if asked.uri.contains("continue=next") {
            Say::Json(
                200,
                r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"b"}}]}"#,
            )
        } else {
            Say::Json(
                200,
                r#"{"metadata":{"resourceVersion":"9","continue":"next","remainingItemCount":1},
                    "items":[{"metadata":{"name":"a"}}]}"#,
            )
        }
    });
    let mut tasks = JoinSet::new();
    let api = api(&server.on_pipe(&mut tasks)).namespaced("ns");
    let all = api.list_all(&Selectors::labels("app=web")).await.unwrap();
    assert_eq!((all.items.len(), all.revision, &*all.continue_), (2, 9, ""));
    assert_eq!(all.items[1]["kind"].as_str(), Some("Deployment"), "items lack it on the wire");
    let first = "/apis/apps/v1/namespaces/ns/deployments?labelSelector=app%3Dweb&limit=500";
    assert_eq!(server.asked()[0].uri, first);
    let page = ListParams { limit: 1, ..ListParams::default() };
    assert_eq!(api.list(&Selectors::default(), &page).await.unwrap().remaining, Some(1));
}

#[tokio::test]
async fn a_deleted_object_is_gone_or_going() {
    let server = Server::new(|asked| match asked.uri.rsplit('/').next().unwrap() {
        "going" => Say::Json(
            200,
            r#"{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":30}}"#,
        ),
        "held" => Say::Json(
            200,
            r#"{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["x"]}}"#,
        ),
        "last" => Say::Json(
            200,
            r#"{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":0}}"#,
        ),
        _ => Say::Json(200, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
    });
    let mut tasks = JoinSet::new();
    let api = api(&server.on_pipe(&mut tasks)).namespaced("ns");
    let delete = DeleteParams {
        propagation: Some(Propagation::Foreground),
        grace_seconds: Some(5),
        ..DeleteParams::with_uid("7")
    };
    let key = |name: &str| NamespacedName::new("", name);
    for name in ["going", "held"] {
        let answer = api.delete(&key(name), &delete).await.unwrap();
        assert!(matches!(answer, DeleteResult::Terminating(_)), "{name}");
    }
    assert!(matches!(api.delete(&key("last"), &delete).await, Ok(DeleteResult::Gone(Some(_)))));
    assert!(matches!(api.delete(&key("x"), &delete).await, Ok(DeleteResult::Gone(None))));
    let body = &server.asked()[0].body;
    assert_eq!(body["preconditions"]["uid"].as_str(), Some("7"));
    assert_eq!(body["propagationPolicy"].as_str(), Some("Foreground"));
    assert_eq!(body["gracePeriodSeconds"].as_i64(), Some(5));
}

#[tokio::test]
async fn patches_have_their_types() {
    let server = Server::new(|_| Say::Json(200, "{}"));
    let mut tasks = JoinSet::new();
    let api = api(&server.on_pipe(&mut tasks)).with_write_param("dryRun", "All");
    let key = NamespacedName::new("ns", "web");
    let apply = Patch::Apply { object: web(), manager: "me".into(), force: true };
    api.patch(&key, &Patch::Merge(Value::object())).await.unwrap();
    api.patch_status(&key, &apply).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].method, Method::PATCH);
    assert_eq!(asked[0].headers["content-type"], "application/merge-patch+json");
    assert_eq!(asked[1].headers["content-type"], "application/apply-patch+yaml");
    assert!(asked[1].uri.ends_with("/web/status?fieldManager=me&force=true&dryRun=All"));
    assert_eq!(asked[1].body["kind"].as_str(), Some("Deployment"));
}

#[tokio::test]
async fn failures_say_what_can_be_done() {
    let server = Server::new(|asked| match asked.uri.rsplit('/').next().unwrap() {
        "none" => Say::Json(
            404,
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"no","code":404}"#,
        ),
        "stale" => Say::Json(409, r#"{"kind":"Status","apiVersion":"v1","reason":"Conflict"}"#),
        "there" => {
            Say::Json(409, r#"{"kind":"Status","apiVersion":"v1","reason":"AlreadyExists"}"#)
        }
        "proxy" => Say::Json(502, "<html>bad gateway</html>"),
        _ => Say::Json(200, "not json"),
    });
    let mut tasks = JoinSet::new();
    let api = api(&server.on_pipe(&mut tasks)).namespaced("ns");
    let fail = async |name: &str| api.get(&NamespacedName::new("", name)).await.unwrap_err();
    assert!(fail("none").await.is_not_found());
    let stale = fail("stale").await;
    assert!(stale.is_conflict() && !stale.is_already_exists() && !stale.is_transient());
    let there = fail("there").await;
    assert!(there.is_already_exists() && !there.is_conflict());
    let proxy = fail("proxy").await;
    assert!(proxy.is_transient() && proxy.to_string().contains("bad gateway"));
    assert!(matches!(fail("odd").await, client::Error::Decode(_)));
    assert!(matches!(fail("").await, client::Error::Invalid(_)));
}
