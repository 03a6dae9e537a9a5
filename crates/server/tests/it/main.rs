//! The machinery as a whole, with real kinds behind it.

mod collections;
mod floods;
mod hostile;
mod paths;
mod raw;
mod watches;
