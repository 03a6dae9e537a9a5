//! YAML as Kubernetes reads and writes it, which is YAML 1.1 as Go's library does:
//! `yes` is a boolean, `0777` is octal, and what would be read as another type is
//! quoted when it is printed.

mod kyaml;
mod read;
mod resolve;
mod write;

use crate::Value;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

impl YamlError {
    fn new(text: impl std::fmt::Display) -> Self {
        Self(format!("yaml: {text}"))
    }
}

/// Reads one document. Names given twice are refused.
pub fn from_yaml(text: &str) -> Result<Value, YamlError> {
    match read::read(text)? {
        (value, twice) if twice.is_empty() => Ok(value),
        (_, twice) => Err(YamlError::new(format!("unmarshal errors:\n  {}", twice.join("\n  ")))),
    }
}

/// Reads one document. Of a name given twice the last counts, as when a client reads a file.
pub fn from_yaml_lenient(text: &str) -> Result<Value, YamlError> {
    Ok(read::read(text)?.0)
}

/// The same, and where names are given twice.
pub fn from_yaml_with_duplicates(text: &str) -> Result<(Value, Vec<String>), YamlError> {
    read::read(text)
}

/// The texts of the documents in a file: what stands between lines of `---`.
/// A line number in an error counts from the beginning of its document.
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

/// Writes one document, as `kubectl -o yaml` prints it.
pub fn to_yaml(value: &Value) -> String {
    write::write(&value.with_raw_expanded())
}

/// The same in braces, for tools and people who lose count of spaces.
pub fn to_kyaml(value: &Value) -> String {
    kyaml::write(&value.with_raw_expanded())
}

#[cfg(test)]
mod tests;
