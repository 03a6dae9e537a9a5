//! The filter chain that every request passes before it is routed.

use std::sync::Arc;

use http::request::Parts;
use object::{ResourceRef, Status, Text};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    Attributes, Decision, Limits, Peer, Query, RequestInfo, Seat, Server, UserInfo,
    audit::LatencyBreakdown, deadline, impersonate::impersonate, turns,
};

/// A request that passed the filters.
#[derive(Debug)]
pub(crate) struct FilteredRequest {
    pub(crate) info: RequestInfo,
    pub(crate) query: Query,
    pub(crate) asker: Caller,
    /// The seat of API Priority and Fairness, held while the request is handled.
    pub(crate) seat: Seat,
}

/// A request that a filter rejected, and the Status it is answered with.
#[derive(Debug)]
pub(crate) struct RejectedRequest {
    pub(crate) status: Status,
    pub(crate) info: RequestInfo,
    pub(crate) asker: Caller,
}

/// The caller of a request, as established by the filters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The authenticated user; `None` if authentication failed.
    pub(crate) authenticated: Option<UserInfo>,
    /// The impersonated user, and the verb of constrained impersonation that permitted it.
    pub(crate) impersonated: Option<(UserInfo, Text)>,
    /// The authorization decision and its reason.
    pub(crate) decision: Option<(bool, String)>,
    /// Latency of each filter, for the audit event.
    pub(crate) latency: LatencyBreakdown,
}

impl Caller {
    /// Whether the caller is unauthenticated or anonymous.
    pub(crate) fn is_nobody(&self) -> bool {
        self.authenticated.as_ref().is_none_or(|user| user.name == "system:anonymous")
    }

    /// The user that the request is handled as: the impersonated one, if there is one.
    pub(crate) fn effective_user(&self) -> UserInfo {
        let acting = self.impersonated.as_ref().map(|(user, _)| user);
        acting.or(self.authenticated.as_ref()).cloned().unwrap_or_default()
    }
}

/// Runs the filter chain: request info → authentication → impersonation → seat of API Priority and
/// Fairness → authorization.
pub(crate) async fn run_filters(
    server: &Server,
    head: &Parts,
    peer: &Peer,
) -> Result<FilteredRequest, RejectedRequest> {
    let query = Query::parse_for(&server.config, head.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&head.method, head.uri.path(), &query);
    let mut asker = Caller::default();
    match filter_request(server, head, peer, (&info, &query), &mut asker).await {
        Ok(seat) => Ok(FilteredRequest { info, query, asker, seat }),
        Err(status) => Err(RejectedRequest { status, info, asker }),
    }
}

/// Runs the filters. What they find is in `asker`, even if one of them rejects the request.
async fn filter_request(
    server: &Server,
    head: &Parts,
    peer: &Peer,
    (info, query): (&RequestInfo, &Query),
    asker: &mut Caller,
) -> Result<Seat, Status> {
    deadline::check(info, query)?;
    let began = Instant::now();
    let shown = authenticate(server, head, peer).await;
    let known = if shown.is_ok() { &server.metrics.known } else { &server.metrics.unknown };
    known.observe(began.elapsed().as_secs_f64());
    record_filter_latency(server, asker, "authentication", began);
    let shown = asker.authenticated.insert(shown?);
    server.metrics.count_authenticated(&shown.name);
    let began = Instant::now();
    asker.impersonated = impersonate(server, head, shown, || info.attributes(query)).await?;
    if asker.impersonated.is_some() {
        record_filter_latency(server, asker, "constrainedimpersonation", began);
    }
    let (user, began) = (asker.effective_user(), Instant::now());
    turns::charge(asker.authenticated.as_ref().unwrap_or(&user), &user);
    let seat = match &server.flow {
        Some(flow) => flow.acquire_seat(&user, info).await,
        None => server.seats.try_acquire(&user, info).map(|permit| Seat {
            classification: None,
            guard: permit.map(|permit| Box::new(permit) as Box<dyn Send>),
        }),
    }?;
    server.metrics.observe_filter("priorityandfairness", began.elapsed());
    let began = Instant::now();
    let attributes = info.attributes(query);
    let decided = authorization_decision(server, &user, &attributes).await;
    let of = if decided.is_ok() { &server.metrics.allowed } else { &server.metrics.denied };
    of.observe(began.elapsed().as_secs_f64());
    record_filter_latency(server, asker, "authorization", began);
    let why = decided.as_ref().unwrap_or_else(|why| why).clone();
    asker.decision = Some((decided.is_ok(), why));
    decided.map_err(|why| forbidden(&user, &attributes, &why))?;
    Ok(seat)
}

/// Records the latency of a filter in the metrics and for the audit event.
fn record_filter_latency(
    server: &Server,
    asker: &mut Caller,
    filter: &'static str,
    began: Instant,
) {
    let took = began.elapsed();
    server.metrics.observe_filter(filter, took);
    asker.latency.add(filter.trim_start_matches("constrained"), took);
}

async fn authenticate(server: &Server, head: &Parts, peer: &Peer) -> Result<UserInfo, Status> {
    if let Some(user) = &peer.identity {
        return Ok((**user).clone());
    }
    for way in &server.authenticators {
        if let Some(mut user) = way.authenticate(peer, head).await? {
            if user.name != "system:anonymous" && !user.in_group("system:authenticated") {
                user.groups.push("system:authenticated".into());
            }
            return Ok(user);
        }
    }
    let shows = head.headers.contains_key(http::header::AUTHORIZATION);
    if server.config.anonymous && !shows {
        return Ok(UserInfo::anonymous());
    }
    Err(Status::unauthorized())
}

/// Checks that a user may do this; the error is the Forbidden status.
pub(crate) async fn authorize(
    server: &Server,
    user: &UserInfo,
    attributes: &Attributes,
) -> Result<(), Status> {
    let decided = authorization_decision(server, user, attributes).await;
    decided.map(drop).map_err(|why| forbidden(user, attributes, &why))
}

/// The authorization decision: the reason if it is allowed, or the reasons why it is not. The first
/// authorizer with an opinion decides; if none has one, the request is denied.
pub async fn authorization_decision(
    server: &Server,
    user: &UserInfo,
    attributes: &Attributes,
) -> Result<String, String> {
    let mut reasons = Vec::new();
    for way in &server.authorizers {
        match way.authorize(user, attributes).await {
            Decision::Allow(why) => return Ok(why),
            Decision::Deny(why) => {
                reasons.push(why);
                break;
            }
            Decision::NoOpinion(why) => reasons.push(why),
        }
    }
    reasons.retain(|why| !why.is_empty());
    Err(reasons.join("\n"))
}

/// The Forbidden status for a denied request, with upstream's message.
pub(crate) fn forbidden(user: &UserInfo, attributes: &Attributes, reason: &str) -> Status {
    let Attributes { verb, group, resource, subresource, namespace, name, path, .. } = attributes;
    let user = &user.name;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    if !attributes.is_resource {
        let why = format!("User {user:?} cannot {verb} path {path:?}{reason}");
        return Status::forbidden(ResourceRef { group: "", resource: "", name: "" }, &why);
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
    Status::forbidden(ResourceRef { group, resource, name }, &why)
}

/// Limits the requests in flight where API Priority and Fairness is off. Essential
/// requests and `system:masters` have reserved seats, so that a flood of requests does not make nodes
/// unready.
#[derive(Debug)]
pub(crate) struct InFlightLimiter {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    essential: &'static [(&'static str, &'static str)],
}

impl InFlightLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let seats = |n: usize| Arc::new(Semaphore::new(n));
        Self {
            reads: seats(limits.max_requests_in_flight),
            writes: seats(limits.max_mutating_in_flight),
            reserved: seats(limits.reserved),
            essential: limits.essential,
        }
    }

    fn try_acquire(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if !info.is_resource && !info.path.starts_with("/openapi") {
            return Ok(None); // health and discovery
        }
        let is_essential = |(resource, subresource): &(&str, &str)| {
            info.resource == *resource && ["", &*info.subresource].contains(subresource)
        };
        let vital = self.essential.iter().any(is_essential) || user.in_group("system:masters");
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
        let seats = InFlightLimiter::new(&Limits {
            max_mutating_in_flight: 1,
            reserved: 1,
            essential: &[("leases", ""), ("nodes", "status")],
            ..Limits::default()
        });
        let info = |resource: &str, subresource: &str| RequestInfo {
            is_resource: true,
            verb: "update".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            ..RequestInfo::default()
        };
        let user = UserInfo::new("kubelet", &[]);
        let first = seats.try_acquire(&user, &info("pods", "")).unwrap();
        assert_eq!(seats.try_acquire(&user, &info("pods", "")).unwrap_err().code(), 429);
        assert!(seats.try_acquire(&user, &info("leases", "")).is_ok());
        assert!(seats.try_acquire(&user, &info("nodes", "status")).is_ok());
        assert_eq!(seats.try_acquire(&user, &info("nodes", "")).unwrap_err().code(), 429);
        drop(first);
        assert!(seats.try_acquire(&user, &info("pods", "")).is_ok());
    }
}
