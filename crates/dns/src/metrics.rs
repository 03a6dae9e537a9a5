//! Metrics, under CoreDNS' names.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hickory_proto::{op::ResponseCode, rr::RecordType};

use crate::resolver::Transport;

const RECORD_TYPES: [RecordType; 9] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::CNAME,
    RecordType::HTTPS,
    RecordType::MX,
    RecordType::PTR,
    RecordType::SOA,
    RecordType::SRV,
    RecordType::TXT,
];
const RESPONSE_CODES: [ResponseCode; 6] = [
    ResponseCode::NoError,
    ResponseCode::NXDomain,
    ResponseCode::ServFail,
    ResponseCode::FormErr,
    ResponseCode::NotImp,
    ResponseCode::Refused,
];
/// Upper bounds of the histogram buckets in microseconds.
const BUCKETS: [u64; 9] =
    [250, 1_000, 4_000, 16_000, 64_000, 256_000, 512_000, 1_024_000, 2_048_000];

/// The counters. Each dimension has one more element than is listed, for all other values.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By transport, address family and record type.
    requests: [[[AtomicU64; RECORD_TYPES.len() + 1]; 2]; 2],
    responses: [AtomicU64; RESPONSE_CODES.len() + 1],
    request_duration: Histogram,
    forward_duration: Histogram,
    failed: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Metrics {
    pub(crate) fn observe_request(&self, over: Transport, four: bool, kind: Option<RecordType>) {
        let kind =
            RECORD_TYPES.iter().position(|it| Some(*it) == kind).unwrap_or(RECORD_TYPES.len());
        let transport = usize::from(over == Transport::Tcp);
        let own =
            self.requests.get(transport).and_then(|all| all.get(usize::from(!four))?.get(kind));
        own.into_iter().for_each(|count| add(count, 1));
    }

    pub(crate) fn observe_response(&self, code: ResponseCode, after: Duration) {
        let at = RESPONSE_CODES.iter().position(|it| *it == code).unwrap_or(RESPONSE_CODES.len());
        self.responses.get(at).into_iter().for_each(|count| add(count, 1));
        self.request_duration.add(after);
    }

    pub(crate) fn observe_forward(&self, ok: bool, after: Duration) {
        self.forward_duration.add(after);
        add(&self.failed, u64::from(!ok));
    }

    pub(crate) fn observe_cache_lookup(&self, hit: bool) {
        add(if hit { &self.hits } else { &self.misses }, 1);
    }

    pub(crate) fn render(&self, cached: usize) -> String {
        let mut text = String::new();
        head(&mut text, "coredns_dns_requests_total", "counter", "Questions.");
        for (proto, families) in ["udp", "tcp"].iter().zip(&self.requests) {
            for (family, kinds) in ["1", "2"].iter().zip(families) {
                for (at, count) in kinds.iter().enumerate().filter(|(_, count)| get(count) > 0) {
                    let kind = RECORD_TYPES.get(at).map_or("other".to_owned(), ToString::to_string);
                    let labels = format!("family=\"{family}\",proto=\"{proto}\",type=\"{kind}\"");
                    line(&mut text, "coredns_dns_requests_total", &labels, get(count));
                }
            }
        }
        head(&mut text, "coredns_dns_responses_total", "counter", "Answers.");
        for (at, count) in self.responses.iter().enumerate().filter(|(_, count)| get(count) > 0) {
            let code = RESPONSE_CODES.get(at).map_or("other", |code| rcode(*code));
            line(
                &mut text,
                "coredns_dns_responses_total",
                &format!("rcode=\"{code}\""),
                get(count),
            );
        }
        for (name, kind, help, value) in [
            ("coredns_cache_entries", "gauge", "Number of cached responses.", count(cached)),
            ("coredns_cache_hits_total", "counter", "Cache hits.", get(&self.hits)),
            ("coredns_cache_misses_total", "counter", "Cache misses.", get(&self.misses)),
            (
                "coredns_forward_failures_total",
                "counter",
                "Forwarded queries that no upstream server answered.",
                get(&self.failed),
            ),
        ] {
            head(&mut text, name, kind, help);
            line(&mut text, name, "", value);
        }
        self.request_duration.report(
            &mut text,
            "coredns_dns_request_duration_seconds",
            "Latency of queries in seconds.",
        );
        self.forward_duration.report(
            &mut text,
            "coredns_forward_request_duration_seconds",
            "Latency of forwarded queries in seconds.",
        );
        text
    }
}

impl Histogram {
    fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        for (bucket, _) in self.buckets.iter().zip(BUCKETS).filter(|(_, most)| micros <= *most) {
            add(bucket, 1);
        }
        add(&self.count, 1);
        add(&self.micros, micros);
    }

    fn report(&self, text: &mut String, name: &str, help: &str) {
        head(text, name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (count, most) in self.buckets.iter().zip(BUCKETS) {
            let most = Duration::from_micros(most).as_secs_f64();
            line(text, &bucket, &format!("le=\"{most}\""), get(count));
        }
        line(text, &bucket, "le=\"+Inf\"", get(&self.count));
        let sum = Duration::from_micros(get(&self.micros)).as_secs_f64();
        let _ = writeln!(text, "{name}_sum {sum}"); // a String takes everything
        line(text, &format!("{name}_count"), "", get(&self.count));
    }
}

fn rcode(code: ResponseCode) -> &'static str {
    match code {
        ResponseCode::NoError => "NOERROR",
        ResponseCode::NXDomain => "NXDOMAIN",
        ResponseCode::ServFail => "SERVFAIL",
        ResponseCode::FormErr => "FORMERR",
        ResponseCode::NotImp => "NOTIMP",
        ResponseCode::Refused => "REFUSED",
        _ => "other",
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: u64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(text, "{name}{labels} {value}");
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
