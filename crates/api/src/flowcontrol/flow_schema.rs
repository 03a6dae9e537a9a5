//! flowcontrol/v1: FlowSchema.

use macros::api;
use object::{Lens, List, ObjectMeta, Time, Value, from_json, names};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource, TableColumn, normalize,
};

use crate::{columns::NONE, rules::ValidateField, shown::format_go};

/// Which requests belong together, and at which level they are served.
#[api]
pub struct FlowSchema {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Which requests, and where they go.
    #[api(required)]
    spec: FlowSchemaSpec,
    /// What the server makes of it.
    status: FlowSchemaStatus,
}

#[api]
pub struct FlowSchemaSpec {
    /// The level that the requests are served at.
    priority_level_configuration: Must<PriorityLevelConfigurationReference>,
    /// Which schema counts where several match: the least.
    #[api(no_omitempty, default = 1000, unpublished_default)]
    matching_precedence: i32,
    /// How the requests are parted into flows.
    distinguisher_method: Option<FlowDistinguisherMethod>,
    /// The requests.
    rules: List<PolicyRulesWithSubjects>,
}

#[api]
pub struct FlowDistinguisherMethod {
    /// By what: ByUser, ByNamespace.
    #[api(go_type = "v1.FlowDistinguisherMethodType")]
    type_: Must<String>,
}

#[api]
pub struct PriorityLevelConfigurationReference {
    /// The level's name.
    name: Must<String>,
}

#[api]
pub struct PolicyRulesWithSubjects {
    /// Who asks.
    subjects: Must<List<Subject>>,
    /// For what resources.
    resource_rules: List<ResourcePolicyRule>,
    /// For what other paths.
    non_resource_rules: List<NonResourcePolicyRule>,
}

#[api]
pub struct Subject {
    /// Kind of the subject: User, Group or ServiceAccount.
    #[api(go_type = "v1.SubjectKind", discriminator)]
    kind: Must<String>,
    /// The user.
    #[api(union)]
    user: Option<UserSubject>,
    /// The group.
    #[api(union)]
    group: Option<GroupSubject>,
    /// The service account.
    #[api(union)]
    service_account: Option<ServiceAccountSubject>,
}

#[api]
pub struct UserSubject {
    /// The user's name, or *.
    name: Must<String>,
}

#[api]
pub struct GroupSubject {
    /// The group's name, or *.
    name: Must<String>,
}

#[api]
pub struct ServiceAccountSubject {
    /// The account's namespace.
    namespace: Must<String>,
    /// The account's name, or *.
    name: Must<String>,
}

#[api]
pub struct ResourcePolicyRule {
    /// The verbs, or *.
    #[api(set)]
    verbs: Must<List<String>>,
    /// The groups, or *.
    #[api(set)]
    api_groups: Must<List<String>>,
    /// The resources, or *.
    #[api(set)]
    resources: Must<List<String>>,
    /// Whether requests without a namespace match.
    cluster_scope: bool,
    /// The namespaces, or *.
    #[api(set, no_omitempty)]
    namespaces: List<String>,
}

#[api]
pub struct NonResourcePolicyRule {
    /// The verbs, or *.
    #[api(set)]
    verbs: Must<List<String>>,
    /// The paths; * may stand at the end.
    #[api(tag = 6, name = "nonResourceURLs", set)]
    non_resource_urls: Must<List<String>>,
}

#[api]
pub struct FlowSchemaStatus {
    /// What holds of the schema.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<FlowSchemaCondition>,
}

#[api]
pub struct FlowSchemaCondition {
    /// Type of the condition.
    #[api(required, go_type = "v1.FlowSchemaConditionType")]
    type_: String,
    /// Whether it holds: True, False, Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: String,
    /// When it last changed.
    last_transition_time: Time,
    /// Why, in a word.
    reason: String,
    /// Why, for people.
    message: String,
}

impl Kind for FlowSchema {
    const NAMES: ResourceNames =
        ResourceNames::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &[
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta2",
        "flowcontrol.apiserver.k8s.io/v1beta3",
    ];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_KEEPS: &'static [&'static str] = &["*"];
    const GENERATION: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("PriorityLevel", |flow, _| {
            flow.spec().priority_level_configuration().name().into()
        }),
        TableColumn::text("MatchingPrecedence", |flow, _| flow.spec().matching_precedence().into()),
        TableColumn::text("DistinguisherMethod", |flow, _| {
            flow.spec().distinguisher_method().map_or(NONE, FlowDistinguisherMethod::type_).into()
        }),
        TableColumn::AGE,
        TableColumn::text("MissingPL", |flow, _| {
            let dangling = flow.status().conditions().find(|it| it.type_() == "Dangling");
            dangling.map_or("?", FlowSchemaCondition::status).into()
        }),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("FlowSchema")];

    fn rank(&self) -> i64 {
        self.spec().matching_precedence().into()
    }

    fn validate(&self, errs: &mut ErrorList) {
        let (name, at) = (self.metadata().name(), FieldPath::SPEC);
        self.spec().check(name, &at, errs);
        if let Some((_, fixed)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
            check_fixed(name, self.spec(), fixed, errs);
        }
        self.validate_status(self, errs);
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        let types = self.status().conditions().iter().map(FlowSchemaCondition::type_);
        super::check_conditions(types, errs);
    }
}

/// The schemas that every server has, and what they say.
const FIXED: [(&str, &str); 2] = [
    (
        "exempt",
        r#"{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":1,"rules":[{
            "subjects":[{"kind":"Group","group":{"name":"system:masters"}}],
            "resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],
                "clusterScope":true,"namespaces":["*"]}],
            "nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#,
    ),
    (
        "catch-all",
        r#"{"priorityLevelConfiguration":{"name":"catch-all"},"matchingPrecedence":10000,
            "distinguisherMethod":{"type":"ByUser"},"rules":[{
            "subjects":[{"kind":"Group","group":{"name":"system:unauthenticated"}},
                {"kind":"Group","group":{"name":"system:authenticated"}}],
            "resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],
                "clusterScope":true,"namespaces":["*"]}],
            "nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}"#,
    ),
];

fn check_fixed(name: &str, spec: &FlowSchemaSpec, fixed: &str, errs: &mut ErrorList) {
    let mut fixed = from_json(fixed.as_bytes()).expect("written above");
    normalize(FlowSchemaSpec::SHAPE, &mut fixed);
    if *spec.tree() != fixed {
        let shown = format_go(spec);
        let why = format!("spec of '{name}' must equal the fixed value");
        errs.invalid_formatted(&FieldPath::SPEC, shown, why);
    }
}

const MAX_PRECEDENCE: i32 = 10_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

impl FlowSchemaSpec {
    fn check(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        let (precedence, here) = (self.matching_precedence(), at.field("matchingPrecedence"));
        if precedence <= 0 {
            errs.invalid(&here, precedence, "must be a positive value");
        }
        if precedence > MAX_PRECEDENCE {
            errs.invalid(&here, precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        if precedence == 1 && name != "exempt" {
            let why = "only the schema named 'exempt' may have matchingPrecedence 1";
            errs.invalid(&here, precedence, why);
        }
        if let Some(method) = self.distinguisher_method() {
            let (at, known) = (at.field("distinguisherMethod"), ["ByNamespace", "ByUser"]);
            if !known.contains(&method.type_()) {
                let shown = format_go(method);
                errs.not_supported_formatted(&at.field("type"), shown, &known);
            }
        }
        let here = at.field("priorityLevelConfiguration");
        match self.priority_level_configuration().name() {
            "" => errs.required(&here.field("name"), "must reference a priority level"),
            name => errs.subdomain(&here.field("name"), name),
        }
        at.field("rules").for_each_item(self.rules().iter(), |rule, at| rule.check(at, errs));
    }
}

impl PolicyRulesWithSubjects {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.subjects().is_empty() {
            errs.required(&at.field("subjects"), "subjects must contain at least one value");
        }
        at.field("subjects")
            .for_each_item(self.subjects().iter(), |subject, at| subject.check(at, errs));
        if self.resource_rules().is_empty() && self.non_resource_rules().is_empty() {
            let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errs.required(at, why);
        }
        at.field("resourceRules")
            .for_each_item(self.resource_rules().iter(), |it, at| it.check(at, errs));
        for (i, rule) in self.non_resource_rules().iter().enumerate() {
            rule.check(&at.field("nonResourceRules").index(i), errs);
        }
    }
}

impl Subject {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
        if !kinds.iter().any(|(kind, _)| *kind == self.kind()) {
            let known = ["Group", "ServiceAccount", "User"];
            return errs.not_supported(&at.field("kind"), self.kind(), &known);
        }
        for (kind, name) in kinds {
            let (is_set, wanted) = (!self.tree().get(name).is_null(), kind == self.kind());
            if wanted && !is_set {
                let why = format!("{name} is required when subject kind is '{kind}'");
                errs.required(&at.field(name), why);
            } else if is_set && !wanted {
                let why = format!("{name} is forbidden when subject kind is not '{kind}'");
                errs.forbidden(&at.field(name), why);
            }
        }
        match self.kind() {
            "User" => {
                at.if_present("user", self.user(), |user, at| {
                    errs.required_field(at, "name", user.name());
                });
            }
            "Group" => {
                at.if_present("group", self.group(), |group, at| {
                    errs.required_field(at, "name", group.name());
                });
            }
            _ => {
                at.if_present("serviceAccount", self.service_account(), |it, at| {
                    it.check(at, errs);
                });
            }
        }
    }
}

impl ServiceAccountSubject {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match self.name() {
            "" => errs.required(&at.field("name"), ""),
            "*" => {}
            name => errs.subdomain(&at.field("name"), name),
        }
        match self.namespace() {
            "" => {
                let why = "must specify namespace for service account";
                errs.required(&at.field("namespace"), why);
            }
            namespace => errs.label(&at.field("namespace"), namespace),
        }
    }
}

impl ResourcePolicyRule {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_verbs(self.verbs(), at, errs);
        for (name, list, one, others) in [
            ("apiGroups", self.api_groups(), "api group", "api groups"),
            ("resources", self.resources(), "resource", "resources"),
        ] {
            if list.is_empty() {
                let why = format!("resource rules must supply at least one {one}");
                errs.required(&at.field(name), why);
            }
            alone(list, &at.field(name), others, errs);
        }
        let at = at.field("namespaces");
        if self.namespaces().is_empty() && !self.cluster_scope() {
            let why =
                "resource rules that are not cluster scoped must supply at least one namespace";
            errs.required(&at, why);
        } else if !alone(self.namespaces(), &at, "namespaces", errs) {
            for (i, namespace) in self.namespaces().iter().enumerate() {
                for wrong in names::dns1123_label(namespace) {
                    let why = format!(
                        "each member of this list must be '*' or a DNS-1123 label; {wrong}"
                    );
                    errs.invalid(&at.index(i), namespace, why);
                }
            }
        }
    }
}

impl NonResourcePolicyRule {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_verbs(self.verbs(), at, errs);
        let (urls, at) = (self.non_resource_urls(), at.field("nonResourceURLs"));
        if urls.is_empty() {
            errs.required(&at, "nonResourceURLs must contain at least one value");
        } else if !alone(urls, &at, "non-resource URLs", errs) {
            for (i, url) in urls.iter().enumerate() {
                if let Some(why) = wrong_with_path(url) {
                    errs.invalid(&at.index(i), url, why);
                }
            }
        }
    }
}

/// Whether `*` is in the list, where it must be alone.
fn alone(list: &List<String>, at: &FieldPath, others: &str, errs: &mut ErrorList) -> bool {
    let all = list.iter().any(|item| item == "*");
    if all && list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {others}");
        errs.invalid(at, Value::from(list.clone()), why);
    }
    all
}

fn check_verbs(verbs: &List<String>, at: &FieldPath, errs: &mut ErrorList) {
    let at = at.field("verbs");
    if verbs.is_empty() {
        errs.required(&at, "verbs must contain at least one value");
    } else if !alone(verbs, &at, "verbs", errs) && !verbs.iter().all(|it| VERBS.contains(&it)) {
        errs.not_supported(&at, Value::from(verbs.clone()), &VERBS);
    }
}

fn wrong_with_path(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        path if !path.starts_with('/') => Some("must start with slash"),
        path if path.contains(' ') => Some("must not contain white-space"),
        path if path.contains("//") => Some("must not contain double slash"),
        path => match path.matches('*').count() {
            0 => None,
            1 if path.ends_with("/*") => None,
            _ => Some("wildcard can only do suffix matching"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn only_the_exempt_schema_comes_first() {
        let flow: FlowSchema = created_from_json(
            r#"{"metadata":{"name":"f"},"spec":{"matchingPrecedence":1,
                "priorityLevelConfiguration":{"name":"p"}}}"#,
        );
        let wrong = create_errors(&flow);
        assert_eq!(
            wrong,
            ["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have \
              matchingPrecedence 1"]
        );
    }

    #[test]
    fn the_fixed_schemas_stay_as_they_are() {
        let exempt = format!(r#"{{"metadata":{{"name":"exempt"}},"spec":{}}}"#, FIXED[0].1);
        assert!(create_errors(&created_from_json::<FlowSchema>(&exempt)).is_empty());
        let changed = exempt.replace("system:masters", "others");
        assert_eq!(create_errors(&created_from_json::<FlowSchema>(&changed)).len(), 1);
    }
}
