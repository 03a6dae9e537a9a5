//! Subresources: further paths below an object, and how a write to one changes the object.

/// Paths of fields below the root of an object.
pub type FieldPaths = &'static [&'static [&'static str]];

/// A query parameter: its name, its type in OpenAPI, and what it does.
pub type QueryParameter = (&'static str, &'static str, &'static str);

/// A subresource: a further path below an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subresource {
    pub name: &'static str,
    /// The kind of the request and response body.
    pub kind: &'static str,
    /// Group and version of that kind, if they differ from those of the resource.
    pub group_version: Option<(&'static str, &'static str)>,
    pub verbs: &'static [&'static str],
    pub strategy: SubresourceStrategy,
    /// The fields that a write to the subresource leaves unchanged, whatever it contains (upstream's
    /// reset fields). Its manager does not become their owner.
    pub reset_fields: FieldPaths,
    /// Whether a response can be a Table.
    pub table: bool,
    /// The query parameters of a connection or of a log.
    pub parameters: &'static [QueryParameter],
}

/// What answers a request to a subresource, and how a write to it changes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubresourceStrategy {
    /// Writes the status, and the metadata that the kind lets a status update change.
    Status,
    /// Writes one field of the object.
    Field(SubresourceField),
    /// The kind's hooks `prepare_part` and `validate_part` decide what is written.
    Hooks,
    /// A handler converts between the object and another kind, such as Scale. The changed object is
    /// then written like the resource itself.
    Converted,
    /// A handler builds the whole object and has validated it, as for a Binding.
    Built,
    /// A handler answers, and no object is written through the subresource.
    Handler,
    /// A handler connects the client with something else. Dry runs are not supported.
    Connect,
    /// Like `Connect`, with any method and with a further path to forward.
    Proxy,
}

/// The field that a subresource writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubresourceField {
    /// The field of the object that contains it.
    pub parent: &'static str,
    pub name: &'static str,
}

const READ_WRITE: &[&str] = &["get", "patch", "update"];
const STATUS: FieldPaths = &[&["status"]];

impl Subresource {
    const fn new(name: &'static str, kind: &'static str, strategy: SubresourceStrategy) -> Self {
        Self {
            name,
            kind,
            group_version: None,
            verbs: READ_WRITE,
            strategy,
            reset_fields: STATUS,
            table: false,
            parameters: &[],
        }
    }

    /// The `status` subresource of this kind. It leaves metadata unchanged.
    pub const fn status(kind: &'static str) -> Self {
        let status = Self::new("status", kind, SubresourceStrategy::Status);
        Self { table: true, reset_fields: &[&["metadata"], &["spec"]], ..status }
    }

    /// Lets the status subresource also write metadata, as it does for the kinds that are older than
    /// the rule that it does not.
    pub const fn writes_metadata(self) -> Self {
        Self { reset_fields: &[&["spec"]], ..self }
    }

    /// A subresource that writes one field of the object.
    pub const fn field(name: &'static str, kind: &'static str, field: SubresourceField) -> Self {
        Self::new(name, kind, SubresourceStrategy::Field(field))
    }

    /// A subresource that the kind's hooks `prepare_part` and `validate_part` handle.
    pub const fn hooks(name: &'static str, kind: &'static str) -> Self {
        Self::new(name, kind, SubresourceStrategy::Hooks)
    }

    /// A view of the object as another kind, which a handler converts.
    pub const fn converted(name: &'static str, kind: &'static str) -> Self {
        Self { reset_fields: &[], ..Self::new(name, kind, SubresourceStrategy::Converted) }
    }

    /// A subresource whose handler builds and validates the object.
    pub const fn built(name: &'static str, kind: &'static str) -> Self {
        Self::new(name, kind, SubresourceStrategy::Built).verbs(&["create"])
    }

    /// A subresource that a handler answers, without an object.
    pub const fn handler(
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self::new(name, kind, SubresourceStrategy::Handler).verbs(verbs)
    }

    /// A subresource for connections, with the kind of its options.
    pub const fn connect(
        name: &'static str,
        options: &'static str,
        parameters: &'static [QueryParameter],
    ) -> Self {
        let connect = Self::new(name, options, SubresourceStrategy::Connect);
        connect.verbs(&["create", "get"]).parameters(parameters)
    }

    /// The `proxy` subresource, with the kind of its options.
    pub const fn proxy(options: &'static str) -> Self {
        Self::new("proxy", options, SubresourceStrategy::Proxy)
            .verbs(&["create", "delete", "get", "patch", "update"])
            .parameters(&[("path", "string", "The path that the call goes on to.")])
    }

    pub const fn parameters(self, parameters: &'static [QueryParameter]) -> Self {
        Self { parameters, ..self }
    }

    pub const fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }

    /// Sets group and version of the body's kind, where they are not those of the resource.
    pub const fn of_group(self, group: &'static str, version: &'static str) -> Self {
        Self { group_version: Some((group, version)), ..self }
    }

    pub const fn resetting(self, reset_fields: FieldPaths) -> Self {
        Self { reset_fields, ..self }
    }

    /// Excludes tables from the responses.
    pub const fn without_table(self) -> Self {
        Self { table: false, ..self }
    }
}

impl SubresourceStrategy {
    /// Whether the subresource is read and written as an object of the resource; otherwise a
    /// handler answers.
    pub fn is_object(self) -> bool {
        matches!(self, Self::Status | Self::Field(_) | Self::Hooks)
    }

    /// Whether the subresource connects the client with something else.
    pub fn connects(self) -> bool {
        matches!(self, Self::Connect | Self::Proxy)
    }
}
