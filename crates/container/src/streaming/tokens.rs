//! Single-use URLs: whoever presents the token is taken for the caller of the CRI method, for one minute.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::{AttachRequest, Error, ExecRequest, PortForwardRequest, session_limit::Seat};

const LIFETIME: Duration = Duration::from_mins(1);
const MOST_TOKENS: usize = 1000;

/// A session that was requested by a CRI call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionRequest {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

/// A request and the session slot that was reserved for it.
type Granted = (SessionRequest, Seat);

/// The tokens that were issued and not used yet.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<String, (Instant, Granted)>>);

impl Tokens {
    pub(super) fn add(&self, granted: Granted, now: Instant) -> Result<String, Error> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| Error("no random numbers".to_owned()))?;
        let token = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, (until, _)| *until > now);
        if tokens.len() >= MOST_TOKENS {
            return Err(Error("maximum number of in-flight requests exceeded".to_owned()));
        }
        tokens.insert(token.clone(), (now + LIFETIME, granted));
        Ok(token)
    }

    pub(super) fn take(&self, token: &str, now: Instant) -> Option<Granted> {
        let (until, granted) =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(token)?;
        (until > now).then_some(granted)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::session_limit::Seats, *};

    #[test]
    fn once_and_for_a_minute() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let request = SessionRequest::PortForward(PortForwardRequest::default());
        let seats = Seats::of_sessions();
        let number = std::cell::Cell::new(0);
        let add = |at| {
            number.set(number.get() + 1); // each in a namespace of its own
            let seat = seats.take(&number.get().to_string()).expect("a seat");
            tokens.add((request.clone(), seat), at)
        };
        let (one, two) = (add(now).expect("room"), add(now).expect("room"));
        assert_ne!(one, two);
        let take = |token: &str, at| tokens.take(token, at).map(|(request, _)| request);
        assert_eq!((take(&one, now), take(&one, now)), (Some(request.clone()), None));
        let later = now + LIFETIME;
        assert_eq!(take(&two, later), None, "expired");
        (0..MOST_TOKENS).for_each(|_| drop(add(later).expect("room")));
        assert!(add(later).is_err());
        add(later + LIFETIME).expect("the others have expired");
    }
}
