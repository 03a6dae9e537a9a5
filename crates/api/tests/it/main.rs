//! The kinds as a whole, against bytes and documents that upstream made.

mod docs;
mod generate;
mod kind_names;
mod openapi;
mod properties;
mod protobuf;
mod scale;
mod versions;
