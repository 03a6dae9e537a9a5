//! The runtime as a kubelet sees it: real containers from a packed busybox.

mod image;
mod pod;
mod rights;
mod stream;
mod streaming;
mod support;
