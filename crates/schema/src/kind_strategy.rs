//! The strategy of a built-in kind: views the value through the kind's lens and calls its hook.

use std::{fmt, marker::PhantomData};

use object::{Text, Value};

use crate::{
    Columns, Conversion, ErrorList, FieldPath, GracefulDeletion, Kind, Part, Preparation,
    ValidateName, Validation, WarningList, WriteContext, meta::validate_finalizers, validate_name,
};

/// The strategy of a `Kind`.
pub(crate) struct KindStrategy<K>(PhantomData<fn() -> K>);

impl<K> KindStrategy<K> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<K: Kind> fmt::Debug for KindStrategy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(K::NAMES.kind)
    }
}

impl<K: Kind> Preparation for KindStrategy<K> {
    fn default_fields(&self, object: &mut Value) {
        K::ref_cast_mut(object).default_fields();
    }

    fn default_from_request(&self, object: &mut Value, by: &WriteContext) {
        K::ref_cast_mut(object).stamp(by);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        K::ref_cast_mut(object).prepare_create();
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_update(K::view(old));
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        K::ref_cast_mut(object).prepare_status(K::view(old));
    }

    fn prepare_subresource(&self, object: &mut Value, part: &str, old: &Value) {
        K::ref_cast_mut(object).prepare_part(part, K::view(old));
    }

    fn record_request_info(&self, object: &mut Value, old: Option<&Value>, by: &WriteContext) {
        K::ref_cast_mut(object).sign(old.map(K::view), by);
    }

    fn generation_counts_disabled_fields(&self) -> bool {
        K::COUNTS_DORMANT
    }

    fn status_reset_metadata(&self) -> &'static [&'static str] {
        K::STATUS_KEEPS
    }

    fn check_graceful_delete(&self, object: &Value, asked: Option<i64>) -> GracefulDeletion {
        K::view(object).grace(asked)
    }

    fn prepare_delete(&self, object: &mut Value, now: i64) {
        K::ref_cast_mut(object).prepare_delete(now);
    }

    fn mark_terminating(&self, object: &mut Value) {
        K::ref_cast_mut(object).mark_terminating();
    }
}

impl<K: Kind> Validation for KindStrategy<K> {
    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        let (object, rule): (_, ValidateName) = (K::view(object), K::NAME);
        if !K::ANY_FINALIZER {
            validate_finalizers(object.meta(), errs);
        }
        match old {
            None => {
                // Errors of the name come first.
                let others = std::mem::take(errs);
                validate_name(rule, object.meta(), errs);
                errs.0.extend(others.0);
                object.validate(errs);
            }
            Some(old) => {
                let meta = object.meta();
                if K::UPDATE_CHECKS_GENERATE_NAME && !meta.generate_name().is_empty() {
                    let wrong = rule(meta.generate_name(), true);
                    let at = FieldPath::Root.field("metadata");
                    errs.invalid_each(&at.field("generateName"), meta.generate_name(), wrong);
                }
                object.validate_update(K::view(old), errs);
            }
        }
    }

    fn validate_subresource(&self, object: &Value, part: &str, old: &Value, errs: &mut ErrorList) {
        K::view(object).validate_part(part, K::view(old), errs);
    }

    fn validate_status(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        K::view(object).validate_status(K::view(old), errs);
    }

    fn validate_status_at(&self, object: &Value, old: &Value, now: i64, errs: &mut ErrorList) {
        if !K::ANY_FINALIZER && K::STATUS_CHECKS_FINALIZERS {
            validate_finalizers(K::view(object).meta(), errs);
        }
        K::view(object).validate_status_at(K::view(old), now, errs);
    }

    fn validate_served_version(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        K::validate_version(object, old, errs);
    }

    fn allow_unconditional_update(&self) -> bool {
        K::BLIND_UPDATES
    }

    fn distinguishes_empty(&self) -> bool {
        K::TELLS_HOLLOW
    }

    fn is_expensive(&self, _object: &Value) -> bool {
        K::COMPILES
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, warnings: &mut WarningList) {
        K::view(object).warn(old.map(K::view), warnings);
    }

    fn warn_status(&self, object: &Value, warnings: &mut WarningList) {
        K::view(object).warn_status(warnings);
    }

    fn needs(&self, object: &Value) -> Option<&'static Part> {
        K::view(object).needs()
    }
}

impl<K: Kind> Columns for KindStrategy<K> {
    fn table_cells(&self, object: &Value, now: i64) -> Vec<Value> {
        K::COLUMNS.iter().map(|column| (column.cell)(K::view(object), now)).collect()
    }

    fn table_sort_key(&self, object: &Value) -> i64 {
        K::view(object).rank()
    }

    fn completed_condition(&self, object: &Value) -> Option<(&'static str, &'static str)> {
        K::view(object).ended()
    }

    fn selectable_fields(&self) -> Vec<&str> {
        K::INDEXES.iter().map(|index| index.name).collect()
    }

    fn unsupported_field_message(&self) -> &'static str {
        K::NO_INDEX
    }

    fn watch_topic_fields(&self) -> Vec<&str> {
        K::INDEXES.iter().filter(|index| index.watch_topic).map(|index| index.name).collect()
    }

    fn selectable_field_value(&self, object: &Value, name: &str) -> Option<Text> {
        let index = K::INDEXES.iter().find(|index| index.name == name)?;
        Some((index.value)(K::view(object)).into())
    }
}

impl<K: Kind> Conversion for KindStrategy<K> {
    fn decode_error(&self, object: &Value) -> Option<String> {
        K::view(object).misread()
    }

    fn convert_to_storage(&self, object: &mut Value) {
        K::to_stored(object);
    }

    fn convert_from_storage(&self, object: &mut Value) {
        K::from_stored(object);
    }
}
