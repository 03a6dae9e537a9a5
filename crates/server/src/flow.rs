//! Interface of API Priority and Fairness.

use std::{fmt, future::Future, pin::Pin};

use object::{Status, Text};

use crate::{RequestInfo, UserInfo};

/// A seat of a priority level: permission to execute the request now. Dropping it releases the
/// seat.
pub struct Seat {
    /// The uids of the FlowSchema and of the PriorityLevelConfiguration, for the response headers.
    pub classification: Option<(Text, Text)>,
    /// Releases the seat when dropped.
    pub guard: Option<Box<dyn Send>>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({:?})", self.classification)
    }
}

/// Resolves once a seat is assigned, or the request is rejected.
pub type SeatFuture<'a> = Pin<Box<dyn Future<Output = Result<Seat, Status>> + Send + 'a>>;

/// Assigns seats to requests, at once or after queueing; or rejects a request with 429.
pub trait FlowControl: fmt::Debug + Send + Sync {
    fn acquire_seat<'a>(&'a self, user: &'a UserInfo, info: &'a RequestInfo) -> SeatFuture<'a>;
}
