//! What every request passes before it is routed, in this order.

use std::sync::Arc;

use http::request::Parts;
use object::{Status, Subject};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    Attributes, Decision, Limits, Peer, Query, RequestInfo, Seat, Server, User,
    impersonate::impersonate,
};

/// What the filters found out.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) info: RequestInfo,
    pub(crate) query: Query,
    pub(crate) user: User,
    /// Held while the request is handled.
    pub(crate) seat: Seat,
}

/// Who was stopped by a filter, if that is known, and why.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: Status,
    pub(crate) who: Option<(User, RequestInfo)>,
}

/// request info → authenticate → impersonate → take a seat → authorize
pub(crate) async fn pass(server: &Server, head: &Parts, peer: &Peer) -> Result<Passed, Refused> {
    let query = Query::to(&server.config, head.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&head.method, head.uri.path(), &query);
    let unknown = |status| Refused { status, who: None };
    let began = Instant::now();
    let user = authenticate(server, head, peer).await;
    let known = if user.is_ok() { &server.metrics.known } else { &server.metrics.unknown };
    known.observe(began.elapsed().as_secs_f64());
    let user = user.map_err(unknown)?;
    let asked = || info.attributes(&query);
    let user = impersonate(server, head, user, asked).await.map_err(unknown)?;
    let seat = match &server.flow {
        Some(flow) => flow.seat(&user, &info).await,
        None => server.seats.take(&user, &info).map(|permit| Seat {
            of: None,
            held: permit.map(|permit| Box::new(permit) as Box<dyn Send>),
        }),
    };
    let allowed = match seat {
        Ok(seat) => {
            let began = Instant::now();
            let allowed = authorize(server, &user, &info.attributes(&query)).await;
            let of = if allowed.is_ok() { &server.metrics.allowed } else { &server.metrics.denied };
            of.observe(began.elapsed().as_secs_f64());
            allowed.map(|()| seat)
        }
        Err(status) => Err(status),
    };
    match allowed {
        Ok(seat) => Ok(Passed { info, query, user, seat }),
        Err(status) => Err(Refused { status, who: Some((user, info)) }),
    }
}

async fn authenticate(server: &Server, head: &Parts, peer: &Peer) -> Result<User, Status> {
    if let Some(user) = &peer.identity {
        return Ok((**user).clone());
    }
    for way in &server.authenticators {
        if let Some(mut user) = way.authenticate(peer, head).await? {
            if user.name != "system:anonymous" && !user.is_in("system:authenticated") {
                user.groups.push("system:authenticated".into());
            }
            return Ok(user);
        }
    }
    let shows = head.headers.contains_key(http::header::AUTHORIZATION);
    if server.config.anonymous && !shows {
        return Ok(User::anonymous());
    }
    Err(Status::unauthorized())
}

/// The first opinion decides; nobody's opinion is no.
pub(crate) async fn authorize(
    server: &Server,
    user: &User,
    attributes: &Attributes,
) -> Result<(), Status> {
    let mut reasons = Vec::new();
    for way in &server.authorizers {
        match way.authorize(user, attributes).await {
            Decision::Allow(_) => return Ok(()),
            Decision::Deny(why) => {
                reasons.push(why);
                break;
            }
            Decision::NoOpinion(why) => reasons.push(why),
        }
    }
    reasons.retain(|why| !why.is_empty());
    Err(forbidden(user, attributes, &reasons.join(", ")))
}

pub(crate) fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> Status {
    let Attributes { verb, group, resource, subresource, namespace, name, path, .. } = attributes;
    let user = &user.name;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    if !attributes.is_resource {
        let why = format!("User {user:?} cannot {verb} path {path:?}{reason}");
        return Status::forbidden(Subject { group: "", resource: "", name: "" }, &why);
    }
    let full = match &**subresource {
        "" => resource.to_string(),
        sub => format!("{resource}/{sub}"),
    };
    let place = match &**namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {user:?} cannot {verb} resource {full:?} in API group {group:?} {place}{reason}"
    );
    Status::forbidden(Subject { group, resource, name }, &why)
}

/// How many requests are handled at once. Leases, node status and administrators
/// have seats that nobody else can take, so that a flood does not lose the nodes.
#[derive(Debug)]
pub(crate) struct Seats {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

impl Seats {
    pub(crate) fn new(limits: &Limits) -> Self {
        let seats = |n: usize| Arc::new(Semaphore::new(n));
        Self {
            reads: seats(limits.reads),
            writes: seats(limits.writes),
            reserved: seats(limits.reserved),
        }
    }

    fn take(
        &self,
        user: &User,
        info: &RequestInfo,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if !info.is_resource && !info.path.starts_with("/openapi") {
            return Ok(None); // health and discovery
        }
        let vital = info.resource == "leases"
            || (info.resource == "nodes" && info.subresource == "status")
            || user.is_in("system:masters");
        let writes =
            matches!(&*info.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
        let common = if writes { &self.writes } else { &self.reads };
        let first = if vital { &self.reserved } else { common };
        let seat = first.clone().try_acquire_owned();
        let seat = if vital { seat.or_else(|_| common.clone().try_acquire_owned()) } else { seat };
        seat.map(Some)
            .map_err(|_| Status::too_many_requests("Too many requests, please try again later.", 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_room_for_leases() {
        let seats = Seats::new(&Limits { writes: 1, reserved: 1, ..Limits::default() });
        let info = |resource: &str| RequestInfo {
            is_resource: true,
            verb: "update".into(),
            resource: resource.into(),
            ..RequestInfo::default()
        };
        let user = User::new("kubelet", &[]);
        let first = seats.take(&user, &info("pods")).unwrap();
        assert_eq!(seats.take(&user, &info("pods")).unwrap_err().code(), 429);
        assert!(seats.take(&user, &info("leases")).is_ok());
        drop(first);
        assert!(seats.take(&user, &info("pods")).is_ok());
    }
}
