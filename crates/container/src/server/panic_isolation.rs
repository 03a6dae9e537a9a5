//! Panic isolation of gRPC calls: all pods of a node share one connection, and a panic in one call must not close it.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{Status, body::Body, server::NamedService};
use tower_service::Service;

/// A gRPC service whose panicking calls return an internal error.
#[derive(Clone, Debug)]
pub(super) struct Contained<S>(pub(super) S);

impl<S: NamedService> NamedService for Contained<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Contained<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let called = panics::catch("cri", || self.0.call(request));
        Box::pin(async move {
            let failed = |_| Ok(Status::internal("the call caused a panic").into_http());
            match called {
                Ok(call) => panics::contain("cri", call).await.unwrap_or_else(failed),
                Err(panicked) => failed(panicked),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Fails;

    impl Service<Request<Body>> for Fails {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            Box::pin(async { panic!("in a call") })
        }
    }

    #[tokio::test]
    async fn a_call_that_panics_is_an_internal_error() {
        let answer = Contained(Fails).call(Request::new(Body::empty())).await;
        let answer = answer.unwrap_or_else(|never| match never {});
        let code = answer.headers().get("grpc-status").and_then(|code| code.to_str().ok());
        assert_eq!(code, Some("13"));
    }
}
