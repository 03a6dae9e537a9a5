//! Handles DNS requests: cluster names are answered at once from memory, other names are forwarded.

use std::{
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata::HINFO},
};

use crate::{
    cache::{QueryFlags, UpstreamAnswer},
    forward::{Forwarder, MAX_UDP_PAYLOAD},
    metrics::Metrics,
    source::ZoneSync,
    zone::{self, Lookup, TTL, Zone},
};

const HEADER: usize = 12;
const MIN_UDP_PAYLOAD: u16 = 512;
/// Minimum size of a record: a compressed name and no data.
const SHORTEST_RECORD: usize = 12;
/// Maximum length of a CNAME chain.
const MAX_CNAME_HOPS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// The result of handling a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Not a valid request: send no response.
    Drop,
    Respond(Vec<u8>),
    /// The name is outside the cluster domain and not cached: forward the query upstream.
    Forward(Box<PendingQuery>),
}

/// A query that must be forwarded.
#[derive(Debug)]
pub(crate) struct PendingQuery {
    response: Message,
    /// The query that remains after following CNAMEs.
    query: Query,
    asked: RequestContext,
}

/// Flags, size limit and start time of a request.
#[derive(Debug, Clone, Copy)]
struct RequestContext {
    flags: QueryFlags,
    limit: usize,
    began: Instant,
}

/// Answers queries from the zone, the cache or the upstream servers.
#[derive(Debug)]
pub(crate) struct Resolver {
    zone: Arc<RwLock<Zone>>,
    source: ZoneSync,
    forward: Forwarder,
    metrics: Arc<Metrics>,
}

impl Resolver {
    pub(crate) fn new(
        zone: Arc<RwLock<Zone>>,
        source: ZoneSync,
        forward: Forwarder,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { zone, source, forward, metrics }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.source.is_ready()
    }

    pub(crate) fn metrics_text(&self) -> String {
        let mut text = self.metrics.render(self.forward.cache_len());
        panics::report(&mut text);
        text
    }

    pub(crate) fn handle(&self, bytes: &[u8], from: SocketAddr, over: Transport) -> Outcome {
        let began = Instant::now();
        let Some([high, low, flags, ..]) = bytes.first_chunk::<HEADER>() else {
            return Outcome::Drop;
        };
        if flags & 0x80 != 0 {
            return Outcome::Drop; // not a query: answering it could cause a loop
        }
        let Ok(request) = Message::from_vec(bytes) else {
            let id = u16::from_be_bytes([*high, *low]);
            let refusal = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
            let flags = QueryFlags { dnssec_ok: false, checking_disabled: false };
            let asked = RequestContext { flags, limit: MIN_UDP_PAYLOAD.into(), began };
            return self.finish(refusal, asked);
        };
        let asked = RequestContext {
            flags: QueryFlags {
                dnssec_ok: request.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok),
                checking_disabled: request.metadata.checking_disabled,
            },
            limit: max_response_size(&request, over),
            began,
        };
        let response = respond(&request);
        let kind = request.queries.first().map(Query::query_type);
        self.metrics.observe_request(over, from.is_ipv4(), kind);
        match (check_request(&request), request.queries.first()) {
            (Some(code), _) => self.respond_error(response, code, asked),
            (None, Some(query)) => self.resolve(response, query.clone(), asked),
            (None, None) => self.respond_error(response, ResponseCode::FormErr, asked),
        }
    }

    pub(crate) async fn forward(&self, pending: PendingQuery) -> Option<Vec<u8>> {
        let PendingQuery { response, query, asked } = pending;
        let reply = match self.forward.query(&query, asked.flags).await {
            Some(answer) => self.add(response, answer, asked),
            None => self.respond_error(response, ResponseCode::ServFail, asked),
        };
        match reply {
            Outcome::Respond(bytes) => Some(bytes),
            Outcome::Drop | Outcome::Forward(_) => None,
        }
    }

    /// Resolves a query, following CNAMEs within the cluster domain.
    fn resolve(&self, mut response: Message, mut query: Query, asked: RequestContext) -> Outcome {
        if query.query_type() == RecordType::ANY {
            let all = HINFO::new("RFC8482".to_owned(), String::new());
            let all = Record::from_rdata(query.name().clone(), TTL, RData::HINFO(all));
            response.add_answer(all);
            return self.finish(response, asked);
        }
        for _ in 0..MAX_CNAME_HOPS {
            match self.find(query.name(), query.query_type()) {
                Lookup::NotInZone => return self.answer_external(response, query, asked),
                _ if !self.is_ready() => {
                    return self.respond_error(response, ResponseCode::ServFail, asked);
                }
                Lookup::Cname(target) => {
                    response.metadata.authoritative = true;
                    response.add_answer(zone::cname_record(query.name(), &target));
                    if query.query_type() == RecordType::CNAME {
                        return self.finish(response, asked);
                    }
                    query = Query::query(target, query.query_type());
                }
                Lookup::NxDomain => {
                    response.metadata.authoritative = true;
                    response.metadata.response_code = ResponseCode::NXDomain;
                    response.add_authority(self.soa());
                    return self.finish(response, asked);
                }
                Lookup::Records(mut answers, more) => {
                    response.metadata.authoritative = true;
                    if answers.is_empty() {
                        response.add_authority(self.soa());
                    } else {
                        let turn = usize::from(response.metadata.id) % answers.len();
                        answers.rotate_left(turn); // spreads the load over the endpoints
                    }
                    response.add_answers(answers);
                    response.insert_additionals(more);
                    return self.finish(response, asked);
                }
            }
        }
        self.respond_error(response, ResponseCode::ServFail, asked)
    }

    fn answer_external(&self, response: Message, query: Query, asked: RequestContext) -> Outcome {
        match self.forward.cached_answer(&query, asked.flags) {
            Some(answer) => self.add(response, answer, asked),
            None => Outcome::Forward(Box::new(PendingQuery { response, query, asked })),
        }
    }

    fn add(&self, mut response: Message, answer: UpstreamAnswer, asked: RequestContext) -> Outcome {
        response.metadata.response_code = answer.response_code;
        response.metadata.authentic_data = answer.authentic_data && response.answers.is_empty();
        response.add_answers(answer.answers);
        response.add_authorities(answer.authorities);
        self.finish(response, asked)
    }

    fn respond_error(
        &self,
        mut response: Message,
        code: ResponseCode,
        asked: RequestContext,
    ) -> Outcome {
        response.answers.clear();
        response.metadata.response_code = code;
        self.finish(response, asked)
    }

    fn finish(&self, response: Message, asked: RequestContext) -> Outcome {
        self.metrics.observe_response(response.metadata.response_code, asked.began.elapsed());
        encode(response, asked.limit).map_or(Outcome::Drop, Outcome::Respond)
    }

    fn find(&self, name: &Name, kind: RecordType) -> Lookup {
        self.zone.read().unwrap_or_else(PoisonError::into_inner).lookup(name, kind)
    }

    fn soa(&self) -> Record {
        self.zone.read().unwrap_or_else(PoisonError::into_inner).soa()
    }
}

/// The maximum response size that the client accepts.
fn max_response_size(request: &Message, over: Transport) -> usize {
    let payload = request.edns.as_ref().map_or(MIN_UDP_PAYLOAD, Edns::max_payload);
    match over {
        Transport::Udp => payload.clamp(MIN_UDP_PAYLOAD, MAX_UDP_PAYLOAD).into(),
        Transport::Tcp => u16::MAX.into(),
    }
}

fn respond(request: &Message) -> Message {
    let mut response =
        Message::new(request.metadata.id, MessageType::Response, request.metadata.op_code);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.metadata.recursion_available = true;
    response.metadata.checking_disabled = request.metadata.checking_disabled;
    response.add_queries(request.queries.iter().take(1).cloned());
    if let Some(asked) = &request.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_PAYLOAD).set_dnssec_ok(asked.flags().dnssec_ok);
        response.set_edns(edns);
    }
    response
}

fn check_request(request: &Message) -> Option<ResponseCode> {
    if request.metadata.op_code != OpCode::Query {
        return Some(ResponseCode::NotImp);
    }
    if request.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
        return Some(ResponseCode::BADVERS);
    }
    let [query] = &request.queries[..] else { return Some(ResponseCode::FormErr) };
    let transfer = matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR);
    (transfer || query.query_class() != DNSClass::IN).then_some(ResponseCode::Refused)
}

/// Encodes the response within `limit` bytes. Drops additional records first, then answers, and sets the TC flag, so
/// that the client can retry over TCP. Clients that cannot still get the answers that fit.
fn encode(mut response: Message, limit: usize) -> Option<Vec<u8>> {
    let fits = |response: &Message| response.to_vec().ok().filter(|bytes| bytes.len() <= limit);
    let can_fit = response.answers.len() <= limit / SHORTEST_RECORD; // otherwise encoding is not even attempted
    if let Some(bytes) = can_fit.then(|| fits(&response)).flatten() {
        return Some(bytes);
    }
    response.additionals.clear();
    if let Some(bytes) = can_fit.then(|| fits(&response)).flatten() {
        return Some(bytes);
    }
    response.metadata.truncation = true;
    response.authorities.clear();
    let mut all = std::mem::take(&mut response.answers);
    all.truncate(limit / SHORTEST_RECORD);
    let mut best = fits(&response)?; // fails only if the question itself is too long
    let (mut least, mut most) = (0, all.len());
    while least < most {
        let middle = (least + most).div_ceil(2);
        response.answers = all.get(..middle).unwrap_or_default().to_vec();
        match fits(&response) {
            Some(bytes) => (best, least) = (bytes, middle),
            None => most = middle - 1,
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests;
