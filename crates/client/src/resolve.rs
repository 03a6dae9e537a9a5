//! Name resolution without the C library: /etc/hosts, then the name servers of /etc/resolv.conf over UDP.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{fs, net::UdpSocket, time::timeout};

const A: u16 = 1;
const AAAA: u16 = 28;
const TRIES: usize = 2;
const LARGEST_FILE: u64 = 1 << 20;

#[derive(Debug, PartialEq)]
struct Resolver {
    servers: Vec<IpAddr>,
    search: Vec<String>,
    ndots: usize,
    timeout: Duration,
}

/// The addresses of `host`, which may be an address itself.
pub(crate) async fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = host.trim_matches(['[', ']']);
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let known = in_hosts(&text_of("/etc/hosts").await, host);
    if !known.is_empty() {
        return Ok(known);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![[127, 0, 0, 1].into()]);
    }
    Resolver::parse(&text_of("/etc/resolv.conf").await).resolve(host).await
}

async fn text_of(path: &str) -> String {
    match fs::metadata(path).await {
        Ok(about) if about.len() <= LARGEST_FILE => {
            fs::read_to_string(path).await.unwrap_or_default() // treated like a missing file
        }
        _ => String::new(),
    }
}

fn in_hosts(hosts: &str, wanted: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(wanted)).then_some(address)
        })
        .collect()
}

impl Resolver {
    fn parse(text: &str) -> Self {
        let mut this =
            Self { servers: vec![], search: vec![], ndots: 1, timeout: Duration::from_secs(5) };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    this.servers.extend(words.filter_map(|w| w.parse::<IpAddr>().ok()));
                }
                Some("search" | "domain") => this.search = words.map(str::to_owned).collect(),
                Some("options") => words.for_each(|option| match option.split_once(':') {
                    Some(("ndots", n)) => this.ndots = n.parse().unwrap_or(this.ndots).min(15),
                    Some(("timeout", n)) => {
                        let seconds = n.parse().unwrap_or(5_u64).clamp(1, 30);
                        this.timeout = Duration::from_secs(seconds);
                    }
                    _ => {}
                }),
                _ => {}
            }
        }
        this
    }

    /// The full names to query, in order.
    fn candidates(&self, host: &str) -> Vec<String> {
        if let Some(full) = host.strip_suffix('.') {
            return vec![full.to_owned()];
        }
        let searched = self.search.iter().map(|domain| format!("{host}.{domain}"));
        let own = std::iter::once(host.to_owned());
        if host.matches('.').count() >= self.ndots {
            own.chain(searched).collect()
        } else {
            searched.chain(own).collect()
        }
    }

    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let unknown = || io::Error::new(ErrorKind::NotFound, format!("no such host: {host}"));
        let mut last = unknown();
        for name in self.candidates(host) {
            let mut found = BTreeSet::new(); // IPv4 sorts first
            for kind in [A, AAAA] {
                match self.ask(&name, kind).await {
                    Ok(addresses) => found.extend(addresses),
                    Err(error) => last = error,
                }
            }
            if !found.is_empty() {
                return Ok(found.into_iter().collect());
            }
        }
        Err(last)
    }

    async fn ask(&self, name: &str, kind: u16) -> io::Result<Vec<IpAddr>> {
        let mut last = io::Error::new(ErrorKind::NotFound, "there is no name server");
        for server in self.servers.iter().cycle().take(self.servers.len() * TRIES) {
            match timeout(self.timeout, exchange(SocketAddr::new(*server, 53), name, kind)).await {
                Ok(Ok(addresses)) => return Ok(addresses),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::new(ErrorKind::TimedOut, "the name server is silent"),
            }
        }
        Err(last)
    }
}

async fn exchange(server: SocketAddr, name: &str, kind: u16) -> io::Result<Vec<IpAddr>> {
    let local: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((local, 0)).await?;
    socket.connect(server).await?;
    let [high, low, ..] = RandomState::new().hash_one(name).to_be_bytes();
    let query = query([high, low], name, kind)?;
    socket.send(&query).await?;
    let mut answer = [0; 4096];
    loop {
        let length = socket.recv(&mut answer).await?;
        if let Some(addresses) = read(answer.get(..length).unwrap_or_default(), &query, kind)? {
            return Ok(addresses);
        }
    }
}

fn query(id: [u8; 2], name: &str, kind: u16) -> io::Result<Vec<u8>> {
    let mut out = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]; // recursion desired, one question
    for label in name.split('.') {
        match u8::try_from(label.len()) {
            Ok(length @ 1..=63) => out.push(length),
            _ => return Err(io::Error::new(ErrorKind::InvalidInput, "not a host name")),
        }
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    Ok(out)
}

/// The addresses in a response; `None` if it belongs to another query.
fn read(answer: &[u8], query: &[u8], kind: u16) -> io::Result<Option<Vec<IpAddr>>> {
    let (Some((header, rest)), Some((asked, question))) =
        (answer.split_first_chunk::<12>(), query.split_first_chunk::<12>())
    else {
        return Ok(None);
    };
    let Some((echo, mut rest)) = rest.split_at_checked(question.len()) else { return Ok(None) };
    let is_ours = header.first_chunk::<2>() == asked.first_chunk::<2>();
    let [_, _, flags, code, _, _, high, low, ..] = header;
    if !is_ours || flags & 0x80 == 0 || !echo.eq_ignore_ascii_case(question) {
        return Ok(None);
    }
    match code & 0x0f {
        0 => {}
        3 => return Ok(Some(Vec::new())),
        code => return Err(io::Error::other(format!("the name server failed (code {code})"))),
    }
    let mut found = Vec::new();
    for _ in 0..u16::from_be_bytes([*high, *low]) {
        let Some((record, data, after)) = record(rest) else { break };
        if record == kind {
            if let Ok(four) = <[u8; 4]>::try_from(data) {
                found.push(four.into());
            } else if let Ok(sixteen) = <[u8; 16]>::try_from(data) {
                found.push(sixteen.into());
            }
        }
        rest = after;
    }
    Ok(Some(found))
}

/// Type and data of the first record in `bytes`, and the rest.
fn record(mut bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    loop {
        let (length, rest) = bytes.split_first()?;
        match length {
            0 => {
                bytes = rest;
                break;
            }
            0xc0.. => {
                bytes = rest.get(1..)?;
                break;
            }
            length => bytes = rest.get(usize::from(*length)..)?,
        }
    }
    let ([kind @ .., _, _, _, _, _, _, high, low], rest) = bytes.split_first_chunk::<10>()?;
    let (data, after) = rest.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
    Some((u16::from_be_bytes(*kind), data, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_count_before_servers() {
        let hosts = "127.0.0.1 localhost\n10.0.0.7 api.test Api # comment api.other\n";
        assert_eq!(in_hosts(hosts, "API"), [IpAddr::from([10, 0, 0, 7])]);
        assert!(in_hosts(hosts, "api.other").is_empty());
    }

    #[test]
    fn search_domains_depend_on_dots() {
        let text = "nameserver 10.96.0.10\nsearch ns.svc svc\noptions ndots:2 timeout:1\n";
        let resolver = Resolver::parse(text);
        assert_eq!(resolver.candidates("db"), ["db.ns.svc", "db.svc", "db"]);
        assert_eq!(resolver.candidates("a.b.c"), ["a.b.c", "a.b.c.ns.svc", "a.b.c.svc"]);
        assert_eq!(resolver.candidates("db."), ["db"]);
        assert_eq!(resolver.timeout, Duration::from_secs(1));
    }

    #[test]
    fn reads_answers_to_its_own_question_only() {
        let query = query([7, 9], "a.test", A).unwrap();
        let mut answer = query.clone();
        (answer[2], answer[3], answer[7]) = (0x81, 0x80, 2);
        answer.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]); // a CNAME
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 0, 1]);
        assert_eq!(read(&answer, &query, A).unwrap(), Some(vec![[10, 0, 0, 1].into()]));
        let mut forged = answer.clone();
        forged[0] = 8;
        assert_eq!(read(&forged, &query, A).unwrap(), None);
        answer[3] = 0x82;
        assert!(read(&answer, &query, A).is_err());
    }

    #[tokio::test]
    async fn addresses_are_themselves() {
        assert_eq!(resolve("[::1]").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
    }
}
