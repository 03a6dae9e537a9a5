//! Raw HTTP/1.1, for requests that no client library would send.

use std::time::Duration;

use client::{ConnectionUse, Connector as _};
use object::{Value, from_json};
use server::UserInfo;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_mins(2);

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The message of a Status, or the text of an error, followed by all warnings.
    pub(crate) fn message(&self) -> String {
        let tree = from_json(&self.body).unwrap_or_default();
        let mut said = match (tree["kind"].as_str(), self.code) {
            (Some("Status"), _) => tree["message"].as_str().unwrap_or_default().to_owned(),
            (_, 300..) if tree == Value::Null => String::from_utf8_lossy(&self.body).into_owned(),
            _ => String::new(),
        };
        for warning in self.all("warning") {
            said = said + " | " + warning;
        }
        said
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(own, _)| own == name).map(|(_, value)| &**value)
    }
}

/// Sends these bytes as an administrator, and reads until the server closes the connection.
pub(crate) async fn send(cluster: &TestCluster, bytes: &[u8]) -> Answer {
    let mut user = UserInfo::new("admin", &["system:masters", "system:authenticated"]);
    user.uid = "admin".into();
    let pipe = cluster.running.pipe(user);
    let mut io = pipe.connect(ConnectionUse::Upgrade).await.expect("the server runs").io;
    let mut read = Vec::new();
    let talk = async {
        let _ = io.write_all(bytes).await; // the server may have closed the connection
        let _ = io.read_to_end(&mut read).await;
    };
    timeout(PATIENCE, talk).await.expect("an answer in time");
    parse(&read)
}

fn parse(read: &[u8]) -> Answer {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(read.len());
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let code = first.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = read.get(end + 4..).unwrap_or_default();
    let chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { joined(rest) } else { rest.to_vec() };
    Answer { code, headers, body }
}

/// Decodes a chunked body.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text, 16).ok()).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.extend_from_slice(rest.get(at + 2..at + 2 + size).unwrap_or_default());
        rest = rest.get(at + 4 + size..).unwrap_or_default();
    }
    out
}
