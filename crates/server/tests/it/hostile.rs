//! Hostile requests, compared with upstream's responses.
//!
//! Each line of the table is a request and an answer of kube-apiserver 1.37.1: name, method, path,
//! headers, body, code, message. `$repeat(n|text)` stands for the text n times, `$hex(…)`
//! for these bytes. Messages are compared as far as 300 characters.

use testkit::TestCluster;

use crate::raw::send;

const TABLE: &str = include_str!("hostile.tsv");
const SHOWN: usize = 300;

/// Known differences, by reason.
const DIFFERENT: &[(&str, &[&str])] = &[
    (
        "values of patches are read to a depth of 500, YAML to 200; Go's limit is 10,000",
        &[
            "nesting/yaml-flow-9000",
            "nesting/json-patch-9000",
            "nesting/apply-9000",
            "nesting/yaml-flow-12000",
            "nesting/apply-12000",
        ],
    ),
    ("bytes that are no UTF-8 are quoted in another way", &["path/invalid-utf8"]),
    ("YAML's reader has words of its own", &["yaml/self", "yaml/percent"]),
    (
        "protobuf is malformed in one way only, and its texts are UTF-8",
        &[
            "protobuf/length-huge",
            "protobuf/varint-long",
            "protobuf/bad-wire",
            "protobuf/group",
            "protobuf/field-zero",
            "protobuf/invalid-utf8",
        ],
    ),
    (
        "what a patch has made is shown in another order of fields",
        &["patch/json-kind", "patch/merge-kind", "patch/merge-version", "patch/merge-data-number"],
    ),
];

/// Some requests nest as deep as allowed, and the stack frames of a debug build are large.
#[test]
fn every_request_gets_its_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let deep = std::thread::Builder::new().stack_size(16 << 20);
    let asking = deep.spawn(move || runtime.block_on(ask_all())).expect("a thread");
    asking.join().expect("all is as it should be");
}

async fn ask_all() {
    let cluster = TestCluster::start().await;
    let there = r#"{"metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":"x"}}"#;
    let made = ask(&cluster, "POST", CONFIG_MAPS, "content-type: application/json", there).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in TABLE.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, method, path, headers, body, code, message] = columns[..] else {
            panic!("a line of {} columns: {line:.80}", columns.len());
        };
        count += 1;
        let (own, said) = ask(&cluster, method, path, headers, body).await;
        let expected = object::from_json(message.as_bytes()).expect("a text in quotes");
        let expected = cut(expected.as_str().unwrap_or_default());
        let same = own.to_string() == code && said == expected;
        let known = DIFFERENT.iter().any(|(_, names)| names.contains(&name));
        match (same, known) {
            (false, false) => {
                wrong.push(format!("{name}:\n  theirs {code} {expected}\n  ours   {own} {said}"));
            }
            (true, true) => wrong.push(format!("{name}: the same by now")),
            _ => {}
        }
        assert!(own != 0, "{name}: no answer");
    }
    assert!(count >= 200, "only {count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn ask(
    cluster: &TestCluster,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, String) {
    let mut request = format!("{method} ").into_bytes();
    request.extend(expanded(path));
    request
        .extend(b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nuser-agent: hostile/1\r\n");
    for header in headers.split(";;").filter(|header| !header.is_empty()) {
        request.extend(expanded(header));
        request.extend(b"\r\n");
    }
    let body = expanded(body);
    if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
        request.extend(format!("content-length: {}\r\n", body.len()).bytes());
    }
    request.extend(b"\r\n");
    request.extend(body);
    let answer = send(cluster, &request).await;
    (answer.code, cut(&answer.message()))
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

fn expanded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('$') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let Some((said, behind)) = rest.split_once(')') else { break };
        if let Some((count, what)) =
            said.strip_prefix("$repeat(").and_then(|own| own.split_once('|'))
        {
            out.extend(what.repeat(count.parse().expect("a number")).bytes());
        } else if let Some(hex) = said.strip_prefix("$hex(") {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
            out.extend((0..hex.len()).step_by(2).map(byte));
        } else {
            out.push(b'$');
            rest = &rest[1..];
            continue;
        }
        rest = behind;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[test]
fn what_repeats_is_written_out() {
    assert_eq!(expanded("a$repeat(3|xy)$hex(00ff)$patch"), b"axyxyxy\0\xff$patch");
}
