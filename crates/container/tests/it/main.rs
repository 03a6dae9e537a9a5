//! Tests of the runtime through CRI, with real containers from a packed busybox.

mod costs;
mod floods;
mod hardening;
mod image;
mod killing;
mod leftovers;
mod pod;
mod recovery;
mod rights;
mod stream;
mod streaming;
mod support;
