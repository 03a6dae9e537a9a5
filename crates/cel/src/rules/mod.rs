//! Validation rules of custom resources: `x-kubernetes-validations`.

mod compile;
mod compile_rules;
mod run;

pub use self::compile_rules::CrdRuleCompiler;

use object::{Text, Value};
use schema::{ErrorList, ErrorType, FieldError, FieldPath};

/// Cost budget of all rules for one object, about a second.
const OBJECT_COST_BUDGET: u64 = 10_000_000;
/// Limits of the estimated cost of one rule, and of all rules of a schema.
const RULE_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Maximum length in bytes of a message that an expression returns.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A rule as declared in the schema.
#[derive(Clone, Debug)]
struct ValidationRule {
    rule: Text,
    message: Text,
    message_expression: Text,
    reason: Option<Text>,
    field_path: Text,
    optional_old_self: Option<bool>,
}

impl ValidationRule {
    fn of(tree: &Value) -> Self {
        let text = |name: &str| Text::from(tree.get(name).as_str().unwrap_or_default());
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: tree.get("reason").as_str().map(Text::from),
            field_path: text("fieldPath"),
            optional_old_self: tree.get("optionalOldSelf").as_bool(),
        }
    }

    /// The name of the rule in error messages.
    fn name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    /// The rule as Go prints its struct.
    fn shown(&self) -> String {
        let text =
            |text: &str| String::from_utf8_lossy(&object::to_json(&text.into())).into_owned();
        let reason = self.reason.as_ref().map_or("null".to_owned(), |reason| text(reason));
        let optional = self.optional_old_self.map_or("null".to_owned(), |flag| flag.to_string());
        let shown = format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{reason},"FieldPath":{},"OptionalOldSelf":{optional}}}"#,
            text(&self.rule),
            text(&self.message),
            text(&self.message_expression),
            text(&self.field_path),
        );
        shown.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
    }
}

/// Adds an error; the path of the object itself is `<nil>`.
fn push(errs: &mut ErrorList, error: ErrorType, at: &str, bad: Value, detail: String) {
    let path = if at.is_empty() { "<nil>".to_owned() } else { at.to_owned() };
    errs.0.push(FieldError {
        error_type: error,
        path,
        bad_value: bad,
        formatted_value: None,
        detail,
    });
}

/// Like `push`, for an error message without a value.
fn push_omitted(errs: &mut ErrorList, error: ErrorType, at: &str, detail: String) {
    push(errs, error, at, Value::Null, detail);
    if let Some(last) = errs.0.last_mut() {
        last.formatted_value = Some(String::new());
    }
}

/// Appends to a field path.
fn child(at: &FieldPath<'_>, more: &str) -> String {
    let at = at.to_string();
    match (at.is_empty(), more) {
        (_, "") => at,
        (true, more) => more.to_owned(),
        (false, more) => format!("{at}.{more}"),
    }
}
