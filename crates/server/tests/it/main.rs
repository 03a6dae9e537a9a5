//! The machinery as a whole, with real kinds behind it.

mod floods;
mod hostile;
mod raw;
mod watches;
