//! Whose turn it is when more is asked than can be done at once.

use std::{fmt, future::Future, pin::Pin};

use object::{Status, Text};

use crate::{RequestInfo, UserInfo};

/// The right to be handled now. It ends when it is dropped.
pub struct Seat {
    /// The uids of the flow schema and of the priority level, as answers name them.
    pub classification: Option<(Text, Text)>,
    /// What the seat holds.
    pub guard: Option<Box<dyn Send>>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({:?})", self.classification)
    }
}

pub type SeatFuture<'a> = Pin<Box<dyn Future<Output = Result<Seat, Status>> + Send + 'a>>;

/// Gives seats, at once or after a while; or refuses, so that the caller comes back later.
pub trait FlowControl: fmt::Debug + Send + Sync {
    fn acquire_seat<'a>(&'a self, user: &'a UserInfo, info: &'a RequestInfo) -> SeatFuture<'a>;
}
