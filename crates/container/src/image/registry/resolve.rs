//! DNS resolution without the C library, which a static program cannot rely on: /etc/hosts, then the name servers of
//! /etc/resolv.conf.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use tokio::{net::UdpSocket, time::timeout};

use super::super::{Error, Result};

const TRIES: usize = 2;
const ANSWER: Duration = Duration::from_secs(3);

/// The addresses of a host.
pub(super) async fn addresses(host: &str) -> Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    if host == "localhost" {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let known = from_hosts(&hosts, host);
    if !known.is_empty() {
        return Ok(known);
    }
    let servers = name_servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let mut reason = "no name server".to_owned();
    for server in servers.iter().cycle().take(servers.len() * TRIES) {
        match lookup_host(*server, host).await {
            Ok(found) if found.is_empty() => return Err(failed(host, "no such host")),
            Ok(found) => return Ok(found),
            Err(error) => reason = error,
        }
    }
    Err(failed(host, &reason))
}

/// Queries A and AAAA records. IPv4 addresses come first, so that a host without IPv6 connects without delay.
async fn lookup_host(server: SocketAddr, host: &str) -> std::result::Result<Vec<IpAddr>, String> {
    let mut found = query(server, host, RecordType::A).await?;
    found.extend(query(server, host, RecordType::AAAA).await?);
    Ok(found)
}

async fn query(
    server: SocketAddr,
    host: &str,
    kind: RecordType,
) -> std::result::Result<Vec<IpAddr>, String> {
    let name = Name::from_ascii(format!("{}.", host.trim_end_matches('.')))
        .map_err(|error| error.to_string())?;
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    let bytes = message.to_vec().map_err(|error| error.to_string())?;
    let exchange = async {
        let local: IpAddr = if server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((local, 0)).await?;
        socket.connect(server).await?; // the kernel drops packets from other addresses
        socket.send(&bytes).await?;
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await?;
            match Message::from_vec(&buffer[..length]) {
                Ok(answer) if answer.metadata.id == message.metadata.id => {
                    return Ok::<_, std::io::Error>(answer);
                }
                _ => {}
            }
        }
    };
    let answer =
        timeout(ANSWER, exchange).await.map_err(|_| format!("{server} does not respond"))?;
    let answer = answer.map_err(|error| format!("{server}: {error}"))?;
    if !matches!(answer.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain) {
        return Err(format!("{server}: {}", answer.metadata.response_code));
    }
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    Ok(answer.answers.iter().filter_map(|record| address(&record.data)).collect())
}

fn from_hosts(text: &str, host: &str) -> Vec<IpAddr> {
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    lines
        .filter_map(|mut words| {
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
        })
        .collect()
}

fn name_servers(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    servers
        .filter_map(|address| Some(SocketAddr::new(address.trim().parse().ok()?, 53)))
        .take(3)
        .collect()
}

fn failed(host: &str, reason: &str) -> Error {
    Error::Registry(format!("lookup {host}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files() {
        let hosts = "127.0.0.1 localhost\n10.0.0.7 registry.example Registry # here\n::7 registry.example\n";
        let expected: [IpAddr; 2] =
            [Ipv4Addr::new(10, 0, 0, 7).into(), "::7".parse().expect("valid")];
        assert_eq!(from_hosts(hosts, "registry.EXAMPLE"), expected);
        assert!(from_hosts(hosts, "here").is_empty());
        let servers = name_servers("# x\nnameserver 10.0.0.1\nsearch a\nnameserver ::1\n");
        assert_eq!(
            servers,
            ["10.0.0.1:53".parse().expect("valid"), "[::1]:53".parse().expect("valid")]
        );
    }
}
