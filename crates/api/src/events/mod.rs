//! events/v1.

mod event;

pub use self::event::{Event, EventSeries};
