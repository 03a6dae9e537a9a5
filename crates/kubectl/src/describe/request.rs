//! Describes CertificateSigningRequests, with the names in their PKCS #10 requests.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::Value;

use super::{describe_writer::DescribeWriter, format_time, text};
use crate::{
    error::{CommandError, Result},
    print::{age, table},
};

/// The subject and the subject alternative names of a certificate request.
#[derive(Debug, Default, PartialEq)]
struct Request {
    /// Attributes of the subject by the last number of their OID, in order.
    subject: Vec<(u8, String)>,
    /// Subject alternative names by their tag.
    names: Vec<(u8, String)>,
}

/// Attribute types of a subject: last number of the OID, below 2.5.4.
const COMMON_NAME: u8 = 3;
const SERIAL_NUMBER: u8 = 5;
const LISTS: &[(u8, &str)] = &[
    (10, "Organization"),
    (11, "Organizational Unit"),
    (6, "Country"),
    (7, "Locality"),
    (8, "Province"),
    (9, "StreetAddress"),
    (17, "PostalCode"),
];
/// Tags of subject alternative names, and their titles.
const NAMES: &[(u8, &str)] =
    &[(2, "DNS Names"), (1, "Email Addresses"), (6, "URIs"), (7, "IP Addresses")];

pub(super) fn describe(object: &Value, sheet: &mut DescribeWriter) -> Result {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let pem = BASE64_STANDARD.decode(text(&spec["request"])).unwrap_or_default();
    let request = parse(&pem).ok_or_else(|| {
        CommandError::error("Error parsing CSR: PEM block type must be CERTIFICATE REQUEST")
    })?;
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Labels", table::labels(&meta["labels"]));
    sheet.field("Annotations", table::labels(&meta["annotations"]));
    sheet.field("CreationTimestamp", format_time(&meta["creationTimestamp"]));
    sheet.field("Requesting User", text(&spec["username"]));
    sheet.optional_field("Signer", &spec["signerName"]);
    if let Some(seconds) = spec["expirationSeconds"].as_i64() {
        sheet.field("Requested Duration", age::human_duration(seconds));
    }
    let has = |kind: &str| {
        status["conditions"].items().iter().any(|one| one["type"].as_str() == Some(kind))
    };
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state += ",Failed";
    }
    if !text(&status["certificate"]).is_empty() {
        state += ",Issued";
    }
    sheet.field("Status", state);
    let first = |wanted: u8| {
        let found = request.subject.iter().rfind(|(kind, _)| *kind == wanted);
        found.map_or("", |(_, value)| value.as_str())
    };
    sheet.line(0, "Subject:");
    sheet.line(0, &format!("\tCommon Name:\t{}", first(COMMON_NAME)));
    sheet.line(0, &format!("\tSerial Number:\t{}", first(SERIAL_NUMBER)));
    lists(&request.subject, LISTS, sheet);
    if !request.names.is_empty() {
        sheet.line(0, "Subject Alternative Names:");
        lists(&request.names, NAMES, sheet);
    }
    Ok(())
}

fn lists(values: &[(u8, String)], titles: &[(u8, &str)], sheet: &mut DescribeWriter) {
    for (wanted, title) in titles {
        let found = values.iter().filter(|(kind, _)| kind == wanted);
        for (at, (_, value)) in found.enumerate() {
            let title = if at == 0 { format!("{title}:") } else { String::new() };
            sheet.line(0, &format!("\t{title}\t{value}"));
        }
    }
}

fn parse(pem: &[u8]) -> Option<Request> {
    let pem = std::str::from_utf8(pem).ok()?;
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE REQUEST-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE REQUEST-----")?;
    let body: String = body.split_whitespace().collect();
    let der = BASE64_STANDARD.decode(body).ok()?;
    let (_, whole, _) = element(&der)?;
    let (_, info, _) = element(whole)?;
    let (_, _, rest) = element(info)?; // the version
    let (_, subject, rest) = element(rest)?;
    let (_, _, mut attributes) = element(rest)?; // the key
    let mut request = Request::default();
    for set in elements(subject) {
        for pair in elements(set.1) {
            let (_, oid, value) = element(pair.1)?;
            let (_, value, _) = element(value)?;
            if let [0x55, 0x04, kind] = oid {
                request.subject.push((*kind, String::from_utf8_lossy(value).into_owned()));
            }
        }
    }
    while let Some((_, attribute, rest)) = element(attributes) {
        extensions(attribute, &mut request);
        attributes = rest;
    }
    Some(request)
}

/// Reads the subject alternative names from the attributes of a request.
fn extensions(attributes: &[u8], request: &mut Request) {
    const EXTENSIONS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
    const OTHER_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
    for (_, attribute) in elements(attributes) {
        let parts = elements(attribute);
        let [(_, oid), (_, values)] = parts[..] else { continue };
        if oid != EXTENSIONS {
            continue;
        }
        let all = elements(values).into_iter().flat_map(|(_, list)| elements(list));
        for (_, extension) in all {
            let parts = elements(extension);
            let (Some((_, oid)), Some((_, octets))) = (parts.first(), parts.last()) else {
                continue;
            };
            let Some((_, names, _)) = element(octets).filter(|_| *oid == OTHER_NAMES) else {
                continue;
            };
            for (tag, value) in elements(names) {
                let kind = tag & 0x1f;
                request.names.push((
                    kind,
                    if kind == 7 {
                        address(value)
                    } else {
                        String::from_utf8_lossy(value).into_owned()
                    },
                ));
            }
        }
    }
}

fn address(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        std::net::Ipv4Addr::from(four).to_string()
    } else if let Ok(sixteen) = <[u8; 16]>::try_from(bytes) {
        std::net::Ipv6Addr::from(sixteen).to_string()
    } else {
        String::new()
    }
}

/// The first DER element: its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let count = usize::from(first & 0x7f);
        if count > 4 || rest.len() < count {
            return None;
        }
        length = rest[..count].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = &rest[count..];
    }
    (length <= rest.len()).then(|| (tag, &rest[..length], &rest[length..]))
}

/// All DER elements, one after the other.
fn elements(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut all = Vec::new();
    while let Some((tag, inner, rest)) = element(bytes) {
        all.push((tag, inner));
        bytes = rest;
    }
    all
}

#[test]
fn lengths_never_lead_out() {
    assert_eq!(element(&[0x30, 0x02, 1, 2, 3]), Some((0x30, &[1, 2][..], &[3][..])));
    assert_eq!(
        (element(&[0x30, 0x05, 1]), element(&[0x30, 0x84, 255]), element(&[])),
        (None, None, None)
    );
    assert_eq!(parse(b"nothing"), None);
}
