//! The URL library. Parsing is that of Go's `net/url`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, fmt, sync::Arc};

use object::quote::quote;

use super::{Opaque, Outcome, text_of};
use crate::{
    error::Error,
    function::Function,
    value::{Key, Map, Text, Value},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        overloads: &[("string_to_url", "(string) -> URL")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            let url = Url::parse_absolute(text_of(text)?).map_err(|error| {
                Error::new(format!("URL parse error during conversion from string: {error}"))
            })?;
            Ok(Value::Opaque(Opaque::Url(Arc::new(url))))
        },
    },
    Function {
        name: "isURL",
        overloads: &[("is_url_string", "(string) -> bool")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            Ok(Value::Bool(Url::parse_absolute(text_of(text)?).is_ok()))
        },
    },
    Function {
        name: "getScheme",
        overloads: &[("url_get_scheme", "URL.() -> string")],
        body: |_, args| part(args, |url| url.scheme.clone()),
    },
    Function {
        name: "getHost",
        overloads: &[("url_get_host", "URL.() -> string")],
        body: |_, args| part(args, |url| url.host.clone()),
    },
    Function {
        name: "getHostname",
        overloads: &[("url_get_hostname", "URL.() -> string")],
        body: |_, args| part(args, |url| url.host_and_port().0.to_owned()),
    },
    Function {
        name: "getPort",
        overloads: &[("url_get_port", "URL.() -> string")],
        body: |_, args| part(args, |url| url.host_and_port().1.to_owned()),
    },
    Function {
        name: "getEscapedPath",
        overloads: &[("url_get_escaped_path", "URL.() -> string")],
        body: |_, args| part(args, Url::escaped_path),
    },
    Function {
        name: "getQuery",
        overloads: &[("url_get_query", "URL.() -> map(string, list(string))")],
        body: |_, args| query(args),
    },
];

/// A URL, parsed like Go.
#[derive(Debug, Default)]
pub struct Url {
    pub scheme: String,
    opaque: String,
    pub user: Option<String>,
    host: String,
    path: String,
    /// The path as written.
    raw_path: String,
    pub query: Option<String>,
    pub fragment: String,
}

impl Url {
    /// Parses an absolute URL, or an absolute path.
    pub(crate) fn parse_absolute(text: &str) -> Result<Self, String> {
        // First parsed as a request URI, which has no fragment.
        let failed = |error: String| format!("parse {}: {error}", quote(text));
        Self::parse(text, true).map_err(failed)?;
        Self::parse_reference(text)
    }

    /// Parses any URL reference, absolute or relative.
    pub fn parse_reference(text: &str) -> Result<Self, String> {
        let failed = |error: &str| format!("parse {}: {error}", quote(text));
        let (without, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse(without, false).map_err(|error| failed(&error))?;
        url.fragment = unescape(fragment, false).map_err(|error| failed(&error))?;
        Ok(url)
    }

    fn parse(text: &str, request: bool) -> Result<Self, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            "*".clone_into(&mut url.path);
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        url.query = query;
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if request {
                return Err("invalid URI for request".to_owned());
            }
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let authority = !url.scheme.is_empty() || !request && !rest.starts_with("///");
        if let Some(after) = rest.strip_prefix("//").filter(|_| authority) {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            url.set_authority(authority)?;
            rest = path;
        }
        url.path = unescape(rest, false)?;
        rest.clone_into(&mut url.raw_path);
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            self.user = Some(user.to_owned());
        }
        self.host = host_of(host)?;
        Ok(())
    }

    fn host_and_port(&self) -> (&str, &str) {
        let host = self.host.as_str();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port),
            _ => (host, ""),
        };
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        (name, port)
    }

    fn escaped_path(&self) -> String {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:@[]/%".contains(c);
        if self.raw_path.chars().all(valid) {
            return self.raw_path.clone();
        }
        escape_path(&self.path)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            if !self.scheme.is_empty() || !self.host.is_empty() || !user.is_empty() {
                write!(f, "//{user}{}", self.host)?;
            }
            f.write_str(&self.escaped_path())?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok(text.split_once(':').unwrap_or(("", text))),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn host_of(host: &str) -> Result<String, String> {
    let port = if host.starts_with('[') {
        let (_, port) = host.rsplit_once(']').ok_or("missing ']' in host")?;
        check_port(port)?;
        return Ok(host.to_owned());
    } else {
        host.rfind(':').and_then(|colon| host.get(colon..)).unwrap_or_default()
    };
    check_port(port)?;
    for c in host.chars() {
        let allowed =
            c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
        if !allowed {
            let quoted = quote(c.encode_utf8(&mut [0; 4]));
            return Err(format!("invalid character {quoted} in host name"));
        }
    }
    unescape(host, true)
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').unwrap_or_default();
    let valid =
        port.is_empty() || port.starts_with(':') && digits.bytes().all(|b| b.is_ascii_digit());
    if valid { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

/// Decodes percent escapes; in a host only those of non-ASCII characters.
fn unescape(text: &str, host: bool) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) if !host || value >= 0x80 => bytes.push(value),
            _ => {
                let shown = String::from_utf8_lossy(rest.get(..3).unwrap_or(rest)).into_owned();
                return Err(format!("invalid URL escape {}", quote(&shown)));
            }
        }
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn of<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, Error> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(url),
        _ => Err(Error::no_overload()),
    }
}

fn part<'a>(args: &[Value<'a>], which: fn(&Url) -> String) -> Outcome<'a> {
    of(args).map(|url| Value::text(which(url)))
}

fn query<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    let query = of(args)?.query.clone().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| unescape(&text.replace('+', " "), false);
        if let (Ok(key), Ok(value)) = (plain(key), plain(value)) {
            values.entry(key).or_default().push(Value::text(value));
        }
    }
    let entries =
        values.into_iter().map(|(key, values)| (Key::Text(Text::from(key)), Value::list(values)));
    Ok(Value::Map(Map::from(entries.collect::<BTreeMap<_, _>>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_go_does() {
        let url = Url::parse_absolute("http://a.b:80/c?d=e&d=f").expect("valid");
        assert_eq!(url.host_and_port(), ("a.b", "80"));
        assert_eq!(url.to_string(), "http://a.b:80/c?d=e&d=f");
        let url = Url::parse_absolute("https://[::1]:443/x%20y").expect("valid");
        assert_eq!((url.host_and_port(), &*url.escaped_path()), (("::1", "443"), "/x%20y"));
        for (text, error) in [
            ("notaurl", r#"parse "notaurl": invalid URI for request"#),
            ("", r#"parse "": empty url"#),
            (":x", r#"parse ":x": missing protocol scheme"#),
            ("http://a b/", r#"parse "http://a b/": invalid character " " in host name"#),
            ("/%zz", r#"parse "/%zz": invalid URL escape "%zz""#),
            ("http://a:x/", r#"parse "http://a:x/": invalid port ":x" after host"#),
        ] {
            assert_eq!(Url::parse_absolute(text).err().as_deref(), Some(error));
        }
    }
}
