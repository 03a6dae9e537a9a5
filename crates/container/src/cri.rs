//! The Container Runtime Interface (CRI): generated types and a client.

#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, unreachable_pub)]
mod generated {
    tonic::include_proto!("runtime.v1");
}

use std::{
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

pub use generated::*;

use generated::{
    image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient,
};

/// Client of both CRI services of a runtime, ours or another one.
#[derive(Clone, Debug)]
pub struct CriClient {
    pub runtime: RuntimeServiceClient<Channel>,
    pub images: ImageServiceClient<Channel>,
}

/// Maximum size of a message; lists of many pods are long.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Maximum size of response headers. Another runtime may put a long error message into a header; with a smaller limit
/// that would close the connection for all calls.
const LARGEST_HEADERS: u32 = 16 << 20;

impl CriClient {
    /// Connects to a runtime's socket. If the connection is lost later, the next call reconnects.
    pub async fn connect(socket: &Path) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_static("http://runtime.invalid")
            .connect_timeout(Duration::from_secs(5))
            .http2_max_header_list_size(LARGEST_HEADERS)
            .connect_with_connector(Connector(socket.to_owned()))
            .await?;
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES),
            images: ImageServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
        })
    }
}

/// Connects to the socket, whatever URI is requested.
#[derive(Clone, Debug)]
struct Connector(PathBuf);

impl tower_service::Service<http::Uri> for Connector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { open(&path).await.map(TokioIo::new) })
    }
}

/// Opens the socket. A path over 107 bytes does not fit into a socket address: then its directory is opened first and
/// the socket is reached through `/proc/self/fd`.
async fn open(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= 107 {
        return UnixStream::connect(path).await;
    }
    let folder = sys::descriptor::open_path(path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).await
}
