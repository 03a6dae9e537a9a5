//! In which form an answer goes out.

use http::{HeaderMap, header::ACCEPT};
use object::{Status, StatusDetails};

use crate::{Query, Served, table::Include};

/// The forms that objects have on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// What the objects are made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    Object,
    Table,
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) into: As,
    /// What the rows of a table hold.
    pub(crate) include: Include,
}

impl Form {
    pub(crate) const JSON: Self =
        Self { format: Format::Json, into: As::Object, include: Include::Metadata };

    pub(crate) fn media_type(self) -> &'static str {
        match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The same, or the next best where the kind has no such form: custom objects are text.
    pub(crate) fn for_kind(self, served: &Served) -> Self {
        match (self.format, self.into, &served.definition.custom) {
            (Format::Protobuf, As::Object, Some(_)) => Self { format: Format::Json, ..self },
            _ => self,
        }
    }
}

/// The first acceptable form, in the client's order of preference.
pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, tables: bool) -> Result<Form, Status> {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept: Vec<&str> = accept.flat_map(|value| value.split(',')).map(str::trim).collect();
    if accept.iter().all(|clause| clause.is_empty()) {
        return Ok(Form::JSON);
    }
    let mut clauses: Vec<_> = accept.iter().map(|clause| (quality(clause), *clause)).collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.0));
    let found = clauses.iter().find_map(|(_, clause)| form(clause, tables));
    let form = found.ok_or_else(|| {
        let said = "406: Not Acceptable\n\nAvailable representations: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";
        Status::failure(406, "NotAcceptable", said).with_details(StatusDetails::new())
    })?;
    let include = if form.into == As::Table { include(query)? } else { Include::Metadata };
    Ok(Form { include, ..form })
}

fn include(query: &Query) -> Result<Include, Status> {
    match query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::Nothing),
        "Object" => Ok(Include::Object),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must \
             be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// In thousandths.
fn quality(clause: &str) -> u32 {
    let value = clause.split(';').find_map(|part| part.trim().strip_prefix("q="));
    let value = value.and_then(|text| text.parse::<f32>().ok()).unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1")]
    let thousandths = (value.clamp(0.0, 1.0) * 1000.0) as u32;
    thousandths
}

fn form(clause: &str, tables: bool) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    let format = match parts.next()? {
        "application/json" | "*/*" => Format::Json,
        "application/yaml" => Format::Yaml,
        "application/vnd.kubernetes.protobuf" => Format::Protobuf,
        _ => return None,
    };
    let mut into = As::Object;
    for part in parts {
        match part.split_once('=') {
            Some(("as", "Table")) if tables => into = As::Table,
            Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) if tables => {
                into = As::Metadata;
            }
            Some(("as", _)) => return None,
            Some(("g", "meta.k8s.io") | ("v", "v1" | "v1beta1") | ("q" | "charset", _)) | None => {}
            Some(("stream", "watch")) => {}
            Some(("g" | "v", _)) => return None,
            Some(_) => {}
        }
    }
    Some(Form { format, into, ..Form::JSON })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Option<(Format, As)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default(), true).ok().map(|form| (form.format, form.into))
    }

    #[test]
    fn takes_what_the_client_likes_best() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(asked(table), Some((Format::Json, As::Table)));
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(asked(protobuf), Some((Format::Protobuf, As::Object)));
        assert_eq!(
            asked("application/json;q=0.1, application/yaml"),
            Some((Format::Yaml, As::Object))
        );
        assert_eq!(asked("text/html"), None);
        assert_eq!(asked("text/html, */*"), Some((Format::Json, As::Object)));
    }
}
