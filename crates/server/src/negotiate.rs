//! Content negotiation: the media type and representation of a response.

use http::{
    HeaderMap,
    header::{ACCEPT, USER_AGENT},
};
use object::{Status, StatusDetails};

use crate::{Query, ServedResource, rejection::Rejection, table::IncludeObjectPolicy};

/// Encodings of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
    Cbor,
}

/// What the objects are transformed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    Object,
    Table,
    Metadata,
}

/// The negotiated form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaTypeOptions {
    pub(crate) format: Encoding,
    pub(crate) representation: Representation,
    /// Whether `as=PartialObjectMetadataList` was requested.
    pub(crate) list: bool,
    /// The version of the Table or PartialObjectMetadata.
    pub(crate) version: &'static str,
    /// What the rows of a table include (`includeObject`).
    pub(crate) include: IncludeObjectPolicy,
    /// Whether the output is indented.
    pub(crate) pretty: bool,
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointRestrictions {
    Object,
    /// A collection, which can also be watched.
    List,
    Watch,
    /// Subresources, which have no tables.
    Part,
}

impl MediaTypeOptions {
    pub(crate) const JSON: Self = Self {
        format: Encoding::Json,
        representation: Representation::Object,
        list: false,
        version: "meta.k8s.io/v1",
        include: IncludeObjectPolicy::Metadata,
        pretty: false,
    };

    pub(crate) fn media_type(self) -> &'static str {
        match self.format {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
            Encoding::Cbor => "application/cbor",
        }
    }

    /// Whether all clients that request this form get the same bytes of an object, so that they can
    /// be cached.
    pub(crate) fn is_cacheable(self) -> bool {
        matches!(self.format, Encoding::Json | Encoding::Protobuf) && !self.pretty
    }

    /// Falls back to JSON for custom resources, which have no protobuf encoding.
    pub(crate) fn for_kind(self, served: &ServedResource) -> Self {
        match (self.format, self.representation, served.definition.custom()) {
            (Encoding::Protobuf, Representation::Object, Some(_)) => {
                Self { format: Encoding::Json, ..self }
            }
            _ => self,
        }
    }
}

/// Negotiates the form of a response: the first acceptable one, in the client's order of
/// preference.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    offer: EndpointRestrictions,
) -> Result<MediaTypeOptions, Status> {
    let form = negotiate_media_type(headers, query, offer)?;
    Ok(MediaTypeOptions { include: include(form, query)?, ..form })
}

/// Like `negotiate`, without the `includeObject` option.
pub(crate) fn negotiate_media_type(
    headers: &HeaderMap,
    query: &Query,
    offer: EndpointRestrictions,
) -> Result<MediaTypeOptions, Rejection> {
    let clauses = clauses(headers);
    let pretty = pretty(headers, query);
    if clauses.is_empty() {
        return Ok(MediaTypeOptions { pretty, ..MediaTypeOptions::JSON });
    }
    let watches = matches!(offer, EndpointRestrictions::Watch | EndpointRestrictions::List);
    let format = |clause: &&str| format(clause.split(';').next().unwrap_or_default(), query);
    let accepted = accepted(query);
    if !clauses.iter().any(|clause| format(clause).is_some()) {
        let streams = match (watches, query.cbor) {
            (true, true) => format!("{STREAMS}, application/cbor-seq"),
            (true, false) => STREAMS.to_owned(),
            (false, _) => String::new(),
        };
        let said = format!("406: Not Acceptable\n\nAvailable representations: {accepted}{streams}");
        let status = Status::failure(406, "NotAcceptable", said);
        return Err(Rejection::Router(status.with_details(StatusDetails::new())));
    }
    let found =
        clauses.iter().find_map(|clause| form(clause, query, offer != EndpointRestrictions::Part));
    let form = found.ok_or_else(|| {
        not_acceptable(format!("only the following media types are accepted: {accepted}"))
    })?;
    Ok(MediaTypeOptions { pretty: pretty || form.pretty, ..form })
}

/// Answers 406 if the client does not accept the only available media type.
pub fn require_acceptable(headers: &HeaderMap, media_type: &str) -> Result<(), Status> {
    let clauses = clauses(headers);
    let is = |clause: &&str| {
        let own = clause.split(';').next().unwrap_or_default().trim();
        own == media_type || own == "*/*"
    };
    if clauses.is_empty() || clauses.iter().any(is) {
        return Ok(());
    }
    let said = format!("406: Not Acceptable\n\nAvailable representations: {media_type}");
    Err(Status::failure(406, "NotAcceptable", said).with_details(StatusDetails::new()))
}

/// The form of an error: the requested encoding if it is supported, else JSON; never a table.
pub(crate) fn negotiate_failure(headers: &HeaderMap, query: &Query) -> MediaTypeOptions {
    let format = clauses(headers)
        .iter()
        .find_map(|clause| format(clause.split(';').next().unwrap_or_default(), query))
        .unwrap_or(Encoding::Json);
    MediaTypeOptions { format, pretty: pretty(headers, query), ..MediaTypeOptions::JSON }
}

pub(crate) fn not_acceptable(message: String) -> Status {
    Status::failure(406, "NotAcceptable", message)
}

/// The supported media types, as listed in error messages.
pub(crate) fn accepted(query: &Query) -> String {
    let cbor = if query.cbor { ", application/cbor" } else { "" };
    format!("application/json, application/yaml, application/vnd.kubernetes.protobuf{cbor}")
}

const STREAMS: &str =
    ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The clauses of the Accept header, by descending quality.
fn clauses(headers: &HeaderMap) -> Vec<&str> {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let clauses = accept.flat_map(|value| value.split(',')).map(str::trim);
    let mut clauses: Vec<_> = clauses.filter(|clause| !clause.is_empty()).collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(quality(clause)));
    clauses
}

/// Whether to indent: if requested, or by default for browsers, curl and wget.
fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        Some(asked) if !asked.is_empty() => {
            matches!(asked, "1" | "t" | "T" | "true" | "TRUE" | "True")
        }
        _ => {
            let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
            let agent = agent.unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
        }
    }
}

/// The `includeObject` option of a table.
pub(crate) fn include(
    form: MediaTypeOptions,
    query: &Query,
) -> Result<IncludeObjectPolicy, Status> {
    match query.get("includeObject").unwrap_or_default() {
        _ if form.representation != Representation::Table => Ok(IncludeObjectPolicy::Metadata),
        "" | "Metadata" => Ok(IncludeObjectPolicy::Metadata),
        "None" => Ok(IncludeObjectPolicy::Nothing),
        "Object" => Ok(IncludeObjectPolicy::Object),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must \
             be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// The quality of a clause, in thousandths.
fn quality(clause: &str) -> u32 {
    let value = clause.split(';').find_map(|part| part.trim().strip_prefix("q="));
    let value = value.and_then(|text| text.parse::<f32>().ok()).unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1")]
    let thousandths = (value.clamp(0.0, 1.0) * 1000.0) as u32;
    thousandths
}

fn format(media_type: &str, query: &Query) -> Option<Encoding> {
    match media_type.trim() {
        "application/json" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
        "application/cbor" if query.cbor => Some(Encoding::Cbor),
        _ => None,
    }
}

fn form(clause: &str, query: &Query, makes: bool) -> Option<MediaTypeOptions> {
    let mut parts = clause.split(';').map(str::trim);
    let mut form =
        MediaTypeOptions { format: format(parts.next()?, query)?, ..MediaTypeOptions::JSON };
    let (mut into, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", kind)) => into = kind,
            Some(("g", name)) => group = name,
            Some(("v", name)) => version = name,
            Some(("pretty", "1")) => form.pretty = true,
            _ => {}
        }
    }
    form.version = match (into, group, version) {
        ("", "", "") => return Some(form),
        (_, "meta.k8s.io", "v1") => "meta.k8s.io/v1",
        (_, "meta.k8s.io", "v1beta1") => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    match into {
        "Table" if makes && matches!(form.format, Encoding::Json | Encoding::Yaml) => {
            form.representation = Representation::Table;
        }
        "PartialObjectMetadata" | "PartialObjectMetadataList" => {
            form.representation = Representation::Metadata;
        }
        _ => return None,
    }
    form.list = into == "PartialObjectMetadataList";
    Some(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Option<(Encoding, Representation)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default(), EndpointRestrictions::Object)
            .ok()
            .map(|form| (form.format, form.representation))
    }

    #[test]
    fn takes_what_the_client_likes_best() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(asked(table), Some((Encoding::Json, Representation::Table)));
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(asked(protobuf), Some((Encoding::Protobuf, Representation::Object)));
        assert_eq!(
            asked("application/json;q=0.1, application/yaml"),
            Some((Encoding::Yaml, Representation::Object))
        );
        assert_eq!(asked("text/html"), None);
        assert_eq!(asked("text/html, */*"), Some((Encoding::Json, Representation::Object)));
    }
}
