//! Validation of a CRD's rules: they must compile, and their estimated cost must be within limits.

use std::sync::Arc;

use schema::{
    ErrorList, ErrorType, FieldPath,
    custom::{self, AdditionalProperties, CelRuleCompiler, JsonSchema},
};

use super::{RULE_LIMIT, SCHEMA_LIMIT, ValidationRule, compile::NodeEnvironment, run::SchemaRules};
use crate::decl_type::DeclType;

/// Compiles the rules of custom resources.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrdRuleCompiler;

impl CelRuleCompiler for CrdRuleCompiler {
    fn check(
        &self,
        schema: &JsonSchema,
        _: Option<&JsonSchema>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        if !schema.any_node(&|schema| !schema.validations().is_empty()) {
            return;
        }
        let mut judge = RuleValidator { errs, total: 0, expensive: Vec::new() };
        let context = Context { count: Some(1), uncorrelatable: None, root: true };
        judge.visit(schema, at, &context);
        judge.finish(at);
    }

    fn compile(&self, schema: &JsonSchema) -> Option<Arc<dyn custom::CelRules>> {
        let has = schema.any_node(&|schema| !schema.validations().is_empty());
        has.then(|| Arc::new(SchemaRules::new(schema)) as Arc<dyn custom::CelRules>)
    }
}

struct RuleValidator<'e> {
    errs: &'e mut ErrorList,
    total: u64,
    /// Most expensive first.
    expensive: Vec<(u64, String)>,
}

/// The context of a node during the walk.
#[derive(Clone)]
struct Context {
    /// The maximum number of values of the node, if it is bounded.
    count: Option<u64>,
    /// The list that prevents correlation with old values, if the node is within one.
    uncorrelatable: Option<String>,
    root: bool,
}

impl RuleValidator<'_> {
    fn visit(&mut self, schema: &JsonSchema, at: &FieldPath<'_>, context: &Context) {
        if !schema.validations().is_empty() {
            self.rules(schema, at, context);
        }
        let inner = Context {
            count: context
                .count
                .zip(max_cardinality(schema))
                .map(|(count, most)| count.saturating_mul(most)),
            root: false,
            uncorrelatable: context.uncorrelatable.clone(),
        };
        let here = || context.uncorrelatable.clone().or_else(|| Some(at.to_string()));
        if let AdditionalProperties::Schema(of) = schema.additional() {
            self.visit(of, &at.field("additionalProperties"), &inner);
        }
        let properties = at.field("properties");
        for (name, property) in schema.properties() {
            let correlates = matches!(schema.map_type(), None | Some("granular" | "atomic"));
            let uncorrelatable = if correlates { inner.uncorrelatable.clone() } else { here() };
            self.visit(
                property,
                &properties.key(name),
                &Context { uncorrelatable, ..inner.clone() },
            );
        }
        if let Some(items) = schema.items() {
            let correlates = schema.list_type() == Some("map");
            let uncorrelatable = if correlates { inner.uncorrelatable.clone() } else { here() };
            self.visit(items, &at.field("items"), &Context { uncorrelatable, ..inner });
        }
    }

    fn rules(&mut self, schema: &JsonSchema, at: &FieldPath<'_>, context: &Context) {
        let all = at.field("x-kubernetes-validations");
        let node = DeclType::from_json_schema(
            schema.tree(),
            context.root || schema.is_embedded_resource(),
        );
        let Some(place) = NodeEnvironment::new(&node) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            return self.errs.push(ErrorType::Internal, &all, object::NULL.clone(), detail);
        };
        let count = context.count.unwrap_or_else(|| node.cardinality());
        for (i, tree) in schema.validations().iter().enumerate() {
            let at = all.index(i);
            let rule = place.compile(schema, ValidationRule::of(tree));
            let (here, message) = (at.field("rule"), at.field("messageExpression"));
            match &rule.program {
                Ok(program) => {
                    let cost = program.cost().max.saturating_mul(count);
                    self.cost("estimated rule cost", cost, &here);
                }
                Err(error) => {
                    self.errs.invalid_formatted(&here, rule.source.shown(), error.clone());
                }
            }
            match &rule.message {
                Some(Ok(program)) => {
                    self.cost("estimated messageExpression cost", program.cost().max, &message);
                }
                Some(Err(error)) => {
                    self.errs.invalid_formatted(&message, rule.source.shown(), error.clone());
                }
                None => {}
            }
            if let (true, Some(list)) = (rule.uses_old, &context.uncorrelatable) {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errs.invalid(&here, rule.source.rule.clone(), detail);
            } else if let (false, Some(flag)) = (rule.uses_old, rule.source.optional_old_self) {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errs.invalid(&at.field("optionalOldSelf"), flag, detail);
            }
        }
    }

    fn cost(&mut self, name: &str, cost: u64, at: &FieldPath<'_>) {
        if cost > RULE_LIMIT {
            let detail = exceeded(name, cost, RULE_LIMIT);
            self.errs.push(ErrorType::Forbidden, at, object::NULL.clone(), detail);
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, at.to_string()));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    fn finish(self, at: &FieldPath<'_>) {
        if self.total <= SCHEMA_LIMIT {
            return;
        }
        for (_, path) in self.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            super::push(
                self.errs,
                ErrorType::Forbidden,
                &path,
                object::NULL.clone(),
                detail.to_owned(),
            );
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = exceeded(name, self.total, SCHEMA_LIMIT);
        self.errs.push(ErrorType::Forbidden, at, object::NULL.clone(), detail);
    }
}

/// The maximum number of elements of a value, if it is bounded.
fn max_cardinality(schema: &JsonSchema) -> Option<u64> {
    let bound = |name: &str| schema.integer(name).map(|n| u64::try_from(n).unwrap_or_default());
    match schema.ty() {
        "object" if !matches!(schema.additional(), AdditionalProperties::Unset) => {
            bound("maxProperties")
        }
        "array" => bound("maxItems"),
        _ => Some(1),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor, for people")]
fn exceeded(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
