//! Query parameters of a request.

use std::num::IntErrorKind;

use object::{Status, Text, percent_decode, percent_decode_bytes};

use crate::Config;

/// Decoded query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(Text, Text)>,
    /// Whether the server supports CBOR.
    pub(crate) cbor: bool,
}

impl Query {
    /// Parses a query; like Go, drops malformed parameters.
    pub fn parse(query: &str) -> Self {
        let well = |pair: &&str| !pair.is_empty() && !pair.contains(';') && is_escaped(pair);
        let pairs = query.split('&').filter(well).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self { pairs: pairs.collect(), cbor: false }
    }

    /// Parses the query of a request to a server with this configuration.
    pub(crate) fn parse_for(server: &Config, query: &str) -> Self {
        Self { cbor: server.cbor, ..Self::parse(query) }
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| pair.0 == name).map(|pair| &*pair.1)
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|pair| pair.0 == name).map(|pair| &*pair.1).collect()
    }

    /// Whether the parameter is present and not `false` or `0`, as Go's API conversion reads it.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// The parameter as an integer; an invalid one is an error with Go's message.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                let why = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
            }),
        }
    }
}

/// Whether two hexadecimal digits follow each `%`. Go drops parameters where they do not.
pub(crate) fn is_escaped(text: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.into_iter().all(|(at, _)| digit(bytes.get(at + 1)) && digit(bytes.get(at + 2)))
}

/// Decodes a name or value of a query.
fn decoded(text: &str) -> Text {
    percent_decode(text, true)
}

/// Decodes the key of a user's extra value from a header name; `None` if it is not UTF-8.
pub(crate) fn extra_key(escaped: &str) -> Option<String> {
    if is_escaped(escaped) {
        return String::from_utf8(percent_decode_bytes(escaped, false)).ok();
    }
    Some(escaped.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_names_and_values() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&command=ls&command=-l&x=a+b");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.all("command"), ["ls", "-l"]);
        assert_eq!(
            (query.get("x"), query.flag("watch"), query.flag("no")),
            (Some("a b"), true, false)
        );
    }
}
