//! Connectors for gRPC clients.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use client::{ConnectionUse, Connector, Io, TcpConnector, UnixConnector};
use hyper_util::rt::TokioIo;

/// A connector with a fixed destination; it ignores the URI.
#[derive(Clone, Debug)]
pub(crate) struct GrpcConnector(Arc<dyn Connector>);

impl GrpcConnector {
    /// Connects to the unix socket at a path; after `@`, to an abstract socket.
    pub(crate) fn socket(path: &str) -> Self {
        let path = match path.strip_prefix('@') {
            Some(name) => OsString::from_vec([b"\0", name.as_bytes()].concat()),
            None => path.into(),
        };
        Self(Arc::new(UnixConnector(PathBuf::from(path))))
    }

    pub(crate) fn tcp(to: TcpConnector) -> Self {
        Self(Arc::new(to))
    }
}

impl tower_service::Service<http::Uri> for GrpcConnector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let to = self.0.clone();
        Box::pin(async move { Ok(TokioIo::new(to.connect(ConnectionUse::Requests).await?.io)) })
    }
}
