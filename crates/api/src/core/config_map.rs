//! core/v1: ConfigMap.

use macros::api;
use object::{Bytes, Lens, Map, ObjectMeta, names, saturating_i32};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn};

/// Configuration data for pods, as keys and values.
#[api]
pub struct ConfigMap {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Whether the data can no longer be changed; only the metadata can.
    #[api(tag = 4)]
    immutable: Option<bool>,
    /// Text values by key.
    #[api(tag = 2)]
    data: Map<String>,
    /// Binary values by key, base64-encoded.
    binary_data: Map<Bytes>,
}

impl Kind for ConfigMap {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "ConfigMap", "configmaps").short(&["cm"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Data", |map, _| {
            saturating_i32(map.data().iter().len() + map.binary_data().iter().len()).into()
        }),
        TableColumn::AGE,
    ];
    const TELLS_HOLLOW: bool = true;

    fn validate(&self, errs: &mut ErrorList) {
        let (data, binary) = (FieldPath::Root.field("data"), FieldPath::Root.field("binaryData"));
        let mut size = 0;
        for (key, value) in self.data().iter() {
            errs.invalid_each(&data.key(key), key, names::config_map_key(key));
            if self.binary_data().get(key).is_some() {
                errs.invalid(&data.key(key), key, "duplicate of key present in binaryData");
            }
            size += value.len();
        }
        for (key, value) in self.binary_data().iter() {
            errs.invalid_each(&binary.key(key), key, names::config_map_key(key));
            size += Bytes::decode(value).map_or(0, |bytes| bytes.len());
        }
        if size > MAX_SIZE {
            errs.too_long(&FieldPath::Root.field("[]"), MAX_SIZE);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if old.immutable() == Some(true) {
            if self.immutable() != Some(true) {
                errs.forbidden(&FieldPath::Root.field("immutable"), IMMUTABLE_MESSAGE);
            }
            for name in ["data", "binaryData"] {
                if self.tree().get(name) != old.tree().get(name) {
                    errs.forbidden(&FieldPath::Root.field(name), IMMUTABLE_MESSAGE);
                }
            }
        }
        self.validate(errs);
    }
}

/// The most that a config map or secret holds.
pub(super) const MAX_SIZE: usize = 1024 * 1024;
pub(super) const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

#[cfg(test)]
mod tests {
    use object::from_json;
    use schema::ResourceDefinition;

    use super::*;

    #[test]
    fn an_update_is_held_to_the_rules_of_new_objects() {
        let tree = |text: &str| from_json(text.as_bytes()).expect("well formed");
        let old = tree(r#"{"metadata":{"name":"a"}}"#);
        let new = tree(r#"{"metadata":{"name":"a","generateName":"Bad_"}}"#);
        let mut errs = ErrorList::default();
        ResourceDefinition::from_kind::<ConfigMap>().strategy.validate(&new, Some(&old), &mut errs);
        assert_eq!(errs.0.len(), 1, "{errs:?}");
        assert_eq!(errs.0[0].path, "metadata.generateName");
    }
}
