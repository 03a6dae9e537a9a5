//! gRPC probes: a minimal client of `grpc.health.v1.Health/Check`.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;

use super::{LONGEST, prober::connect};

/// Checks that the service reports SERVING.
pub(super) async fn check(
    ip: &str,
    port: u16,
    service: &str,
    limit: Duration,
) -> Result<(), String> {
    let wrong = |error: hyper::Error| format!("rpc error: {error}");
    let stream = connect(ip, port, limit).await?;
    let shaken = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(16 << 10)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = timeout(limit, shaken)
        .await
        .map_err(|_| "timeout: failed to connect service".to_owned())?
        .map_err(wrong)?;
    let request = Request::post(format!("http://{ip}:{port}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.37")
        .body(Full::new(question(service)?))
        .map_err(|error| error.to_string())?;
    let asked = async {
        let answer = sender.send_request(request).await.map_err(wrong)?;
        let status = answer.headers().get("grpc-status").cloned();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| format!("rpc error: {error}"))?;
        let status = status.or_else(|| body.trailers()?.get("grpc-status").cloned());
        if status.as_ref().is_some_and(|status| status != "0") {
            return Err(format!(
                "rpc error: code = {}",
                status.and_then(|s| s.to_str().map(str::to_owned).ok()).unwrap_or_default()
            ));
        }
        // 5 bytes of gRPC frame header, then field 1 with the value 1: SERVING
        if body.to_bytes().get(5..7) == Some(&[0x08, 0x01]) {
            return Ok(());
        }
        Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned())
    };
    tokio::select! {
        done = timeout(limit, asked) => done.map_err(|_| "timeout: health rpc did not complete".to_owned())?,
        ended = connection => Err(ended.map_or_else(|error| error.to_string(), |()| "the connection ended".into())),
    }
}

/// The gRPC frame of a request with the service's name as field 1.
fn question(service: &str) -> Result<Bytes, String> {
    let too_long = |_| "the service's name is too long".to_owned();
    if service.is_empty() {
        return Ok(Bytes::from_static(&[0; 5]));
    }
    let length = i8::try_from(service.len()).map_err(too_long)?.unsigned_abs();
    let mut message = vec![0, 0, 0, 0, length + 2, 0x0a, length];
    message.extend(service.as_bytes());
    Ok(message.into())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::Arc,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::Response;
    use http_body_util::StreamBody;
    use hyper::{body::Frame, server::conn::http2, service::service_fn};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one connection with `chunk`, repeated this many times.
    async fn serve(chunk: &'static [u8], times: usize) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let (port, sent) = (listener.local_addr().expect("bound").port(), Arc::default());
        let counter: Arc<AtomicUsize> = Arc::clone(&sent);
        #[expect(clippy::disallowed_methods, reason = "a test has no context")]
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("asked");
            let service = service_fn(move |_| {
                let counter = counter.clone();
                let frames = futures_util::stream::unfold(0, move |at| {
                    counter.fetch_add(chunk.len(), Ordering::Relaxed);
                    let frame = Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk)));
                    async move { (at < times).then_some((frame, at + 1)) }
                });
                async move { Ok::<_, Infallible>(Response::new(StreamBody::new(frames))) }
            });
            let http2 = http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
        (port, sent)
    }

    #[tokio::test]
    async fn health_is_read_and_an_endless_answer_is_not() {
        const LIMIT: Duration = Duration::from_secs(30);
        let (port, _) = serve(&[0, 0, 0, 0, 2, 0x08, 0x01], 1).await;
        check("127.0.0.1", port, "", LIMIT).await.expect("healthy");
        let (port, sent) = serve(&[7; 16 << 10], usize::MAX).await;
        let error = check("127.0.0.1", port, "", LIMIT).await.expect_err("too much");
        assert!(error.contains("length limit exceeded"), "{error}");
        assert!(sent.load(Ordering::Relaxed) < 16 << 20, "no more is taken than windows hold");
    }

    #[test]
    fn the_service_is_named_in_one_byte_lengths() {
        assert_eq!(question("").unwrap(), [0; 5][..]);
        assert_eq!(question("ab").unwrap(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b'][..]);
        assert!(question(&"x".repeat(128)).is_err());
    }
}
