//! Forwarding of queries to upstream DNS servers. Further servers are tried while the first is still pending, until one
//! answers or two seconds have passed.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::Name,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::debug;

use crate::{
    cache::{Cache, CacheKey, QueryFlags, UpstreamAnswer},
    metrics::Metrics,
};

/// Timeout of a query; clients usually wait for five seconds.
const QUERY_TIMEOUT: Duration = Duration::from_millis(1900);
/// After this time without an answer, the next server is queried as well.
const HEDGE_DELAY: Duration = Duration::from_millis(500);
/// Enough for the three servers of a resolv.conf, or to query one server more than once.
const MAX_ATTEMPTS: usize = 3;
const MAX_CONCURRENT: usize = 1000;
/// Maximum number of queries over TCP: an answer may have the maximum size of a message.
const LARGE_AT_ONCE: usize = 64;
/// UDP payload size in bytes that is not fragmented in any usual network.
pub(crate) const MAX_UDP_PAYLOAD: u16 = 1232;

/// Forwards queries to the upstream servers and caches the answers.
#[derive(Debug)]
pub(crate) struct Forwarder {
    servers: Vec<SocketAddr>,
    /// Index of the server that answered last.
    last_good: AtomicUsize,
    permits: Semaphore,
    large_at_once: Semaphore,
    cache: Mutex<Cache>,
    metrics: Arc<Metrics>,
}

/// The name servers of a resolv.conf.
pub fn name_servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let each = resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let ip: IpAddr =
            words.next().filter(|word| *word == "nameserver").and(words.next())?.parse().ok()?;
        Some(SocketAddr::new(ip, 53))
    });
    each.take(MAX_ATTEMPTS).collect()
}

impl Forwarder {
    pub(crate) fn new(servers: Vec<SocketAddr>, metrics: Arc<Metrics>) -> Self {
        Self {
            servers,
            last_good: AtomicUsize::new(0),
            permits: Semaphore::new(MAX_CONCURRENT),
            large_at_once: Semaphore::new(LARGE_AT_ONCE),
            cache: Mutex::default(),
            metrics,
        }
    }

    pub(crate) fn cache_len(&self) -> usize {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The cached answer, if any.
    pub(crate) fn cached_answer(&self, query: &Query, flags: QueryFlags) -> Option<UpstreamAnswer> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.get(&key(query, flags), Instant::now());
        self.metrics.observe_cache_lookup(found.is_some());
        found
    }

    /// Queries the upstream servers; `None` if none answered.
    pub(crate) async fn query(&self, query: &Query, flags: QueryFlags) -> Option<UpstreamAnswer> {
        let Ok(_permit) = self.permits.try_acquire() else {
            debug!("too many queries in flight; dropping one");
            return None;
        };
        let began = Instant::now();
        let answer = timeout(QUERY_TIMEOUT, self.query_servers(query, flags)).await.ok().flatten();
        self.metrics.observe_forward(answer.is_some(), began.elapsed());
        if let Some(answer) = &answer {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.put(key(query, flags), answer, Instant::now());
        }
        answer
    }

    async fn query_servers(&self, query: &Query, flags: QueryFlags) -> Option<UpstreamAnswer> {
        let first = self.last_good.load(Ordering::Relaxed);
        let order = (0..MAX_ATTEMPTS).filter_map(|n| (first + n).checked_rem(self.servers.len()));
        let mut order = order.peekable();
        let mut running = FuturesUnordered::new();
        loop {
            let next = order.next();
            if let Some((at, server)) = next.and_then(|at| Some((at, *self.servers.get(at)?))) {
                running
                    .push(async move { (at, server, self.exchange(server, query, flags).await) });
            } else if running.is_empty() {
                return None;
            }
            let wait = if order.peek().is_some() { HEDGE_DELAY } else { QUERY_TIMEOUT };
            tokio::select! {
                Some((at, server, answer)) = running.next() => match answer {
                    Ok(answer) => {
                        self.last_good.store(at, Ordering::Relaxed);
                        return Some(answer);
                    }
                    Err(error) => debug!(%server, %error, "no response"),
                },
                () = sleep(wait) => {}
            }
        }
    }

    /// Queries over UDP, and over TCP if the answer was truncated.
    async fn exchange(
        &self,
        server: SocketAddr,
        query: &Query,
        flags: QueryFlags,
    ) -> io::Result<UpstreamAnswer> {
        let message = message(query, flags);
        let bytes = message.to_vec().map_err(io::Error::other)?;
        let mut answer = by_udp(server, &message, &bytes).await?;
        if answer.metadata.truncation {
            let _permit = self.large_at_once.acquire().await.map_err(io::Error::other)?;
            answer = by_tcp(server, &bytes).await?;
            if !is_response_to(&message, &answer) {
                return Err(io::Error::other("response does not match the query"));
            }
        }
        match answer.metadata.response_code {
            code @ (ResponseCode::NoError | ResponseCode::NXDomain) => Ok(UpstreamAnswer {
                response_code: code,
                answers: answer.answers,
                authorities: answer.authorities,
                authentic_data: answer.metadata.authentic_data,
            }),
            code => Err(io::Error::other(code.to_str())),
        }
    }
}

/// Uses a new random port, so that an attacker cannot guess where to send a forged answer.
async fn by_udp(server: SocketAddr, asked: &Message, bytes: &[u8]) -> io::Result<Message> {
    let any = match server.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match Message::from_vec(buffer.get(..length).unwrap_or_default()) {
            Ok(answer) if is_response_to(asked, &answer) => return Ok(answer),
            _ => debug!(%server, "response does not match the query"),
        }
    }
}

async fn by_tcp(server: SocketAddr, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let mut framed = u16::try_from(bytes.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
    framed.extend_from_slice(bytes);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    Message::from_vec(&answer).map_err(io::Error::other)
}

fn message(query: &Query, flags: QueryFlags) -> Message {
    let id = RandomState::new().hash_one(()).to_be_bytes();
    let mut message =
        Message::new(u16::from_be_bytes([id[0], id[1]]), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.metadata.checking_disabled = flags.checking_disabled;
    message.add_query(query.clone());
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP_PAYLOAD).set_dnssec_ok(flags.dnssec_ok);
    message.set_edns(edns);
    message
}

fn is_response_to(asked: &Message, answer: &Message) -> bool {
    answer.metadata.id == asked.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == asked.queries
}

fn key(query: &Query, flags: QueryFlags) -> CacheKey {
    let name: Name = query.name().to_lowercase();
    (Query::query(name, query.query_type()), flags)
}

#[test]
fn resolv_conf() {
    let text = "# comment\nsearch a.example\nnameserver 192.0.2.1\nnameserver  fd00::1 \n\
                nameserver nonsense\noptions ndots:5\n";
    let expected: [SocketAddr; 2] =
        ["192.0.2.1:53".parse().expect("an address"), "[fd00::1]:53".parse().expect("an address")];
    assert_eq!(name_servers(text), expected);
}
