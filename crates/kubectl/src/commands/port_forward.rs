//! `port-forward`: connections to ports here go to ports of a pod.
//!
//! Every connection has a WebSocket of its own, on which channel 0 carries the data
//! and channel 1 an error; both begin with the number of the port.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use object::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::tungstenite::Message;

use super::Command;
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    select::How,
    server::Server,
    streams::pod_of,
};

pub(crate) const COMMAND: Command = Command::new(
    "port-forward",
    &[&[
        Flag::new("address", Kind::List),
        Flag::new("pod-running-timeout", Kind::Duration).default("1m0s"),
    ]],
    run,
);

fn run(call: &Call<'_>) -> Result {
    let [word, ports @ ..] = call.words() else {
        return Err(call.usage("TYPE/NAME and list of ports are required for port-forward"));
    };
    if ports.is_empty() {
        return Err(call.usage("TYPE/NAME and list of ports are required for port-forward"));
    }
    let pod = pod_of(call, word)?;
    let service = service(call, word)?;
    let mut pairs = Vec::new();
    for port in ports {
        pairs.push(pair(port, &pod, service.as_ref())?);
    }
    if pod["status"]["phase"].as_str() != Some("Running") {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        return Err(Fail::error(format!(
            "unable to forward port because pod is not running. Current status={phase}"
        )));
    }
    let addresses = match call.flags.all("address") {
        [] => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
        given => given
            .iter()
            .map(|a| if a == "localhost" { "127.0.0.1".to_owned() } else { a.clone() })
            .collect(),
    };
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let path =
        format!("/api/v1/namespaces/{}/pods/{}/portforward", text("namespace"), text("name"));
    let server = call.server()?;
    server.wait(serve(call, server, &path, &pairs, &addresses))
}

fn service(call: &Call<'_>, word: &str) -> Result<Option<Value>> {
    let Some((kind, _)) = word.split_once('/') else { return Ok(None) };
    if call.resources()?.find(kind)?.qualified() != "services" {
        return Ok(None);
    }
    let (infos, fails) = call.select(&[word.to_owned()], How { fetch: true, ..How::default() })?;
    Fail::collect(fails)?;
    Ok(infos.into_iter().next().map(|info| info.object))
}

/// `8080:80` as two numbers; names are looked up, ports of services followed.
fn pair(text: &str, pod: &Value, service: Option<&Value>) -> Result<(u16, u16)> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    // Anything after a second colon is not looked at.
    let remote = remote.split(':').next().unwrap_or_default();
    let name = |value: &Value| value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let containers = || pod["spec"]["containers"].items().iter().flat_map(|c| c["ports"].items());
    let named = |wanted: &str| {
        containers()
            .find(|port| port["name"].as_str() == Some(wanted))
            .and_then(|port| port["containerPort"].as_i64())
    };
    let target = match service {
        Some(service) => {
            let ports = service["spec"]["ports"].items();
            let same = |port: &&Value| {
                port["name"].as_str() == Some(remote)
                    || port["port"].as_i64().is_some_and(|n| n.to_string() == remote)
            };
            let Some(port) = ports.iter().find(same) else {
                return Err(Fail::error(format!(
                    "Service {} does not have a service port {remote}",
                    name(service)
                )));
            };
            match &port["targetPort"] {
                Value::Int(n) => Some(*n),
                Value::Text(wanted) => named(wanted),
                _ => port["port"].as_i64(),
            }
        }
        None => match remote.parse::<i64>() {
            Ok(n) => Some(n),
            Err(_) => named(remote),
        },
    };
    let Some(target) = target.and_then(|n| u16::try_from(n).ok()) else {
        return Err(Fail::error(format!(
            "Pod '{}' does not have a named port '{remote}'",
            name(pod)
        )));
    };
    let local = match local {
        "" => 0,
        local if local == remote && local.parse::<u16>().is_err() => target,
        local => local.parse().map_err(|_| {
            Fail::error(format!(
                "error parsing local port {}: invalid syntax",
                object::quote::quote(local)
            ))
        })?,
    };
    Ok((local, target))
}

async fn serve(
    call: &Call<'_>,
    server: &Server,
    path: &str,
    pairs: &[(u16, u16)],
    addresses: &[String],
) -> Result {
    // Nobody listens here before the other side has answered once.
    if let Some((_, remote)) = pairs.first() {
        drop(open(server, path, *remote).await.map_err(|fail| match fail {
            Fail::Server { status, .. } => Fail::error(format!(
                "error upgrading connection: unable to upgrade connection: {}",
                status.message()
            )),
            other => other,
        })?);
    }
    let mut listeners = Vec::new();
    for (local, remote) in pairs {
        let mut bound = *local;
        let mut any = false;
        for address in addresses {
            let Ok(ip) = address.parse::<std::net::IpAddr>() else {
                return Err(Fail::error(format!(
                    "unable to listen on {address}: it is no address"
                )));
            };
            match TcpListener::bind((ip, bound)).await {
                Ok(listener) => {
                    bound = listener.local_addr().map_or(bound, |address| address.port());
                    let shown = std::net::SocketAddr::new(ip, bound);
                    call.out(&format!("Forwarding from {shown} -> {remote}\n"));
                    listeners.push((listener, *remote));
                    any = true;
                }
                Err(error) if !any && addresses.len() == 1 => {
                    return Err(Fail::error(format!("unable to listen on port {local}: {error}")));
                }
                Err(_) => {}
            }
        }
        if !any {
            return Err(Fail::error(format!(
                "unable to listen on any of the requested ports: [{{{local} {remote}}}]"
            )));
        }
    }
    let accept = listeners.iter().map(|(listener, remote)| async move {
        let mut open = futures_util::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((socket, _)) = accepted else { continue };
                    let local = listener.local_addr().map_or(0, |address| address.port());
                    call.out(&format!("Handling connection for {local}\n"));
                    open.push(forward(server, path, *remote, socket));
                }
                Some(ended) = open.next(), if !open.is_empty() => if let Err(fail) = ended {
                    call.say(&format!("error: {}", Fail::words(&fail)));
                },
            }
        }
    });
    let _: Vec<()> = futures_util::future::join_all(accept).await;
    Ok(())
}

async fn open(server: &Server, path: &str, port: u16) -> Result<client::WebSocket> {
    let protocols = ["v4.channel.k8s.io", "portforward.k8s.io"];
    server.websocket(&format!("{path}?ports={port}"), &protocols).await
}

async fn forward(server: &Server, path: &str, port: u16, socket: TcpStream) -> Result {
    let opened = open(server, path, port).await?;
    let (mut to, mut from) = opened.stream.split();
    let (mut read, mut write) = socket.into_split();
    let mut buffer = vec![0; 32 << 10];
    let mut begun = [false; 2];
    let mut reading = true;
    loop {
        tokio::select! {
            length = read.read(&mut buffer), if reading => match length {
                Ok(0) | Err(_) => reading = false,
                Ok(length) => {
                    let mut frame = Vec::with_capacity(length + 1);
                    frame.push(0);
                    frame.extend_from_slice(&buffer[..length]);
                    to.send(Message::Binary(Bytes::from(frame))).await.map_err(|error| Fail::error(error.to_string()))?;
                }
            },
            message = from.next() => match message {
                Some(Ok(Message::Binary(bytes))) if bytes.len() > 1 => {
                    let channel = usize::from(bytes[0]).min(1);
                    let skip = if std::mem::replace(&mut begun[channel], true) { 1 } else { 3.min(bytes.len()) };
                    if bytes.len() == skip {
                        continue;
                    }
                    if channel == 1 {
                        return Err(Fail::error(String::from_utf8_lossy(&bytes[skip..]).into_owned()));
                    }
                    if write.write_all(&bytes[skip..]).await.is_err() {
                        return Ok(());
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {}
            },
        }
    }
}
