//! Validation of the CEL rules (`x-kubernetes-validations`) in the schemas of a
//! CustomResourceDefinition.

use std::sync::Arc;

use api::apiextensions::{CustomResourceDefinition, schemas};
use object::{Text, Value, View};
use schema::{
    Columns, Conversion, ErrorList, FieldError, FieldPath, GracefulDeletion, Kind, Preparation,
    ResourceDefinition, Strategy, Validation, WarningList,
    custom::{CelRuleCompiler, JsonSchema},
};

/// Adds the compilation of CEL rules to the validation of CustomResourceDefinitions.
pub(crate) fn with_rules(
    kind: ResourceDefinition,
    compile: &Arc<dyn CelRuleCompiler>,
) -> ResourceDefinition {
    if kind.names != CustomResourceDefinition::NAMES {
        return kind;
    }
    let hooks =
        Arc::new(CelCheckedStrategy { inner: kind.strategy.clone(), compile: compile.clone() });
    ResourceDefinition { strategy: hooks, ..kind }
}

/// The strategy of CRDs, with the CEL check added to `validate`.
#[derive(Debug)]
struct CelCheckedStrategy {
    inner: Arc<dyn Strategy>,
    compile: Arc<dyn CelRuleCompiler>,
}

impl CelCheckedStrategy {
    fn check(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        let before =
            old.map(|old| schemas(CustomResourceDefinition::view(old))).unwrap_or_default();
        for (at, schema, version) in schemas(CustomResourceDefinition::view(object)) {
            // CEL rules are checked only in a schema that is otherwise valid.
            let mine = |error: &&FieldError| error.path.starts_with(&at);
            let rule = |error: &FieldError| error.path.contains("x-kubernetes-validations");
            if errs.0.iter().filter(mine).all(rule) {
                self.check_defaults(schema, &FieldPath::Root.field(&at), errs);
            }
            if errs.0.iter().any(|error| mine(&error)) {
                continue;
            }
            let old: Option<&JsonSchema> =
                before.iter().find(|(.., name)| *name == version).map(|(_, schema, _)| *schema);
            self.compile.check(schema, old, &FieldPath::Root.field(&at), errs);
        }
    }

    /// Checks that defaults satisfy the rules.
    fn check_defaults(&self, schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
        let rules = schema
            .default_value()
            .and_then(|default| self.compile.compile(schema).map(|rules| (default, rules)));
        if let Some((default, rules)) = rules {
            let mut found = ErrorList::default();
            rules.check(default, None, &mut found);
            let at = at.field("default").to_string();
            errs.0.extend(found.0.into_iter().map(|mut error| {
                error.path = match &*error.path {
                    "" | "<nil>" => at.clone(),
                    path => format!("{at}.{path}"),
                };
                error
            }));
        }
        if let Some(items) = schema.items() {
            self.check_defaults(items, &at.field("items"), errs);
        }
        let properties = at.field("properties");
        for (name, property) in schema.properties() {
            self.check_defaults(property, &properties.key(name), errs);
        }
    }
}

impl Preparation for CelCheckedStrategy {
    fn default_fields(&self, object: &mut Value) {
        self.inner.default_fields(object);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        self.inner.prepare_for_create(object);
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        self.inner.prepare_for_update(object, old);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        self.inner.prepare_status(object, old);
    }

    fn prepare_delete(&self, object: &mut Value, now: i64) {
        self.inner.prepare_delete(object, now);
    }

    fn check_graceful_delete(&self, object: &Value, asked: Option<i64>) -> GracefulDeletion {
        self.inner.check_graceful_delete(object, asked)
    }

    fn status_reset_metadata(&self) -> &'static [&'static str] {
        self.inner.status_reset_metadata()
    }
}

impl Validation for CelCheckedStrategy {
    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        self.inner.validate(object, old, errs);
        self.check(object, old, errs);
    }

    fn validate_status(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        self.inner.validate_status(object, old, errs);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, warnings: &mut WarningList) {
        self.inner.warnings(object, old, warnings);
    }

    fn warn_status(&self, object: &Value, warnings: &mut WarningList) {
        self.inner.warn_status(object, warnings);
    }

    fn is_expensive(&self, object: &Value) -> bool {
        self.inner.is_expensive(object)
    }

    fn allow_unconditional_update(&self) -> bool {
        self.inner.allow_unconditional_update()
    }
}

impl Columns for CelCheckedStrategy {
    fn table_cells(&self, object: &Value, now: i64) -> Vec<Value> {
        self.inner.table_cells(object, now)
    }

    fn completed_condition(&self, object: &Value) -> Option<(&'static str, &'static str)> {
        self.inner.completed_condition(object)
    }

    fn selectable_fields(&self) -> Vec<&str> {
        self.inner.selectable_fields()
    }

    fn watch_topic_fields(&self) -> Vec<&str> {
        self.inner.watch_topic_fields()
    }

    fn selectable_field_value(&self, object: &Value, name: &str) -> Option<Text> {
        self.inner.selectable_field_value(object, name)
    }
}

impl Conversion for CelCheckedStrategy {
    fn convert_to_storage(&self, object: &mut Value) {
        self.inner.convert_to_storage(object);
    }

    fn convert_from_storage(&self, object: &mut Value) {
        self.inner.convert_from_storage(object);
    }
}
