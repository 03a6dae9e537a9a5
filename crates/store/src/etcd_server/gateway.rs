//! etcd's JSON gateway: the services over HTTP and JSON, at `/v3/…`.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::Frame;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::json;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Status, body::Body};

use super::service::Service;
use crate::wire::{
    DESCRIPTORS,
    pb::{
        self, cluster_server::Cluster as _, kv_server::Kv as _, lease_server::Lease as _,
        maintenance_server::Maintenance as _,
    },
};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("made when building"));

/// Handles a request below `/v3/`.
pub(super) async fn answer<B>(service: Service, request: Request<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if request.method() != Method::POST {
        return failure(
            &Status::new(Code::Unimplemented, "Method Not Allowed"),
            StatusCode::METHOD_NOT_ALLOWED,
        );
    }
    let path = request.uri().path().to_owned();
    // The limit allows for base64, and for a request slightly too large to get the service's own error.
    let limit = service.limits.request_bytes * 2 + (512 << 10);
    let body = match Limited::new(request.into_body(), limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refused(&Status::invalid_argument(error.to_string())),
    };
    let call = Call { body };
    let done = match path.strip_prefix("/v3/").unwrap_or_default() {
        "kv/range" => call.one("Range", |r| service.range(r)).await,
        "kv/put" => call.one("Put", |r| service.put(r)).await,
        "kv/deleterange" => call.one("DeleteRange", |r| service.delete_range(r)).await,
        "kv/txn" => call.one("Txn", |r| service.txn(r)).await,
        "kv/compaction" => call.one("Compaction", |r| service.compact(r)).await,
        "lease/grant" => call.one("LeaseGrant", |r| service.lease_grant(r)).await,
        "lease/revoke" | "kv/lease/revoke" => {
            call.one("LeaseRevoke", |r| service.lease_revoke(r)).await
        }
        "lease/timetolive" | "kv/lease/timetolive" => {
            call.one("LeaseTimeToLive", |r| service.lease_time_to_live(r)).await
        }
        "lease/leases" | "kv/lease/leases" => {
            call.one("LeaseLeases", |r| service.lease_leases(r)).await
        }
        "cluster/member/list" => call.one("MemberList", |r| service.member_list(r)).await,
        "cluster/member/add" => call.one("MemberAdd", |r| service.member_add(r)).await,
        "cluster/member/remove" => call.one("MemberRemove", |r| service.member_remove(r)).await,
        "cluster/member/update" => call.one("MemberUpdate", |r| service.member_update(r)).await,
        "cluster/member/promote" => call.one("MemberPromote", |r| service.member_promote(r)).await,
        "maintenance/downgrade" => call.one("Downgrade", |r| service.downgrade(r)).await,
        "maintenance/transfer-leadership" => {
            call.one("MoveLeader", |r| service.move_leader(r)).await
        }
        "maintenance/alarm" => call.one("Alarm", |r| service.alarm(r)).await,
        "maintenance/status" => call.one("Status", |r| service.status(r)).await,
        "maintenance/defragment" => call.one("Defragment", |r| service.defragment(r)).await,
        "maintenance/hash" => call.one("Hash", |r| service.hash(r)).await,
        "maintenance/hashkv" => call.one("HashKV", |r| service.hash_kv(r)).await,
        "maintenance/snapshot" => {
            match service.snapshot(tonic::Request::new(pb::SnapshotRequest {})).await {
                Ok(parts) => Ok(lines("SnapshotResponse", parts.into_inner())),
                Err(status) => Err(status),
            }
        }
        "lease/keepalive" => {
            call.decode("LeaseKeepAliveRequest").map(|request: pb::LeaseKeepAliveRequest| {
                lines("LeaseKeepAliveResponse", tokio_stream::once(Ok(service.renew(request.id))))
            })
        }
        "watch" => call.decode("WatchRequest").map(|request| {
            // The client sends one message and then reads until it disconnects.
            let requests = tokio_stream::once(Ok(request)).chain(tokio_stream::pending());
            lines("WatchResponse", service.follow(Box::pin(requests)))
        }),
        path if path.starts_with("auth/") => Err(no_users()),
        _ => return failure(&Status::not_found("Not Found"), StatusCode::NOT_FOUND),
    };
    done.unwrap_or_else(|status| refused(&status))
}

/// The error for requests of etcd's auth API, which is not implemented.
pub(super) fn no_users() -> Status {
    let why = "etcdserver: users and roles are not supported here: let clients show certificates \
               (--client-cert-auth and --trusted-ca-file)";
    Status::new(Code::Unimplemented, why)
}

struct Call {
    body: Bytes,
}

impl Call {
    async fn one<Q, A, F>(
        &self,
        name: &str,
        call: impl FnOnce(tonic::Request<Q>) -> F,
    ) -> Result<Response<Body>, Status>
    where
        Q: Message + Default,
        A: Message,
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        let request = self.decode(&format!("{name}Request"))?;
        let response = call(tonic::Request::new(request)).await?.into_inner();
        let text = to_json(&format!("{name}Response"), &response)?;
        Ok(answered(StatusCode::OK, Body::new(Full::from(text))))
    }

    fn decode<Q: Message + Default>(&self, name: &str) -> Result<Q, Status> {
        let wrong = |error: String| Status::invalid_argument(error);
        let kind = POOL.get_message_by_name(&format!("etcdserverpb.{name}"));
        let kind = kind.ok_or_else(|| Status::internal(format!("{name} is unknown")))?;
        let body = if self.body.is_empty() { &b"{}"[..] } else { &self.body };
        let mut json = serde_json::Deserializer::from_slice(body);
        let message =
            DynamicMessage::deserialize(kind, &mut json).map_err(|e| wrong(e.to_string()))?;
        json.end().map_err(|e| wrong(e.to_string()))?;
        Q::decode(&*message.encode_to_vec()).map_err(|e| wrong(e.to_string()))
    }
}

fn to_json(name: &str, message: &impl Message) -> Result<Vec<u8>, Status> {
    let wrong = |error: String| Status::internal(error);
    let kind = POOL.get_message_by_name(&format!("etcdserverpb.{name}"));
    let kind = kind.ok_or_else(|| wrong(format!("{name} is unknown")))?;
    let message = DynamicMessage::decode(kind, &*message.encode_to_vec())
        .map_err(|e| wrong(e.to_string()))?;
    let mut json = serde_json::Serializer::new(Vec::new());
    let options = SerializeOptions::new().use_proto_field_name(true);
    message.serialize_with_options(&mut json, &options).map_err(|e| wrong(e.to_string()))?;
    Ok(json.into_inner())
}

/// Streams messages as lines of JSON.
fn lines<A: Message + 'static>(
    name: &'static str,
    messages: impl Stream<Item = Result<A, Status>> + Send + 'static,
) -> Response<Body> {
    let lines = messages.map(move |message| {
        let line = match message.and_then(|message| to_json(name, &message)) {
            Ok(text) => [b"{\"result\":", text.as_slice(), b"}\n"].concat(),
            Err(status) => format!("{}\n", json!({ "error": described(&status) })).into_bytes(),
        };
        Ok::<_, Status>(Frame::data(Bytes::from(line)))
    });
    answered(StatusCode::OK, Body::new(StreamBody::new(lines)))
}

fn answered(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn refused(status: &Status) -> Response<Body> {
    let http = match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => {
            StatusCode::BAD_REQUEST
        }
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    failure(status, http)
}

fn failure(status: &Status, http: StatusCode) -> Response<Body> {
    answered(http, Body::new(Full::from(described(status).to_string())))
}

fn described(status: &Status) -> serde_json::Value {
    json!({ "code": status.code() as i32, "message": status.message(), "details": [] })
}
