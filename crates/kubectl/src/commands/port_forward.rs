//! `port-forward`: forwards connections to local ports to ports of a pod.
//!
//! One SPDY connection carries all of them, each as a data stream and an error stream. It is tunnelled through a
//! WebSocket if the server supports that. With servers that reject both, every connection has its own WebSocket, on
//! which channel 0 carries the data and channel 1 an error; both start with the port number.

mod carrier;
mod tunnel;

use futures_util::StreamExt as _;
use object::Value;
use tokio::net::TcpListener;

use self::carrier::Carrier;

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::BuilderOptions,
    streams::pod_of,
};

pub(crate) const COMMAND: Command = Command::new(
    "port-forward",
    &[&[
        Flag::new("address", FlagType::StringSlice),
        Flag::new("pod-running-timeout", FlagType::Duration).default("1m0s"),
    ]],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let [word, ports @ ..] = call.args() else {
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
        return Err(CommandError::error(format!(
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
    call.server()?.wait(serve(call, &path, &pairs, &addresses))
}

fn service(call: &Invocation<'_>, word: &str) -> Result<Option<Value>> {
    let Some((kind, _)) = word.split_once('/') else { return Ok(None) };
    if call.resources()?.find(kind)?.qualified() != "services" {
        return Ok(None);
    }
    let (infos, fails) = call
        .select(&[word.to_owned()], BuilderOptions { fetch: true, ..BuilderOptions::default() })?;
    CommandError::collect(fails)?;
    Ok(infos.into_iter().next().map(|info| info.object))
}

/// Parses `8080:80` into a local and a remote port; names are looked up, and ports of services mapped to the pod's.
fn pair(text: &str, pod: &Value, service: Option<&Value>) -> Result<(u16, u16)> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    // Anything after a second colon is ignored.
    let remote = remote.split(':').next().unwrap_or_default();
    let name = |value: &Value| value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    for (which, port) in [("local", local), ("remote", remote)] {
        if is_number(port) && port.parse::<u16>().is_err() {
            return Err(CommandError::error(format!(
                "error parsing {which} port '{port}': strconv.ParseUint: parsing {}: value out of range",
                object::quote::quote(port)
            )));
        }
    }
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
                return Err(CommandError::error(if remote.parse::<u16>().is_ok() {
                    format!("Service {} does not have a service port {remote}", name(service))
                } else {
                    format!("Service '{}' does not have a named port '{remote}'", name(service))
                }));
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
        return Err(CommandError::error(format!(
            "Pod '{}' does not have a named port '{remote}'",
            name(pod)
        )));
    };
    if target == 0 {
        return Err(CommandError::error("remote port must be > 0"));
    }
    let local = match local {
        "" => 0,
        local if local == remote && local.parse::<u16>().is_err() => target,
        local => local.parse().map_err(|_| {
            let digits = local.bytes().all(|byte| byte.is_ascii_digit());
            let why = if digits { "value out of range" } else { "invalid syntax" };
            CommandError::error(format!(
                "error parsing local port '{local}': strconv.ParseUint: parsing {}: {why}",
                object::quote::quote(local)
            ))
        })?,
    };
    Ok((local, target))
}

async fn serve(
    call: &Invocation<'_>,
    path: &str,
    pairs: &[(u16, u16)],
    addresses: &[String],
) -> Result {
    // Listens only after the server has accepted a connection.
    let first = pairs.first().map_or(0, |(_, remote)| *remote);
    let tunnels = call.environment.port_forward_websockets;
    let carrier = Carrier::connect(call.server()?, path, first, tunnels).await?;
    let mut listeners = Vec::new();
    for (local, remote) in pairs {
        let mut bound = *local;
        let mut any = false;
        for address in addresses {
            let Ok(ip) = address.parse::<std::net::IpAddr>() else {
                return Err(CommandError::error(format!(
                    "unable to listen on {address}: it is no address"
                )));
            };
            match TcpListener::bind((ip, bound)).await {
                Ok(listener) => {
                    bound = listener.local_addr().map_or(bound, |address| address.port());
                    let shown = std::net::SocketAddr::new(ip, bound);
                    call.print(&format!("Forwarding from {shown} -> {remote}\n"));
                    listeners.push((listener, *remote));
                    any = true;
                }
                Err(error) if !any && addresses.len() == 1 => {
                    return Err(CommandError::error(format!(
                        "unable to listen on port {local}: {error}"
                    )));
                }
                Err(_) => {}
            }
        }
        if !any {
            return Err(CommandError::error(format!(
                "unable to listen on any of the requested ports: [{{{local} {remote}}}]"
            )));
        }
    }
    let carrier = &carrier;
    let accept = listeners.iter().map(|(listener, remote)| async move {
        let mut open = futures_util::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((socket, _)) = accepted else { continue };
                    let local = listener.local_addr().map_or(0, |address| address.port());
                    call.print(&format!("Handling connection for {local}\n"));
                    open.push(async move {
                        let carried = carrier.carry(socket, *remote).await;
                        (local, carried)
                    });
                }
                Some((local, carried)) = open.next(), if !open.is_empty() => if let Err(fail) = carried {
                    call.log('E', &format!(
                        "\"Unhandled Error\" err=\"an error occurred forwarding {local} -> {remote}: {}\"",
                        fail.message()
                    ));
                },
            }
        }
    });
    tokio::select! {
        _ = futures_util::future::join_all(accept) => Ok(()),
        () = carrier.lost() => Err(CommandError::error("lost connection to pod")),
    }
}

#[test]
fn local_ports_are_numbers_that_fit() {
    let refused = |text: &str| pair(text, &Value::Null, None).err().map(|fail| fail.message());
    assert_eq!(
        refused("99999:80").as_deref(),
        Some(
            "error parsing local port '99999': strconv.ParseUint: parsing \"99999\": value out of range"
        )
    );
    assert_eq!(
        refused("a:80").as_deref(),
        Some("error parsing local port 'a': strconv.ParseUint: parsing \"a\": invalid syntax")
    );
    assert_eq!(refused("8080:80"), None);
}
