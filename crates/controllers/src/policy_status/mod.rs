//! ValidatingAdmissionPolicy status controller: type checks the CEL expressions of policies against
//! the kinds that they match, and reports warnings in the status.

mod types;

use std::{collections::BTreeSet, sync::Arc};

use api::{
    admissionregistration::ValidatingAdmissionPolicy, apiextensions::CustomResourceDefinition,
};
use cel::{
    DeclType, Environment,
    policy::{Expected, Expression, VariableScope, Variables},
};
use client::{Error, Patch};
use object::{Lens, NamespacedName, Value};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};

use crate::Config;

const MANAGER: &str = "validatingadmissionpolicy-status";
/// Maximum number of kinds that are checked per policy.
const MAX_TYPES: usize = 10;

pub(crate) fn start(cx: &Context, _: &Config) {
    let checker = TypeChecker { policies: cx.cached_api(), definitions: cx.cached_api() };
    Controller::new(MANAGER, cx, checker).start();
}

/// Reconciler of ValidatingAdmissionPolicies.
#[derive(Debug)]
struct TypeChecker {
    policies: CachedApi<ValidatingAdmissionPolicy>,
    definitions: CachedApi<CustomResourceDefinition>,
}

/// Group, version and kind; the order in which warnings are sorted.
type Name = (String, String, String);

impl Reconcile for TypeChecker {
    type Kind = ValidatingAdmissionPolicy;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        policy: Option<ValidatingAdmissionPolicy>,
    ) -> Result<Requeue, Error> {
        let Some(policy) = policy else { return Ok(Requeue::OnChange) };
        let tree = policy.tree();
        let generation = tree.get("metadata").get("generation").as_i64().unwrap_or_default();
        let seen = tree.get("status").get("observedGeneration").as_i64().unwrap_or_default();
        if generation <= seen {
            return Ok(Requeue::OnChange);
        }
        let warnings = warnings(tree.get("spec"), &self.kinds(tree.get("spec")), |name| {
            let is = |group: &str, version: &str, kind: &str, _: &str| {
                (group, version, kind) == (&name.0, &name.1, &name.2)
            };
            self.nodes(&is).into_iter().next().map(|(_, node)| node)
        });
        let mut status = Value::object();
        status["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        status["kind"] = "ValidatingAdmissionPolicy".into();
        status["metadata"]["name"] = key.name.as_str().into();
        status["status"]["observedGeneration"] = generation.into();
        status["status"]["typeChecking"] = Value::object();
        if !warnings.is_empty() {
            status["status"]["typeChecking"]["expressionWarnings"] = warnings.into_iter().collect();
        }
        let patch = Patch::Apply { object: status, manager: MANAGER.to_owned(), force: true };
        self.policies.patch_status(key, &patch).await?;
        Ok(Requeue::OnChange)
    }
}

impl TypeChecker {
    /// The kinds that the rules of a policy name, with their types. Rules with wildcards are
    /// skipped.
    fn kinds(&self, spec: &Value) -> Vec<(Name, Arc<DeclType>)> {
        let mut all: Vec<(Name, Arc<DeclType>)> = Vec::new();
        let mut seen = BTreeSet::new();
        for rule in spec.get("matchConstraints").get("resourceRules").items() {
            let list = |name: &str| -> Vec<String> {
                let items = rule.get(name).items().iter().filter_map(Value::as_str);
                items.map(str::to_owned).collect()
            };
            let (groups, versions) = (list("apiGroups"), list("apiVersions"));
            if groups.iter().chain(&versions).any(|name| name.contains('*')) {
                continue;
            }
            for resource in list("resources") {
                if resource.contains(['*', '/']) {
                    continue;
                }
                for (group, version) in pairs(&groups, &versions) {
                    // An empty group, the name of the core group, matches every group here.
                    let is = |own: &str, at: &str, _: &str, plural: &str| {
                        (group.is_empty() || own == group) && (at, plural) == (version, &*resource)
                    };
                    let new = |(name, _): &(Name, _)| seen.insert(name.clone());
                    all.extend(self.nodes(&is).into_iter().filter(new));
                }
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all.truncate(MAX_TYPES);
        all
    }

    /// The types of the kinds for which `is` holds, built-in and custom. `is` gets group, version,
    /// kind and plural.
    fn nodes(&self, is: &dyn Fn(&str, &str, &str, &str) -> bool) -> Vec<(Name, Arc<DeclType>)> {
        let name = |group: &str, version: &str, kind: &str| {
            (group.to_owned(), version.to_owned(), kind.to_owned())
        };
        let mut all = Vec::new();
        for kind in api::builtin_resources() {
            let names = &kind.names;
            if is(names.group, names.version, names.kind, names.plural) {
                let node = types::of_shape(&kind.schema);
                all.push((name(names.group, names.version, names.kind), node));
            }
        }
        for definition in self.definitions.all() {
            let spec = definition.tree().get("spec");
            let text =
                |tree: &Value, field: &str| tree.get(field).as_str().unwrap_or_default().to_owned();
            let (group, names) = (text(spec, "group"), spec.get("names"));
            for version in spec.get("versions").items() {
                let (kind, at) = (text(names, "kind"), text(version, "name"));
                if is(&group, &at, &kind, &text(names, "plural")) {
                    let schema = version.get("schema").get("openAPIV3Schema");
                    all.push((name(&group, &at, &kind), types::of_schema(schema)));
                }
            }
        }
        all
    }
}

fn pairs<'a>(
    groups: &'a [String],
    versions: &'a [String],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    groups
        .iter()
        .flat_map(|group| versions.iter().map(|version| (group.as_str(), version.as_str())))
}

/// The type checking warnings of a policy's expressions.
fn warnings(
    spec: &Value,
    kinds: &[(Name, Arc<DeclType>)],
    node: impl Fn(&Name) -> Option<Arc<DeclType>>,
) -> Vec<Value> {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let parameters = spec.get("paramKind");
    let params = parameters.is_object().then(|| {
        let version = text(parameters, "apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        node(&(group.to_owned(), version.to_owned(), text(parameters, "kind")))
    });
    let mut all = Vec::new();
    for (at, validation) in spec.get("validations").items().iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = text(validation, field);
            if source.is_empty() {
                continue;
            }
            let said: Vec<String> = kinds
                .iter()
                .filter_map(|kind| type_error(spec, &source, kind, params.as_ref()))
                .collect();
            if !said.is_empty() {
                let mut warning = Value::object();
                warning["fieldRef"] = format!("spec.validations[{at}].{field}").into();
                warning["warning"] = said.join("\n").into();
                all.push(warning);
            }
        }
    }
    all
}

fn type_error(
    spec: &Value,
    source: &str,
    ((group, version, kind), object): &(Name, Arc<DeclType>),
    params: Option<&Option<Arc<DeclType>>>,
) -> Option<String> {
    let scope = VariableScope {
        params: params.is_some(),
        authorizer: true,
        mutation: false,
        variables: !spec.get("variables").items().is_empty(),
    };
    let params = params.and_then(Option::as_ref);
    let mut types = Variables::default();
    for variable in spec.get("variables").items() {
        let text = |name: &str| variable.get(name).as_str().unwrap_or_default();
        let environment: Arc<Environment> = scope.typed(&types, Some(object), params);
        let compiled = Expression::compile(&environment, text("expression"), Expected::Anything);
        types.declare(text("name"), compiled.ty());
    }
    let wrong = scope.typed(&types, Some(object), params).compile(source).err()?;
    Some(format!("{group}/{version}, Kind={kind}: {wrong}\n"))
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn check(spec: &str) -> Vec<Value> {
        check_of("Deployment", spec)
    }

    fn check_of(kind: &str, spec: &str) -> Vec<Value> {
        let spec = from_json(spec.as_bytes()).unwrap();
        let kind = api::builtin_resources().into_iter().find(|own| own.names.kind == kind).unwrap();
        let node = types::of_shape(&kind.schema);
        let [group, version, kind] = [kind.names.group, kind.names.version, kind.names.kind];
        let name = (group.to_owned(), version.to_owned(), kind.to_owned());
        warnings(&spec, &[(name, node)], |_| None)
    }

    #[test]
    fn fields_that_are_not_there_are_told() {
        let said = check(
            r#"{"validations":[{"expression":"object.spec.replicas > 1"},
            {"expression":"object.spec.replicas > '1'"},
            {"expression":"true","messageExpression":"object.foo"}]}"#,
        );
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[0]["fieldRef"].as_str(), Some("spec.validations[1].expression"));
        let text = said[0]["warning"].as_str().unwrap();
        assert!(
            text.starts_with(
                "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload"
            ),
            "{text}"
        );
        assert_eq!(said[1]["fieldRef"].as_str(), Some("spec.validations[2].messageExpression"));
        assert!(said[1]["warning"].as_str().unwrap().contains("undefined field 'foo'"));
    }

    #[test]
    fn what_has_no_type_cannot_be_named() {
        let said = check(
            r#"{"validations":[
            {"expression":"object.spec.template.spec.overhead['cpu'] == '1'"},
            {"expression":"object.spec.template.spec.volumes[0].emptyDir.sizeLimit == '1'"},
            {"expression":"object.metadata.managedFields[0].fieldsV1.x == 1"},
            {"expression":"object.spec.strategy.rollingUpdate.maxSurge == '1'"}]}"#,
        );
        unknown(&said, &["overhead", "sizeLimit", "x"]);
        let schema = "object.spec.versions[0].schema.openAPIV3Schema";
        let said = ["properties['a'].type == 'x'", "default == 1", "items.type == 'x'"];
        let said = said.map(|field| format!(r#"{{"expression":"{schema}.{field}"}}"#)).join(",");
        let said = check_of("CustomResourceDefinition", &format!(r#"{{"validations":[{said}]}}"#));
        unknown(&said, &["type", "default", "items"]);
    }

    fn unknown(said: &[Value], fields: &[&str]) {
        let said: Vec<_> = said.iter().filter_map(|one| one["warning"].as_str()).collect();
        assert_eq!(said.len(), fields.len(), "{said:?}");
        for (said, field) in said.iter().zip(fields) {
            assert!(said.contains(&format!("undefined field '{field}'")), "{said}");
        }
    }

    #[test]
    fn variables_have_the_types_of_their_expressions() {
        let said = check(
            r#"{"variables":[{"name":"n","expression":"object.spec.replicas"}],
            "validations":[{"expression":"variables.n + 1 > 2"},{"expression":"variables.n + 'a' == ''"}]}"#,
        );
        assert_eq!(said.len(), 1, "{said:?}");
    }
}
