//! The rules that policies, bindings and webhooks share.

use std::collections::BTreeSet;

use object::{LabelSelector, Lens, List, Value, names};
use schema::{ErrorList, FieldPath};

use super::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ParamKind, ParamRef,
    RuleWithOperations, Variable,
};
use crate::{
    expression::{CelEnvironment, ExpectedResult, Session},
    rules::ValidateField,
};

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const MATCHING: [&str; 2] = ["Equivalent", "Exact"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;
/// What no variable can be called.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// A list with `*` has nothing else.
fn validate_wildcard_alone(
    list: &List<String>,
    at: &FieldPath,
    others: &str,
    errs: &mut ErrorList,
) {
    if list.len() > 1 && list.iter().any(|item| item == "*") {
        let why = format!("if '*' is present, must not specify other {others}");
        errs.invalid(at, Value::from(list.clone()), why);
    }
}

impl RuleWithOperations {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (operations, here) = (self.operations(), at.field("operations"));
        if operations.is_empty() {
            errs.required(&here, "");
        }
        validate_wildcard_alone(operations, &here, "operations", errs);
        here.for_each_item(operations.iter(), |operation, at| {
            errs.one_of(at, operation, &OPERATIONS);
        });
        let rule = self.rule();
        for (name, list, others) in [
            ("apiGroups", rule.api_groups(), "API groups"),
            ("apiVersions", rule.api_versions(), "API versions"),
        ] {
            if list.is_empty() {
                errs.required(&at.field(name), "");
            }
            validate_wildcard_alone(list, &at.field(name), others, errs);
        }
        for (i, version) in rule.api_versions().iter().enumerate() {
            if version.is_empty() {
                errs.required(&at.field("apiVersions").index(i), "");
            }
        }
        check_resources(rule.resources(), &at.field("resources"), errs);
        errs.one_of(&at.field("scope"), rule.scope(), &SCOPES);
    }
}

/// Resources, perhaps with subresources: nothing is named beside what includes it.
fn check_resources(resources: &List<String>, at: &FieldPath, errs: &mut ErrorList) {
    if resources.is_empty() {
        errs.required(at, "");
    }
    let (mut whole, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    let mut plain = false;
    for (i, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errs.required(&at.index(i), "");
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            plain = resource != "*";
            continue;
        };
        if whole.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errs.invalid(&at.index(i), resource, why);
        }
        if everywhere.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {resource}");
            errs.invalid(&at.index(i), resource, why);
        }
        if part == "*" {
            whole.insert(name);
        }
        if name == "*" {
            everywhere.insert(part);
        }
    }
    let has = |name: &str| resources.iter().any(|resource| resource == name);
    let all = || Value::from(resources.clone());
    if resources.len() > 1 && has("*/*") {
        errs.invalid(at, all(), "if '*/*' is present, must not specify other resources");
    }
    if has("*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errs.invalid(at, all(), why);
    }
}

impl NamedRuleWithOperations {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut seen = BTreeSet::new();
        at.field("resourceNames").for_each_item(self.resource_names().iter(), |name, at| {
            errs.invalid_each(at, name, names::path_segment_name(name));
            errs.unique(&mut seen, at, name);
        });
        self.rule_with_operations().check(at, errs);
    }
}

impl MatchResources {
    /// Fills in what matches when nothing is said.
    pub(super) fn default_fields(&mut self) {
        if self.namespace_selector().is_none() {
            self.set_namespace_selector(LabelSelector::new());
        }
        if self.object_selector().is_none() {
            self.set_object_selector(LabelSelector::new());
        }
    }

    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("matchPolicy"), self.match_policy(), &MATCHING);
        errs.selector(&at.field("namespaceSelector"), self.namespace_selector());
        errs.selector(&at.field("objectSelector"), self.object_selector());
        for (name, rules) in [
            ("resourceRules", self.resource_rules()),
            ("excludeResourceRules", self.exclude_resource_rules()),
        ] {
            at.field(name).for_each_item(rules.iter(), |rule, at| rule.check(at, errs));
        }
    }

    /// What a policy applies to: it must say so.
    pub(super) fn check_constraints(this: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        let Some(this) = this else { return errs.required(at, "") };
        this.check(at, errs);
        if this.resource_rules().is_empty() {
            errs.required(&at.field("resourceRules"), "");
        }
    }
}

impl ParamKind {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        self.check_version(&at.field("apiVersion"), errs);
        match self.kind() {
            "" => errs.required(&at.field("kind"), ""),
            kind => {
                let wrong = names::dns1035_label(&kind.to_lowercase());
                if !wrong.is_empty() {
                    let rule = "may have mixed case, but should otherwise match: ";
                    errs.invalid(&at.field("kind"), kind, format!("{rule}{}", wrong.join(",")));
                }
            }
        }
    }

    fn check_version(&self, at: &FieldPath, errs: &mut ErrorList) {
        let text = self.api_version();
        let (group, version) = match text.matches('/').count() {
            _ if text.is_empty() => return errs.required(at, ""),
            _ if text == "/" => ("", ""),
            0 => ("", text),
            1 => text.split_once('/').unwrap_or_default(),
            _ => {
                let why = format!("unexpected GroupVersion string: {text}");
                return errs.invalid(at, text, why);
            }
        };
        let wrong = names::dns1123_subdomain(group);
        if !group.is_empty() && !wrong.is_empty() {
            errs.invalid(at, group, wrong.join(","));
        }
        if version.is_empty() {
            return errs.invalid(at, text, "version must be specified");
        }
        let wrong = names::dns1035_label(version);
        if !wrong.is_empty() {
            errs.invalid(at, version, wrong.join(","));
        }
    }
}

impl ParamRef {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let exclusive = "name and selector are mutually exclusive";
        let (name, selector) = (self.name(), self.selector());
        errs.optional_format(&at.field("name"), name, names::path_segment_name);
        errs.selector(&at.field("selector"), selector);
        match (name.is_empty(), selector.is_some()) {
            (false, true) => {
                errs.forbidden(&at.field("name"), exclusive);
                errs.forbidden(&at.field("selector"), exclusive);
            }
            (true, false) => errs.required(at, "one of name or selector must be specified"),
            _ => {}
        }
        let at = at.field("parameterNotFoundAction");
        match self.parameter_not_found_action() {
            None | Some("") => errs.required(&at, ""),
            Some(action) => errs.one_of(&at, action, &["Deny", "Allow"]),
        }
    }

    /// As tables show it.
    pub(super) fn cell(this: Option<&Self>) -> String {
        let unset = || "<unset>".to_owned();
        let Some(this) = this else { return unset() };
        match (this.namespace(), this.name(), this.selector()) {
            (_, "", None) => unset(),
            (_, "", Some(selector)) => shown_selector(selector),
            ("", name, _) => format!("*/{name}"),
            (namespace, name, _) => format!("{namespace}/{name}"),
        }
    }
}

/// A selector as Go prints it for people.
fn shown_selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels().iter();
    let labels: String = labels.map(|(name, value)| format!("{name}: {value},")).collect();
    let each = selector.match_expressions().iter().map(|it| {
        let values: Vec<_> = it.values().iter().collect();
        let (key, operator) = (it.key(), it.operator());
        format!(
            "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},",
            values.join(" ")
        )
    });
    let each: String = each.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{each}}},}}"
    )
}

/// What else must hold for a request to match. `old`: those that were there before.
pub(super) fn check_conditions(
    conditions: &List<MatchCondition>,
    old: &[&MatchCondition],
    params: bool,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    errs.max_items(at, conditions.len(), MAX_CONDITIONS);
    let mut seen = BTreeSet::new();
    let old: BTreeSet<_> = old.iter().map(|old| old.expression()).collect();
    let mut session = Session::start();
    at.for_each_item(conditions.iter(), |condition, at| {
        let text = condition.expression().trim();
        if text.is_empty() {
            errs.required(&at.field("expression"), "");
        } else {
            let environment = CelEnvironment {
                result_type: ExpectedResult::Bool,
                params,
                authorizer: true,
                variables: false,
                is_stored: old.contains(text),
            };
            session.check(text, &environment, &at.field("expression"), errs);
        }
        match condition.name() {
            "" => errs.required(&at.field("name"), ""),
            name => {
                errs.qualified(&at.field("name"), name);
                errs.unique(&mut seen, &at.field("name"), name);
            }
        }
    });
}

/// Variables, each of which sees those before it. What comes after them sees all of them.
pub(super) fn check_variables(
    variables: &List<Variable>,
    params: bool,
    at: &FieldPath,
    errs: &mut ErrorList,
) -> Session {
    let mut session = Session::start();
    let environment = CelEnvironment {
        result_type: ExpectedResult::Any,
        params,
        authorizer: true,
        variables: true,
        is_stored: false,
    };
    for (i, variable) in variables.iter().enumerate() {
        let (at, name, text) = (at.index(i), variable.name(), variable.expression());
        if name.trim().is_empty() {
            errs.required(&at.field("name"), "name is not specified");
        } else if !is_identifier(name) {
            errs.invalid(&at.field("name"), name, "must be a valid CEL identifier");
        }
        if text.trim().is_empty() {
            errs.required(&at.field("expression"), "expression is not specified");
        } else {
            session.declare((name, text), &environment, &at.field("expression"), errs);
        }
    }
    session
}

fn is_identifier(name: &str) -> bool {
    names::c_identifier(name).is_empty() && !RESERVED.contains(&name)
}

/// As tables show the kind of parameters.
pub(super) fn param_kind_cell(kind: Option<&ParamKind>) -> String {
    kind.map_or("<unset>".to_owned(), |kind| format!("{}/{}", kind.api_version(), kind.kind()))
}

/// The name of a policy that a binding binds; a declared rule sees to an empty one.
pub(super) fn check_policy_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    errs.optional_format(&at.field("policyName"), name, names::dns1123_subdomain);
}

/// Whether two lists of conditions, for the same kind of parameters, are the same.
pub(super) fn same<A: Lens + PartialEq>(new: &A, old: &A, fields: &[&str]) -> bool {
    fields.iter().all(|name| new.tree().get(name) == old.tree().get(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_is_not_named_again() {
        let told = |resources: &[&str]| {
            let mut errs = ErrorList::default();
            let resources: List<String> = resources.iter().copied().collect();
            check_resources(&resources, &FieldPath::Root.field("r"), &mut errs);
            errs.0.len()
        };
        assert_eq!(told(&["pods", "pods/status"]), 0);
        assert_eq!(told(&["pods/*", "pods/status"]), 1);
        assert_eq!(told(&["*/*", "pods"]), 1);
        assert_eq!(told(&["*", "pods"]), 1);
    }

    #[test]
    fn variables_are_identifiers() {
        assert!(is_identifier("a_1") && !is_identifier("1a") && !is_identifier("while"));
    }
}
