//! core/v1: Secret.

use macros::api;
use object::{Bytes, Map, ObjectMeta, Value, from_json, names, saturating_i32};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, TableColumn, WarningList,
};

use super::config_map::{IMMUTABLE_MESSAGE, MAX_SIZE};

/// Sensitive data for pods, such as passwords, tokens and keys.
#[api]
pub struct Secret {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Whether the data can no longer be changed; only the metadata can.
    #[api(tag = 5)]
    immutable: Option<bool>,
    /// Values by key, base64-encoded.
    #[api(tag = 2)]
    data: Map<Bytes>,
    /// Values by key as plain text, merged into data when written. Never returned.
    #[api(tag = 4)]
    string_data: Map<String>,
    /// Type of the data, such as Opaque or kubernetes.io/tls. It decides which keys are required.
    #[api(tag = 3, default = "Opaque", unpublished_default, go_type = "v1.SecretType")]
    type_: String,
}

impl Kind for Secret {
    const NAMES: ResourceNames = ResourceNames::new("", "v1", "Secret", "secrets");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Type", |secret, _| secret.type_().into()),
        TableColumn::text("Data", |secret, _| saturating_i32(secret.data().iter().len()).into()),
        TableColumn::AGE,
    ];
    const TELLS_HOLLOW: bool = true;
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("type", |secret| secret.type_().into())];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        let key = |name: &str| Bytes::decode(self.data().get(name).unwrap_or_default());
        if self.type_() == "kubernetes.io/tls"
            && let Some(why) =
                wrong_pair(&key("tls.crt").unwrap_or_default(), &key("tls.key").unwrap_or_default())
        {
            warnings.push(why);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        let at = FieldPath::Root.field("data");
        let mut size = 0;
        for (key, value) in self.data().iter() {
            errs.invalid_each(&at.key(key), key, names::config_map_key(key));
            size += Bytes::decode(value).map_or(0, |bytes| bytes.len());
        }
        if size > MAX_SIZE {
            errs.too_long(&at, MAX_SIZE);
        }
        self.check_type(&at, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        errs.immutable(&FieldPath::Root.field("type"), &self.type_().into(), &old.type_().into());
        if old.immutable() == Some(true) {
            if self.immutable() != Some(true) {
                errs.forbidden(&FieldPath::Root.field("immutable"), IMMUTABLE_MESSAGE);
            }
            if self.data() != old.data() {
                errs.forbidden(&FieldPath::Root.field("data"), IMMUTABLE_MESSAGE);
            }
        }
        self.validate(errs);
    }

    fn default_fields(&mut self) {
        let plain = self.string_data().clone();
        for (key, text) in plain.iter() {
            self.data_mut().insert(key, Bytes::encode(text.as_bytes()));
        }
        self.set_string_data([("", ""); 0]);
    }
}

/// Names the service account that a token is of.
const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

impl Secret {
    /// Secrets of some types have keys that their users rely on.
    fn check_type(&self, at: &FieldPath, errs: &mut ErrorList) {
        let absent = |key: &&&str| self.data().get(key).is_none();
        match self.type_() {
            "kubernetes.io/service-account-token" => {
                let notes = self.metadata().annotations();
                if notes.get(SERVICE_ACCOUNT).unwrap_or_default().is_empty() {
                    errs.required(
                        &FieldPath::METADATA.field("annotations").key(SERVICE_ACCOUNT),
                        "",
                    );
                }
            }
            "kubernetes.io/dockercfg" => self.check_json(".dockercfg", at, errs),
            "kubernetes.io/dockerconfigjson" => self.check_json(".dockerconfigjson", at, errs),
            "kubernetes.io/basic-auth" => {
                let keys = ["username", "password"];
                if keys.iter().filter(absent).count() == keys.len() {
                    for key in keys {
                        errs.required(&at.key(key), "");
                    }
                }
            }
            "kubernetes.io/ssh-auth"
                if self.data().get("ssh-privatekey").unwrap_or_default().is_empty() =>
            {
                errs.required(&at.key("ssh-privatekey"), "");
            }
            "kubernetes.io/tls" => {
                for key in ["tls.crt", "tls.key"].iter().filter(absent) {
                    errs.required(&at.key(key), "");
                }
            }
            _ => {}
        }
    }

    fn check_json(&self, key: &str, at: &FieldPath, errs: &mut ErrorList) {
        let Some(text) = self.data().get(key) else { return errs.required(&at.key(key), "") };
        let bytes = Bytes::decode(text).unwrap_or_default();
        let hidden = "<secret contents redacted>";
        match from_json(&bytes) {
            Ok(value) if value.is_object() || value.is_null() => {}
            Ok(value) => {
                let found = match value {
                    Value::Bool(_) => "bool",
                    Value::Text(_) => "string",
                    Value::List(_) => "array",
                    _ => "number",
                };
                let why = format!(
                    "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                );
                errs.invalid(&at.key(key), hidden, why);
            }
            Err(error) => errs.invalid(&at.key(key), hidden, error.to_string()),
        }
    }
}

/// What is wrong with a certificate and its key, as far as the envelopes show it.
fn wrong_pair(certificate: &[u8], key: &[u8]) -> Option<String> {
    let found = blocks(certificate);
    if !found.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match &*found {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if one.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a \
                 private key; PEM inputs may have been switched"
                    .to_owned()
            }
            found => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after \
                 skipping PEM blocks of the following types: [{}]",
                found.join(" ")
            ),
        });
    }
    let found = blocks(key);
    if found.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match &*found {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        found => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input \
             after skipping PEM blocks of the following types: [{}]",
            found.join(" ")
        ),
    })
}

/// The types of the PEM blocks in a text.
fn blocks(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let begin = |line: &str| {
        Some(line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?.to_owned())
    };
    let kinds = text.lines().filter_map(begin);
    kinds.filter(|kind| text.contains(&format!("-----END {kind}-----"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn plain_data_becomes_data() {
        let secret: Secret =
            created_from_json(r#"{"metadata": {"name": "a"}, "stringData": {"k": "v"}}"#);
        assert_eq!((secret.type_(), secret.data().get("k")), ("Opaque", Some("dg==")));
        assert!(secret.string_data().is_empty());
    }

    #[test]
    fn a_certificate_has_its_key() {
        let secret: Secret = created_from_json(
            r#"{"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}}"#,
        );
        assert_eq!(create_errors(&secret), ["data[tls.key]: Required value"]);
    }
}
