//! The connections of a client: HTTP/2 ones are shared, and more are opened when
//! they are full; a server that only knows HTTP/1.1 gets one per request.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, Uri, header::HOST};
use hyper::body::Incoming;
use tokio::sync::Mutex;

use crate::{
    Connect, Connected, Error, Use,
    line::{self, Body, Line, Place},
};

#[derive(Debug)]
pub(crate) struct Pool {
    connect: Arc<dyn Connect>,
    lines: Mutex<Vec<Line>>,
}

enum Way {
    Shared(Line, Place),
    Own(Connected),
}

impl Pool {
    pub(crate) fn new(connect: Arc<dyn Connect>) -> Self {
        Self { connect, lines: Mutex::default() }
    }

    /// Sends `request`, whose URI is a path. A connection that closes before it took
    /// the request is replaced.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, Option<Place>), Error> {
        loop {
            let (mut line, place) = match self.way().await? {
                Way::Own(connected) => return self.send_once(connected, request).await,
                Way::Shared(line, place) => (line, place),
            };
            *request.uri_mut() = self.full(request.uri())?;
            match line.send.try_send_request(request).await {
                Ok(answer) => return Ok((answer, Some(place))),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if line.is_closed() => request = unsent,
                    _ => return Err(failed.into_error().into()),
                },
            }
        }
    }

    /// Sends `request` on a connection that it may take over.
    pub(crate) async fn upgrade(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        let connected = self.connect.connect(Use::Upgrade).await?;
        Ok(self.send_once(connected, request).await?.0)
    }

    pub(crate) async fn clear(&self) {
        self.lines.lock().await.clear();
    }

    async fn way(&self) -> Result<Way, Error> {
        let mut lines = self.lines.lock().await; // while one connects, others wait for it
        lines.retain(|line| !line.is_closed());
        let free = lines.iter().find_map(|line| Some((line.clone(), line.place()?)));
        if let Some((line, place)) = free {
            return Ok(Way::Shared(line, place));
        }
        let connected = self.connect.connect(Use::Requests).await?;
        if !connected.http2 {
            return Ok(Way::Own(connected));
        }
        let line = Line::open(connected).await?;
        let place = line.place().ok_or_else(|| Error::unavailable("the connection closed"))?;
        lines.push(line.clone());
        Ok(Way::Shared(line, place))
    }

    async fn send_once(
        &self,
        connected: Connected,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, Option<Place>), Error> {
        let host = HeaderValue::try_from(self.connect.authority())
            .map_err(|error| Error::Invalid(error.to_string()))?;
        request.headers_mut().insert(HOST, host);
        Ok((line::send_once(connected, request).await?, None))
    }

    fn full(&self, uri: &Uri) -> Result<Uri, Error> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Uri::builder()
            .scheme(self.connect.scheme())
            .authority(self.connect.authority())
            .path_and_query(path)
            .build()
            .map_err(|error| Error::Invalid(error.to_string()))
    }
}
