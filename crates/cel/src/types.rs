//! CEL types.

use std::{fmt, sync::Arc};

/// The static type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Known only at run time.
    Dyn,
    /// Like `Dyn`, but cannot be iterated over: the type of a token's claims.
    Any,
    /// The result of an error that has been reported.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// An object type.
    Struct(Arc<str>),
    /// An opaque type, which only its functions can inspect.
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A type parameter in a signature.
    Param(Arc<str>),
}

pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub fn list(of: Type) -> Self {
        Self::List(Arc::new(of))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn optional(of: Type) -> Self {
        Self::Opaque(OPTIONAL.into(), [of].into())
    }

    pub fn named(name: &str) -> Self {
        Self::Struct(name.into())
    }

    /// The type in an optional.
    pub(crate) fn in_optional(&self) -> Option<&Type> {
        match self {
            Self::Opaque(name, params) if &**name == OPTIONAL => params.first(),
            _ => None,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// Whether the run-time type is the same as the static one.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Dyn | Self::Any | Self::Null)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    /// The name of the type at run time.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Error => "!error!",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Struct(name) | Self::Opaque(name, _) | Self::Param(name) => name,
            Self::Type(_) => "type",
        }
    }

    /// The name in error messages other than those of the type checker.
    pub fn full_name(&self) -> String {
        match self {
            Self::Null | Self::Duration | Self::Timestamp => self.runtime_name().to_owned(),
            Self::List(of) => format!("list({})", of.full_name()),
            Self::Map(of) => format!("map({}, {})", of.0.full_name(), of.1.full_name()),
            other => other.to_string(),
        }
    }

    /// The type that a type name refers to.
    pub(crate) fn called(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "bytes" => Self::Bytes,
            "double" => Self::Double,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "string" => Self::Text,
            "null_type" => Self::Null,
            "list" => Self::list(Self::Dyn),
            "map" => Self::map(Self::Dyn, Self::Dyn),
            "type" => Self::Type(None),
            "google.protobuf.Duration" => Self::Duration,
            "google.protobuf.Timestamp" => Self::Timestamp,
            "optional_type" => Self::optional(Self::Param("V".into())),
            "net.IP" | "net.CIDR" => Self::Opaque(name.into(), [].into()),
            _ if KUBERNETES.contains(&name) => Self::named(name),
            _ => return None,
        })
    }
}

/// The opaque types of the Kubernetes libraries.
const KUBERNETES: [&str; 9] = [
    "kubernetes.Quantity",
    "kubernetes.URL",
    "kubernetes.NamedFormat",
    "kubernetes.Semver",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Self::Type(Some(of)) => write!(f, "type({of})"),
            Self::Opaque(name, params) if !params.is_empty() => {
                let params: Vec<String> = params.iter().map(Type::to_string).collect();
                write!(f, "{name}({})", params.join(", "))
            }
            other => f.write_str(other.runtime_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_upstreams_names() {
        let nested = Type::map(Type::Text, Type::optional(Type::list(Type::Int)));
        assert_eq!(nested.to_string(), "map(string, optional_type(list(int)))");
        assert_eq!(Type::Type(Some(Arc::new(Type::Null))).to_string(), "type(null)");
        assert_eq!(Type::Timestamp.to_string(), "timestamp");
        assert_eq!(Type::called("google.protobuf.Timestamp"), Some(Type::Timestamp));
    }
}
