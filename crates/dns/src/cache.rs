//! Cache of responses from upstream DNS servers.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hickory_proto::{
    op::{Query, ResponseCode},
    rr::{RData, Record},
    serialize::binary::BinEncodable,
};

/// Limits: number of entries, records per answer, and TTL in seconds.
const MAX_ENTRIES: usize = 4096;
const MAX_RECORDS: usize = 64;
const MAX_TTL: u32 = 30;
/// Maximum size in bytes of one answer and of all: the owner of a domain controls how large its answers are.
const LARGEST: usize = 64 << 10;
const LARGEST_OF_ALL: usize = 16 << 20;
/// Overhead of a record in bytes.
const RECORD: usize = 512;

/// The answer of an upstream server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UpstreamAnswer {
    pub(crate) response_code: ResponseCode,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    /// The server has validated it with DNSSEC (the AD flag).
    pub(crate) authentic_data: bool,
}

/// The query in lower case, and the flags that change its answer.
pub(crate) type CacheKey = (Query, QueryFlags);

/// The flags of a query that change its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueryFlags {
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
}

/// Cached answers of upstream servers.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<CacheKey, Entry>,
    /// Approximate size of all entries in bytes.
    size: usize,
}

#[derive(Debug)]
struct Entry {
    since: Instant,
    time: Duration,
    size: usize,
    answer: UpstreamAnswer,
}

impl Cache {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A cached answer, with the remaining TTL of each record.
    pub(crate) fn get(&self, asked: &CacheKey, now: Instant) -> Option<UpstreamAnswer> {
        let entry = self.entries.get(asked)?;
        let age = now.saturating_duration_since(entry.since);
        if age >= entry.time {
            return None;
        }
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let mut answer = entry.answer.clone();
        for record in answer.answers.iter_mut().chain(&mut answer.authorities) {
            record.decrement_ttl(age);
        }
        Some(answer)
    }

    pub(crate) fn put(&mut self, asked: CacheKey, answer: &UpstreamAnswer, now: Instant) {
        let (time, size) = (answer_ttl(answer), size(answer));
        let records = answer.answers.len() + answer.authorities.len();
        if time.is_zero() || records > MAX_RECORDS || size > LARGEST {
            return;
        }
        self.remove(&asked);
        let is_full =
            |cache: &Self| cache.entries.len() >= MAX_ENTRIES || cache.size + size > LARGEST_OF_ALL;
        if is_full(self) {
            self.entries.retain(|_, entry| {
                let is_fresh = now.saturating_duration_since(entry.since) < entry.time;
                self.size -= if is_fresh { 0 } else { entry.size };
                is_fresh
            });
        }
        while is_full(self)
            && let Some(any) = self.entries.keys().next().cloned()
        {
            self.remove(&any);
        }
        self.size += size;
        self.entries.insert(asked, Entry { since: now, time, size, answer: answer.clone() });
    }

    fn remove(&mut self, asked: &CacheKey) {
        if let Some(entry) = self.entries.remove(asked) {
            self.size -= entry.size;
        }
    }
}

/// Approximate size of an answer in bytes.
fn size(answer: &UpstreamAnswer) -> usize {
    let of_one = |record: &Record| RECORD + record.to_bytes().map_or(LARGEST, |bytes| bytes.len());
    answer.answers.iter().chain(&answer.authorities).map(of_one).fold(0, usize::saturating_add)
}

/// The lowest TTL of the records; for a negative answer that of the SOA.
fn answer_ttl(answer: &UpstreamAnswer) -> Duration {
    let seconds = if answer.answers.is_empty() {
        let soa = answer.authorities.iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.minimum.min(record.ttl)),
            _ => None,
        });
        soa.unwrap_or(0)
    } else {
        answer.answers.iter().map(|record| record.ttl).min().unwrap_or(0)
    };
    Duration::from_secs(seconds.min(MAX_TTL).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::{Name, RecordType};
    use std::net::IpAddr;

    fn asked(n: usize) -> CacheKey {
        let name = Name::from_ascii(format!("n{n}.example.com.")).expect("a name");
        let flags = QueryFlags { dnssec_ok: false, checking_disabled: false };
        (Query::query(name, RecordType::A), flags)
    }

    fn answer(ttl: u32) -> UpstreamAnswer {
        let data = RData::from(IpAddr::from([192, 0, 2, 1]));
        let record = Record::from_rdata(Name::root(), ttl, data);
        UpstreamAnswer {
            response_code: ResponseCode::NoError,
            answers: vec![record],
            authorities: Vec::new(),
            authentic_data: false,
        }
    }

    #[test]
    fn answers_age_and_go() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.put(asked(1), &answer(10), now);
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(cache.get(&asked(1), later(4)).expect("kept").answers[0].ttl, 6);
        assert_eq!(cache.get(&asked(1), later(10)), None);
        cache.put(asked(2), &answer(10_000), now);
        assert_eq!(cache.get(&asked(2), later(31)), None, "nothing is kept for long");
        cache.put(asked(3), &answer(0), now);
        assert_eq!(cache.get(&asked(3), now), None);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for n in 0..MAX_ENTRIES + 10 {
            cache.put(asked(n), &answer(10), now);
        }
        assert_eq!(cache.len(), MAX_ENTRIES);
        assert!(cache.get(&asked(MAX_ENTRIES + 9), now).is_some(), "the newest is kept");
    }

    /// The owner of a domain answers thousands of names with messages of the maximum size.
    #[test]
    fn large_answers_do_not_fill_the_memory() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let large = |bytes: usize| {
            let text = vec!["x".repeat(250); bytes / 250];
            let data = RData::TXT(hickory_proto::rr::rdata::TXT::new(text));
            UpstreamAnswer {
                answers: vec![Record::from_rdata(Name::root(), 30, data)],
                ..answer(30)
            }
        };
        cache.put(asked(0), &large(65_000), now);
        assert_eq!(cache.len(), 0, "not even one");
        let (many, large) = (LARGEST_OF_ALL / 20_000, large(30_000));
        for n in 0..many {
            cache.put(asked(n), &large, now);
            assert!(cache.size <= LARGEST_OF_ALL, "{}", cache.size);
        }
        assert!(cache.len() < many && cache.get(&asked(many - 1), now).is_some());
        let later = now + Duration::from_secs(31);
        cache.put(asked(many), &large, later);
        cache.put(asked(many), &answer(10), later);
        assert_eq!(cache.size, size(&answer(10)), "what goes is counted");
    }
}
