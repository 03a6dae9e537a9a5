//! The UDP and TCP listeners. Queries that can be answered from memory are answered at once; each forwarded query waits
//! in its own task.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use runtime::ConnectionLimit;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::resolver::{Outcome, Resolver, Transport};

/// Maximum size of a request in bytes; no legitimate query is longer.
const MAX_REQUEST_SIZE: usize = 4096;
const MAX_PENDING: usize = 2000;
/// Maximum number of pending queries of one client, so that others are still served.
const WAITING_OF_ONE: usize = MAX_PENDING / 8;
const CONNECTIONS: usize = 256;
const MAX_REQUESTS_PER_CONNECTION: usize = 1000;
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

pub(crate) async fn udp(socket: UdpSocket, resolver: Arc<Resolver>) {
    let socket = Arc::new(socket);
    let mut waiting = JoinSet::new();
    let mut clients: HashMap<IpAddr, usize> = HashMap::new();
    let mut buffer = [0; MAX_REQUEST_SIZE];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            Some(answered) = waiting.join_next() => {
                if let Ok(client) = answered {
                    leave(&mut clients, client);
                }
                continue;
            }
        };
        let (length, from) = match received {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "cannot receive"); // for example an ICMP error of a client that is gone
                continue;
            }
        };
        let begun = panics::catch("dns", || {
            let question = buffer.get(..length).unwrap_or_default();
            resolver.handle(question, from, Transport::Udp)
        });
        match begun.unwrap_or(Outcome::Drop) {
            Outcome::Drop => {}
            Outcome::Respond(bytes) => send(&socket, &bytes, from).await,
            Outcome::Forward(_) if waiting.len() >= MAX_PENDING => {
                debug!("too many pending queries; dropping one");
            }
            Outcome::Forward(_)
                if clients.get(&from.ip()).is_some_and(|own| *own >= WAITING_OF_ONE) =>
            {
                debug!(%from, "too many pending queries of one client; dropping one");
            }
            Outcome::Forward(pending) => {
                *clients.entry(from.ip()).or_default() += 1;
                let (socket, resolver) = (socket.clone(), resolver.clone());
                waiting.spawn(async move {
                    let completed = panics::contain("dns", resolver.forward(*pending)).await;
                    if let Ok(Some(bytes)) = completed {
                        send(&socket, &bytes, from).await;
                    }
                    from.ip()
                });
            }
        }
    }
}

fn leave(clients: &mut HashMap<IpAddr, usize>, client: IpAddr) {
    if let Some(own) = clients.get_mut(&client) {
        *own -= 1;
        if *own == 0 {
            clients.remove(&client);
        }
    }
}

pub(crate) async fn tcp(listener: TcpListener, resolver: Arc<Resolver>) {
    let limit = ConnectionLimit::new(CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let Some(admitted) = limit.admit(from.ip()) else { continue };
        let resolver = resolver.clone();
        connections.spawn(async move {
            let served = panics::contain("dns", connection(stream, from, &resolver));
            admitted.run(served).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one query after another, until the client closes, is idle too long, or reaches the limit.
async fn connection(mut stream: TcpStream, from: SocketAddr, resolver: &Resolver) {
    for _ in 0..MAX_REQUESTS_PER_CONNECTION {
        let Ok(Some(question)) = timeout(IDLE_TIMEOUT, read_request(&mut stream)).await else {
            return;
        };
        let answer = match resolver.handle(&question, from, Transport::Tcp) {
            Outcome::Drop => None,
            Outcome::Respond(bytes) => Some(bytes),
            Outcome::Forward(pending) => resolver.forward(*pending).await,
        };
        let Some(answer) = answer else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        let Ok(Ok(())) = timeout(WRITE_TIMEOUT, stream.write_all(&framed)).await else { return };
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = usize::from(stream.read_u16().await.ok()?);
    if length > MAX_REQUEST_SIZE {
        return None;
    }
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await.ok()?;
    Some(question)
}

async fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(bytes, to).await {
        debug!(%error, %to, "cannot answer");
    }
}
