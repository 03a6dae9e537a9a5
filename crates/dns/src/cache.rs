//! Answers from outside, kept for a while.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hickory_proto::{
    op::{Query, ResponseCode},
    rr::{RData, Record},
};

/// At most so many; at most of that size; at most for so long.
const ENTRIES: usize = 4096;
const RECORDS: usize = 64;
const LONGEST: u32 = 30;

/// What another server said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: ResponseCode,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    /// The server vouches for it.
    pub(crate) authentic: bool,
}

/// The question in lower case, and which of its flags change the answer.
pub(crate) type Asked = (Query, Flags);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Cache(HashMap<Asked, (Instant, Duration, Answer)>);

impl Cache {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// With the time that is left to each record.
    pub(crate) fn get(&self, asked: &Asked, now: Instant) -> Option<Answer> {
        let (since, time, answer) = self.0.get(asked)?;
        let age = now.saturating_duration_since(*since);
        if age >= *time {
            return None;
        }
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let mut answer = answer.clone();
        for record in answer.answers.iter_mut().chain(&mut answer.authorities) {
            record.decrement_ttl(age);
        }
        Some(answer)
    }

    pub(crate) fn put(&mut self, asked: Asked, answer: &Answer, now: Instant) {
        let time = lifetime(answer);
        if time.is_zero() || answer.answers.len() + answer.authorities.len() > RECORDS {
            return;
        }
        if self.0.len() >= ENTRIES && !self.0.contains_key(&asked) {
            self.0.retain(|_, (since, time, _)| now.saturating_duration_since(*since) < *time);
        }
        if self.0.len() >= ENTRIES
            && let Some(any) = self.0.keys().next().cloned()
        {
            self.0.remove(&any);
        }
        self.0.insert(asked, (now, time, answer.clone()));
    }
}

/// As long as the shortest-lived record; that there is nothing, as the SOA says.
fn lifetime(answer: &Answer) -> Duration {
    let seconds = if answer.answers.is_empty() {
        let soa = answer.authorities.iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.minimum.min(record.ttl)),
            _ => None,
        });
        soa.unwrap_or(0)
    } else {
        answer.answers.iter().map(|record| record.ttl).min().unwrap_or(0)
    };
    Duration::from_secs(seconds.min(LONGEST).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::{Name, RecordType};
    use std::net::IpAddr;

    fn asked(n: usize) -> Asked {
        let name = Name::from_ascii(format!("n{n}.example.com.")).expect("a name");
        let flags = Flags { dnssec_ok: false, checking_disabled: false };
        (Query::query(name, RecordType::A), flags)
    }

    fn answer(ttl: u32) -> Answer {
        let data = RData::from(IpAddr::from([192, 0, 2, 1]));
        let record = Record::from_rdata(Name::root(), ttl, data);
        Answer {
            code: ResponseCode::NoError,
            answers: vec![record],
            authorities: Vec::new(),
            authentic: false,
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
        for n in 0..ENTRIES + 10 {
            cache.put(asked(n), &answer(10), now);
        }
        assert_eq!(cache.len(), ENTRIES);
        assert!(cache.get(&asked(ENTRIES + 9), now).is_some(), "the newest is kept");
    }
}
