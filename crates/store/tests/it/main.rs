//! Integration tests of the store, with bytes as objects.

mod cluster;
mod commit;
mod containment;
mod contract;
mod crash;
mod crowd;
mod doors;
mod face;
mod failpoints;
mod fixture;
mod full;
mod http2;
mod kills;
mod linear;
mod packing;
mod read;
mod real;
mod remote;
mod restart;
mod transfer;
