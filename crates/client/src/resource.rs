//! API resources and their URL paths.

use object::Text;
use schema::{Kind, Scope};

use crate::Error;

/// The names of a resource, enough to build the paths of its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ApiResource {
    pub group: Text,
    pub version: Text,
    pub plural: Text,
    pub kind: Text,
    pub namespaced: bool,
}

impl ApiResource {
    pub fn of<K: Kind>() -> Self {
        let names = K::NAMES;
        Self {
            group: names.group.into(),
            version: names.version.into(),
            plural: names.plural.into(),
            kind: names.kind.into(),
            namespaced: K::SCOPE == Scope::Namespaced,
        }
    }

    /// The `apiVersion` of objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> Text {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version).into()
        }
    }

    /// The path of all objects, of one namespace or (if empty) of all.
    pub(crate) fn collection(&self, namespace: &str) -> Result<String, Error> {
        let Self { group, version, plural, .. } = self;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        match namespace {
            "" => Ok(format!("{root}/{version}/{plural}")),
            _ if !self.namespaced => Ok(format!("{root}/{version}/{plural}")),
            namespace => {
                let namespace = segment("namespace", namespace)?;
                Ok(format!("{root}/{version}/namespaces/{namespace}/{plural}"))
            }
        }
    }

    /// The path of one object.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> Result<String, Error> {
        if self.namespaced && namespace.is_empty() {
            let kind = &self.kind;
            return Err(Error::Invalid(format!("a {kind} is found by its namespace and name")));
        }
        Ok(format!("{}/{}", self.collection(namespace)?, segment("name", name)?))
    }
}

/// A query string; parameters without a value are omitted.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

fn segment(what: &str, name: &str) -> Result<String, Error> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(Error::Invalid(format!("{name:?} is not a {what}")));
    }
    let mut out = String::new();
    escape(name, &mut out);
    Ok(out)
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => {
                out.push('%');
                for digit in [byte >> 4, byte & 15] {
                    let digit = char::from_digit(digit.into(), 16).unwrap_or_default();
                    out.push(digit.to_ascii_uppercase());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_upstreams() {
        let deployments = ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            plural: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        let paths = [deployments.collection(""), deployments.object("a", "b")];
        let paths = paths.map(Result::unwrap);
        assert_eq!(paths[0], "/apis/apps/v1/deployments");
        assert_eq!(paths[1], "/apis/apps/v1/namespaces/a/deployments/b");
        assert!(deployments.object("", "b").is_err());
        assert!(deployments.object("a", "../x").is_err());
        let nodes =
            ApiResource { version: "v1".into(), plural: "nodes".into(), ..ApiResource::default() };
        assert_eq!(nodes.object("", "system:x y").unwrap(), "/api/v1/nodes/system%3Ax%20y");
        assert_eq!(query(&[("a", ""), ("b", "x=y,z"), ("c", "1")]), "?b=x%3Dy%2Cz&c=1");
    }
}
