//! node/v1.

mod runtime_class;

pub use self::runtime_class::{Overhead, RuntimeClass, Scheduling};
