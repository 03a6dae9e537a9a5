//! The kinds as a whole, against bytes and documents that upstream made.

mod openapi;
mod protobuf;
