//! From a question's bytes to an answer's: what is ours from memory and at once,
//! the rest by asking.

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
    cache::{Answer, Flags},
    forward::{Forward, PAYLOAD},
    metrics::Metrics,
    source::Source,
    zone::{self, Found, TTL, Zone},
};

const HEADER: usize = 12;
const SMALLEST: u16 = 512;
/// A record with a name that stands earlier in the message, and no data.
const SHORTEST_RECORD: usize = 12;
/// Names that stand for names that stand for names.
const HOPS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// Where the question goes next.
#[derive(Debug)]
pub(crate) enum Reply {
    /// There is nothing to say.
    None,
    Now(Vec<u8>),
    /// Somebody else must be asked.
    Later(Box<Pending>),
}

/// A question that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    response: Message,
    /// What is left to ask.
    query: Query,
    asked: Asked,
}

/// What an answer has to keep to.
#[derive(Debug, Clone, Copy)]
struct Asked {
    flags: Flags,
    limit: usize,
    began: Instant,
}

#[derive(Debug)]
pub(crate) struct Resolver {
    zone: Arc<RwLock<Zone>>,
    source: Source,
    forward: Forward,
    metrics: Arc<Metrics>,
}

impl Resolver {
    pub(crate) fn new(
        zone: Arc<RwLock<Zone>>,
        source: Source,
        forward: Forward,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { zone, source, forward, metrics }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.source.is_ready()
    }

    pub(crate) fn report(&self) -> String {
        let mut text = self.metrics.report(self.forward.cached());
        panics::report(&mut text);
        text
    }

    pub(crate) fn begin(&self, bytes: &[u8], from: SocketAddr, over: Transport) -> Reply {
        let began = Instant::now();
        if bytes.len() < HEADER || bytes[2] & 0x80 != 0 {
            return Reply::None; // not a question: an answer to it could go round for ever
        }
        let Ok(request) = Message::from_vec(bytes) else {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            let refusal = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
            let flags = Flags { dnssec_ok: false, checking_disabled: false };
            let asked = Asked { flags, limit: SMALLEST.into(), began };
            return self.finish(refusal, asked);
        };
        let asked = Asked {
            flags: Flags {
                dnssec_ok: request.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok),
                checking_disabled: request.metadata.checking_disabled,
            },
            limit: limit(&request, over),
            began,
        };
        let response = respond(&request);
        let kind = request.queries.first().map(Query::query_type);
        self.metrics.asked(over, from.is_ipv4(), kind);
        match refusal(&request) {
            Some(code) => self.refuse(response, code, asked),
            None => self.resolve(response, request.queries[0].clone(), asked),
        }
    }

    pub(crate) async fn complete(&self, pending: Pending) -> Option<Vec<u8>> {
        let Pending { response, query, asked } = pending;
        let reply = match self.forward.ask(&query, asked.flags).await {
            Some(answer) => self.add(response, answer, asked),
            None => self.refuse(response, ResponseCode::ServFail, asked),
        };
        match reply {
            Reply::Now(bytes) => Some(bytes),
            Reply::None | Reply::Later(_) => None,
        }
    }

    /// Follows aliases as far as they are ours.
    fn resolve(&self, mut response: Message, mut query: Query, asked: Asked) -> Reply {
        if query.query_type() == RecordType::ANY {
            let all = HINFO::new("RFC8482".to_owned(), String::new());
            let all = Record::from_rdata(query.name().clone(), TTL, RData::HINFO(all));
            response.add_answer(all);
            return self.finish(response, asked);
        }
        for _ in 0..HOPS {
            match self.find(query.name(), query.query_type()) {
                Found::Elsewhere => return self.elsewhere(response, query, asked),
                _ if !self.is_ready() => {
                    return self.refuse(response, ResponseCode::ServFail, asked);
                }
                Found::Alias(target) => {
                    response.metadata.authoritative = true;
                    response.add_answer(zone::alias(query.name(), &target));
                    if query.query_type() == RecordType::CNAME {
                        return self.finish(response, asked);
                    }
                    query = Query::query(target, query.query_type());
                }
                Found::NoName => {
                    response.metadata.authoritative = true;
                    response.metadata.response_code = ResponseCode::NXDomain;
                    response.add_authority(self.soa());
                    return self.finish(response, asked);
                }
                Found::Records(mut answers, more) => {
                    response.metadata.authoritative = true;
                    if answers.is_empty() {
                        response.add_authority(self.soa());
                    } else {
                        let turn = usize::from(response.metadata.id) % answers.len();
                        answers.rotate_left(turn); // so that clients spread
                    }
                    response.add_answers(answers);
                    response.insert_additionals(more);
                    return self.finish(response, asked);
                }
            }
        }
        self.refuse(response, ResponseCode::ServFail, asked)
    }

    fn elsewhere(&self, response: Message, query: Query, asked: Asked) -> Reply {
        match self.forward.remembered(&query, asked.flags) {
            Some(answer) => self.add(response, answer, asked),
            None => Reply::Later(Box::new(Pending { response, query, asked })),
        }
    }

    fn add(&self, mut response: Message, answer: Answer, asked: Asked) -> Reply {
        response.metadata.response_code = answer.code;
        response.metadata.authentic_data = answer.authentic && response.answers.is_empty();
        response.add_answers(answer.answers);
        response.add_authorities(answer.authorities);
        self.finish(response, asked)
    }

    fn refuse(&self, mut response: Message, code: ResponseCode, asked: Asked) -> Reply {
        response.answers.clear();
        response.metadata.response_code = code;
        self.finish(response, asked)
    }

    fn finish(&self, response: Message, asked: Asked) -> Reply {
        self.metrics.answered(response.metadata.response_code, asked.began.elapsed());
        encode(response, asked.limit).map_or(Reply::None, Reply::Now)
    }

    fn find(&self, name: &Name, kind: RecordType) -> Found {
        self.zone.read().unwrap_or_else(PoisonError::into_inner).find(name, kind)
    }

    fn soa(&self) -> Record {
        self.zone.read().unwrap_or_else(PoisonError::into_inner).soa()
    }
}

/// How long an answer the client takes.
fn limit(request: &Message, over: Transport) -> usize {
    let payload = request.edns.as_ref().map_or(SMALLEST, Edns::max_payload);
    match over {
        Transport::Udp => payload.clamp(SMALLEST, PAYLOAD).into(),
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
        edns.set_max_payload(PAYLOAD).set_dnssec_ok(asked.flags().dnssec_ok);
        response.set_edns(edns);
    }
    response
}

fn refusal(request: &Message) -> Option<ResponseCode> {
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

/// Leaves out what is only helpful, then as many answers as must be, which it says:
/// the client may ask again over TCP. Those who cannot still get what fits.
fn encode(mut response: Message, limit: usize) -> Option<Vec<u8>> {
    let fits = |response: &Message| response.to_vec().ok().filter(|bytes| bytes.len() <= limit);
    let can_fit = response.answers.len() <= limit / SHORTEST_RECORD; // else it is not even tried
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
    let mut best = fits(&response)?; // else the question itself is too long
    let (mut least, mut most) = (0, all.len());
    while least < most {
        let middle = (least + most).div_ceil(2);
        response.answers = all[..middle].to_vec();
        match fits(&response) {
            Some(bytes) => (best, least) = (bytes, middle),
            None => most = middle - 1,
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests;
