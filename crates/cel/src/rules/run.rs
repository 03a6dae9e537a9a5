//! Evaluation of a schema's rules for an object. On update, errors in unchanged parts are ratcheted.

use std::sync::Arc;

use object::{Text, Value as Tree};
use schema::{
    ErrorList, ErrorType, FieldPath,
    custom::{self, AdditionalProperties, JsonSchema, OldItems},
};

use super::{
    LONGEST_MESSAGE, OBJECT_COST_BUDGET, ValidationRule, child,
    compile::{CompiledRule, NodeEnvironment},
    push, push_omitted,
};
use crate::{decl_type::DeclType, error::Error, program::Bindings, value::Value};

/// The rules of a schema node, and those below it.
#[derive(Debug)]
pub(super) struct SchemaRules {
    ty: Text,
    node: Arc<DeclType>,
    rules: Vec<CompiledRule>,
    properties: Vec<(Text, SchemaRules)>,
    additional: Option<Box<SchemaRules>>,
    items: Option<Box<SchemaRules>>,
    /// The key fields of the items of a map list.
    keys: Option<Vec<Text>>,
    correlates: bool,
}

impl SchemaRules {
    pub(super) fn new(schema: &JsonSchema) -> Self {
        Self::at(schema, true)
    }

    fn at(schema: &JsonSchema, root: bool) -> Self {
        let node = DeclType::from_json_schema(schema.tree(), root || schema.is_embedded_resource());
        let place =
            if schema.validations().is_empty() { None } else { NodeEnvironment::new(&node) };
        let rules = place.iter().flat_map(|place| {
            let sources = schema.validations().iter().map(ValidationRule::of);
            sources.map(|source| place.compile(schema, source))
        });
        let below = |schema: &JsonSchema| {
            let has = schema.any_node(&|schema| !schema.validations().is_empty());
            has.then(|| Box::new(Self::at(schema, false)))
        };
        let additional = match schema.additional() {
            AdditionalProperties::Schema(of) => below(of),
            _ => None,
        };
        Self {
            ty: schema.ty().into(),
            rules: rules.collect(),
            properties: schema
                .properties()
                .filter_map(|(name, schema)| Some((name.into(), *below(schema)?)))
                .collect(),
            additional,
            items: schema.items().and_then(below),
            keys: (schema.list_type() == Some("map"))
                .then(|| schema.list_keys().map(Text::from).collect()),
            correlates: matches!(schema.map_type(), None | Some("granular" | "atomic")),
            node,
        }
    }
}

impl custom::CelRules for SchemaRules {
    fn check(&self, object: &Tree, old: Option<&Tree>, errs: &mut ErrorList) {
        let mut run = RuleEvaluation { errs, budget: Some(OBJECT_COST_BUDGET) };
        let past = Correlation { current: old.map(|old| (object, old)), parent: None };
        run.visit(self, &FieldPath::Root, NodeValues { object, old, past });
    }
}

/// The old value, to find out whether a value has changed.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    current: Option<(&'a Tree, &'a Tree)>,
    /// The values of the nearest ancestor that can be correlated.
    parent: Option<(&'a Tree, &'a Tree)>,
}

impl<'a> Correlation<'a> {
    fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(|(new, old)| new == old)
    }

    fn key(self, name: &str) -> Self {
        let Some((new, old)) = self.current else { return self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { current: None, parent: None };
        }
        let both = (new.get(name), old.get(name));
        let found = !both.0.is_null() && !both.1.is_null();
        Self { current: found.then_some(both), parent: self.current }
    }

    fn item(self, new: &'a Tree, old: Option<&'a Tree>) -> Self {
        match self.current {
            Some(_) => Self { current: old.map(|old| (new, old)), parent: self.current },
            None => self,
        }
    }
}

/// A value, and its old value.
#[derive(Clone, Copy)]
struct NodeValues<'a> {
    object: &'a Tree,
    old: Option<&'a Tree>,
    past: Correlation<'a>,
}

struct RuleEvaluation<'e> {
    errs: &'e mut ErrorList,
    /// `None` once the budget is exhausted.
    budget: Option<u64>,
}

impl RuleEvaluation<'_> {
    fn visit(&mut self, set: &SchemaRules, at: &FieldPath<'_>, spot: NodeValues<'_>) {
        let NodeValues { object, old, past } = spot;
        if object.is_null() || self.budget.is_none() {
            return;
        }
        self.rules(set, at, spot);
        if let (Tree::List(items), Some(inner)) = (object, &set.items) {
            let keys = set.keys.as_ref().map(|keys| keys.iter().map(Text::as_str).collect());
            let old_items = OldItems::new(keys, old);
            for (i, item) in items.iter().enumerate() {
                let before = old_items.as_ref().and_then(|old| old.find(item));
                let past = past.item(item, before);
                self.visit(inner, &at.index(i), NodeValues { object: item, old: before, past });
            }
        }
        for (name, value) in object.entries() {
            let before = old.filter(|_| set.correlates).map(|old| old.get(name));
            let before = before.filter(|before| !before.is_null());
            let spot = NodeValues { object: value, old: before, past: past.key(name) };
            let property = set.properties.iter().find(|(own, _)| own == name);
            if let Some((_, inner)) = property {
                self.visit(inner, &at.field(name), spot);
            } else if let Some(inner) = &set.additional {
                self.visit(inner, &at.key(name), spot);
            }
        }
    }

    fn rules(&mut self, set: &SchemaRules, at: &FieldPath<'_>, spot: NodeValues<'_>) {
        let NodeValues { object, old, .. } = spot;
        if self.budget == Some(0) && !set.rules.is_empty() {
            return self.exhausted(set, at);
        }
        for rule in set.rules.iter().filter(|rule| !rule.source.rule.trim().is_empty()) {
            let Some(budget) = self.budget else { return };
            if rule.uses_old && old.is_none() && !rule.has_optional_old_self() {
                continue;
            }
            let program = match &rule.program {
                Ok(program) => program,
                Err(error) => {
                    self.invalid(set, at, format!("rule compile error: {error}"));
                    continue;
                }
            };
            let optional = rule.has_optional_old_self();
            let (outcome, cost) = match &bind(set, object, old, optional) {
                Ok(bindings) => {
                    let (outcome, cost) = program.evaluate(bindings, u64::MAX);
                    (outcome.map(|value| value.as_bool() == Some(true)), cost)
                }
                Err(error) => (Err(error.clone()), 0),
            };
            let Some(rest) = budget.checked_sub(cost) else {
                return self.exhausted(set, at);
            };
            self.budget = Some(rest);
            match outcome {
                Ok(true) => {}
                Ok(false) => self.refuse(set, rule, at, spot),
                Err(error) => self.failed(set, rule, at, &error),
            }
        }
    }

    fn exhausted(&mut self, set: &SchemaRules, at: &FieldPath<'_>) {
        let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.invalid(set, at, detail.to_owned());
        self.budget = None;
    }

    fn failed(
        &mut self,
        set: &SchemaRules,
        rule: &CompiledRule,
        at: &FieldPath<'_>,
        error: &Error,
    ) {
        let name = rule.source.name();
        let detail = if error.is_budget_exceeded() {
            self.budget = None;
            format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
            )
        } else if error.is_overload() {
            format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            )
        } else {
            format!("{error} evaluating rule: {name}")
        };
        self.invalid(set, at, detail);
    }

    fn invalid(&mut self, set: &SchemaRules, at: &FieldPath<'_>, detail: String) {
        let ty = set.ty.as_str().into();
        push(self.errs, ErrorType::Invalid, &at.to_string(), ty, detail);
    }

    fn refuse(
        &mut self,
        set: &SchemaRules,
        rule: &CompiledRule,
        at: &FieldPath<'_>,
        spot: NodeValues<'_>,
    ) {
        let path = child(at, &rule.field);
        let mut errors = ErrorList::default();
        match self.message(set, rule, spot) {
            Err(detail) => {
                let ty = set.ty.as_str().into();
                push(&mut errors, ErrorType::Invalid, &path, ty, detail);
                self.budget = None;
            }
            Ok(detail) => {
                let error = match rule.source.reason.as_deref() {
                    Some("FieldValueForbidden") => ErrorType::Forbidden,
                    Some("FieldValueRequired") => ErrorType::Required,
                    Some("FieldValueDuplicate") => ErrorType::Duplicate,
                    _ => ErrorType::Invalid,
                };
                let detail = if error == ErrorType::Duplicate { String::new() } else { detail };
                if matches!(&*set.ty, "object" | "array") {
                    push_omitted(&mut errors, error, &path, detail);
                } else {
                    push(&mut errors, error, &path, spot.object.clone(), detail);
                }
            }
        }
        // Errors of unchanged values are only reported as ratcheted.
        let forgiven = !rule.uses_old && spot.past.is_unchanged();
        let told = if forgiven { &mut self.errs.1 } else { &mut self.errs.0 };
        told.append(&mut errors.0);
    }

    /// The message of a failed rule: that of its message expression if usable, or the declared one. An error means that
    /// no further rule is evaluated.
    fn message(
        &mut self,
        set: &SchemaRules,
        rule: &CompiledRule,
        spot: NodeValues<'_>,
    ) -> Result<String, String> {
        if let (Some(Ok(program)), Some(budget)) = (&rule.message, self.budget) {
            // The message expression sees the old value itself, even where the rule sees an optional.
            if let Ok(bindings) = bind(set, spot.object, spot.old, false) {
                let (outcome, cost) = program.evaluate(&bindings, u64::MAX);
                let rest = budget.checked_sub(cost).ok_or(
                    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run",
                )?;
                if outcome.as_ref().is_err_and(Error::is_budget_exceeded) {
                    let source = object::quote::quote(&rule.source.message_expression);
                    return Err(format!(
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                    ));
                }
                self.budget = Some(rest);
                if let Some(text) = outcome.ok().as_ref().and_then(usable) {
                    return Ok(text);
                }
            }
        }
        Ok(match &*rule.source.message {
            "" => format!("failed rule: {}", rule.source.name()),
            message => message.trim().to_owned(),
        })
    }
}

/// The message that an expression returned, if it is usable.
fn usable(value: &Value<'_>) -> Option<String> {
    let text = value.as_text()?.trim();
    let usable = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
    usable.then(|| text.to_owned())
}

fn bind<'a>(
    set: &'a SchemaRules,
    object: &'a Tree,
    old: Option<&'a Tree>,
    optional: bool,
) -> Result<Bindings<'a>, Error> {
    let node = Some(&*set.node);
    let bindings = Bindings::new().tree("self", object, node)?;
    match old {
        _ if optional => {
            let old = Value::optional_tree(old.map(|old| (old, node)))?;
            Ok(bindings.value("oldSelf", old))
        }
        Some(old) => bindings.tree("oldSelf", old, node),
        None => Ok(bindings),
    }
}
