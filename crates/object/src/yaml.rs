//! YAML like Kubernetes, which is YAML 1.1 as Go's library implements it: `yes` is a boolean, `0777` is octal, and
//! strings that would be read as another type are quoted.

mod kyaml;
mod read;
mod resolve;
mod write;

use crate::Value;

/// A YAML error, with the message of Go's library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

impl YamlError {
    fn new(text: impl std::fmt::Display) -> Self {
        Self(format!("yaml: {text}"))
    }
}

/// Parses one document. Duplicate keys are an error.
pub fn from_yaml(text: &str) -> Result<Value, YamlError> {
    match read::read(text)? {
        (value, twice) if twice.is_empty() => Ok(value),
        (_, twice) => Err(YamlError::new(format!("unmarshal errors:\n  {}", twice.join("\n  ")))),
    }
}

/// Parses one document. Of duplicate keys the last one counts, as when a client reads a file.
pub fn from_yaml_lenient(text: &str) -> Result<Value, YamlError> {
    Ok(read::read(text)?.0)
}

/// Parses one document, and returns an error message for each duplicate key.
pub fn from_yaml_with_duplicates(text: &str) -> Result<(Value, Vec<String>), YamlError> {
    read::read(text)
}

/// Splits a file into its documents at lines of `---`. Line numbers in errors count from the beginning of a document.
pub fn split_documents(text: &str) -> Result<Vec<&str>, YamlError> {
    let (mut documents, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(YamlError::new(format!("invalid Yaml document separator: {rest}")));
            }
            documents.extend(text.get(start..at));
            start = at + line.len();
        }
        at += line.len();
    }
    documents.extend(text.get(start..));
    documents.retain(|document| !document.trim().is_empty());
    Ok(documents)
}

/// Formats one document like `kubectl -o yaml`.
pub fn to_yaml(value: &Value) -> String {
    write::write(&value.with_raw_expanded())
}

/// Formats one document as KYAML, where indentation has no meaning.
pub fn to_kyaml(value: &Value) -> String {
    kyaml::write(&value.with_raw_expanded())
}

#[cfg(test)]
mod tests;
