//! The rules in CEL of a definition's schemas are read when it is written.

use std::sync::Arc;

use api::apiextensions::{CustomResourceDefinition, schemas};
use object::{Text, Value, View};
use schema::{
    Definition, Errors, FieldError, Grace, Hooks, Kind, Path, Warnings,
    custom::{CompileRules, Schema},
};

/// The kind of definitions, whose schemas' rules are compiled along with its own rules.
pub(crate) fn with_rules(kind: Definition, compile: &Arc<dyn CompileRules>) -> Definition {
    if kind.names != CustomResourceDefinition::NAMES {
        return kind;
    }
    let hooks = Arc::new(Compiled { inner: kind.hooks.clone(), compile: compile.clone() });
    Definition { hooks, ..kind }
}

#[derive(Debug)]
struct Compiled {
    inner: Arc<dyn Hooks>,
    compile: Arc<dyn CompileRules>,
}

impl Compiled {
    fn check(&self, object: &Value, old: Option<&Value>, errs: &mut Errors) {
        let before =
            old.map(|old| schemas(CustomResourceDefinition::view(old))).unwrap_or_default();
        for (at, schema, version) in schemas(CustomResourceDefinition::view(object)) {
            // What is wrong with a schema makes what is wrong with its rules hard to tell.
            let mine = |error: &&FieldError| error.path.starts_with(&at);
            let rule = |error: &FieldError| error.path.contains("x-kubernetes-validations");
            if errs.0.iter().filter(mine).all(rule) {
                self.check_defaults(schema, &Path::Root.field(&at), errs);
            }
            if errs.0.iter().any(|error| mine(&error)) {
                continue;
            }
            let old: Option<&Schema> =
                before.iter().find(|(.., name)| *name == version).map(|(_, schema, _)| *schema);
            self.compile.check(schema, old, &Path::Root.field(&at), errs);
        }
    }

    /// Defaults keep the rules as well.
    fn check_defaults(&self, schema: &Schema, at: &Path, errs: &mut Errors) {
        let rules = schema
            .default_value()
            .and_then(|default| self.compile.compile(schema).map(|rules| (default, rules)));
        if let Some((default, rules)) = rules {
            let mut found = Errors::default();
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

impl Hooks for Compiled {
    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut Errors) {
        self.inner.validate(object, old, errs);
        self.check(object, old, errs);
    }

    fn default_fields(&self, object: &mut Value) {
        self.inner.default_fields(object);
    }
    fn prepare_create(&self, object: &mut Value) {
        self.inner.prepare_create(object);
    }
    fn prepare_update(&self, object: &mut Value, old: &Value) {
        self.inner.prepare_update(object, old);
    }
    fn prepare_status(&self, object: &mut Value, old: &Value) {
        self.inner.prepare_status(object, old);
    }
    fn prepare_delete(&self, object: &mut Value, now: i64) {
        self.inner.prepare_delete(object, now);
    }
    fn validate_status(&self, object: &Value, old: &Value, errs: &mut Errors) {
        self.inner.validate_status(object, old, errs);
    }
    fn warn(&self, object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
        self.inner.warn(object, old, warnings);
    }
    fn warn_status(&self, object: &Value, warnings: &mut Warnings) {
        self.inner.warn_status(object, warnings);
    }
    fn is_expensive(&self, object: &Value) -> bool {
        self.inner.is_expensive(object)
    }
    fn blind_updates(&self) -> bool {
        self.inner.blind_updates()
    }
    fn status_keeps(&self) -> &'static [&'static str] {
        self.inner.status_keeps()
    }
    fn row(&self, object: &Value, now: i64) -> Vec<Value> {
        self.inner.row(object, now)
    }
    fn ended(&self, object: &Value) -> Option<(&'static str, &'static str)> {
        self.inner.ended(object)
    }
    fn fields(&self) -> Vec<&str> {
        self.inner.fields()
    }
    fn topics(&self) -> Vec<&str> {
        self.inner.topics()
    }
    fn field(&self, object: &Value, name: &str) -> Option<Text> {
        self.inner.field(object, name)
    }
    fn grace(&self, object: &Value, asked: Option<i64>) -> Grace {
        self.inner.grace(object, asked)
    }
    fn to_stored(&self, object: &mut Value) {
        self.inner.to_stored(object);
    }
    fn from_stored(&self, object: &mut Value) {
        self.inner.from_stored(object);
    }
}
