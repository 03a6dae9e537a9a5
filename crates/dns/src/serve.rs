//! The sockets: questions that memory answers are answered on the spot, the others
//! wait in tasks of their own.

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

use crate::resolver::{Reply, Resolver, Transport};

/// No honest question is longer.
const QUESTION: usize = 4096;
const WAITING: usize = 2000;
/// Of these, those of one client: the others are for the others.
const WAITING_OF_ONE: usize = WAITING / 8;
const CONNECTIONS: usize = 256;
const QUESTIONS: usize = 1000;
const IDLE: Duration = Duration::from_secs(10);
const WRITE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn udp(socket: UdpSocket, resolver: Arc<Resolver>) {
    let socket = Arc::new(socket);
    let mut waiting = JoinSet::new();
    let mut clients: HashMap<IpAddr, usize> = HashMap::new();
    let mut buffer = [0; QUESTION];
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
                debug!(%error, "cannot receive"); // such as a client that is gone
                continue;
            }
        };
        let begun = panics::catch("dns", || {
            let question = buffer.get(..length).unwrap_or_default();
            resolver.begin(question, from, Transport::Udp)
        });
        match begun.unwrap_or(Reply::None) {
            Reply::None => {}
            Reply::Now(bytes) => send(&socket, &bytes, from).await,
            Reply::Later(_) if waiting.len() >= WAITING => debug!("too many questions wait"),
            Reply::Later(_)
                if clients.get(&from.ip()).is_some_and(|own| *own >= WAITING_OF_ONE) =>
            {
                debug!(%from, "too many questions of one client wait");
            }
            Reply::Later(pending) => {
                *clients.entry(from.ip()).or_default() += 1;
                let (socket, resolver) = (socket.clone(), resolver.clone());
                waiting.spawn(async move {
                    let completed = panics::contain("dns", resolver.complete(*pending)).await;
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
                warn!(%error, "cannot accept");
                sleep(PAUSE).await;
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

/// One question after another, until the client ends, dawdles or has had enough.
async fn connection(mut stream: TcpStream, from: SocketAddr, resolver: &Resolver) {
    for _ in 0..QUESTIONS {
        let Ok(Some(question)) = timeout(IDLE, question(&mut stream)).await else { return };
        let answer = match resolver.begin(&question, from, Transport::Tcp) {
            Reply::None => None,
            Reply::Now(bytes) => Some(bytes),
            Reply::Later(pending) => resolver.complete(*pending).await,
        };
        let Some(answer) = answer else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        let Ok(Ok(())) = timeout(WRITE, stream.write_all(&framed)).await else { return };
    }
}

async fn question(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = usize::from(stream.read_u16().await.ok()?);
    if length > QUESTION {
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
