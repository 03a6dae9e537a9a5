//! apiregistration/v1: APIService.

use macros::api;
use object::{Bytes, Lens, List, ObjectMeta, Time, names};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, StorageConfig, Subresource, TableColumn,
    ValidateName, WriteContext, validate_object_meta_repeated,
};

use crate::{admissionregistration::webhooks::check_port, rules::ValidateField};

/// Which server serves a group and version.
#[api]
pub struct APIService {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is served, and where.
    spec: APIServiceSpec,
    /// Whether it can be reached.
    status: APIServiceStatus,
}

#[api]
pub struct APIServiceSpec {
    /// The service that serves it; absent: this server.
    service: Option<ServiceReference>,
    /// The group.
    group: String,
    /// The version.
    version: String,
    /// Whether its certificate is not looked at.
    #[api(name = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
    /// The certificates that vouch for it, as PEM.
    #[api(atomic)]
    ca_bundle: Bytes,
    /// How the group ranks among others.
    #[api(tag = 7)]
    group_priority_minimum: Must<i32>,
    /// How the version ranks in its group.
    version_priority: Must<i32>,
}

#[api]
pub struct ServiceReference {
    /// The service's namespace.
    namespace: String,
    /// The service's name.
    name: String,
    /// The service's port.
    #[api(default = 443, unpublished_default)]
    port: Option<i32>,
}

#[api]
pub struct APIServiceStatus {
    /// What holds of the service.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<APIServiceCondition>,
}

#[api]
pub struct APIServiceCondition {
    /// Type of the condition.
    #[api(go_type = "v1.APIServiceConditionType")]
    type_: Must<String>,
    /// Whether it holds: True, False, Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When it last changed.
    last_transition_time: Time,
    /// Why, in a word.
    reason: String,
    /// Why, for people.
    message: String,
}

impl Kind for APIService {
    const NAMES: ResourceNames =
        ResourceNames::new("apiregistration.k8s.io", "v1", "APIService", "apiservices")
            .categories(&["api-extensions"]);
    const SEPARATE_SERVER: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apiregistration.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = StorageConfig::json("apiregistration.k8s.io/apiservices", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const STATUS_KEEPS: &'static [&'static str] =
        &["annotations", "finalizers", "labels", "ownerReferences"];
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("APIService").without_table()];

    const NAME: ValidateName = |_, _| Vec::new(); // it follows from what is served
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Service", |this, _| match this.spec().service() {
            Some(service) => format!("{}/{}", service.namespace(), service.name()).into(),
            None => "Local".into(),
        }),
        TableColumn::text("Available", |this, _| this.status().available().into()),
        TableColumn::AGE,
    ];

    fn sign(&mut self, old: Option<&Self>, by: &WriteContext) {
        if old.is_none() && self.spec().service().is_none() {
            let available = APIServiceCondition::new()
                .with_type("Available")
                .with_status("True")
                .with_last_transition_time(Time::format(by.now))
                .with_reason("Local")
                .with_message("Local APIServices are always available");
            self.status_mut().conditions_mut().push(available);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check_name(errs);
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        validate_object_meta_repeated(self.tree(), old.tree(), true, errs);
        self.validate(errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        validate_object_meta_repeated(self.tree(), old.tree(), false, errs);
        let at = FieldPath::STATUS.field("conditions");
        for (i, condition) in self.status().conditions().iter().enumerate() {
            let known = ["True", "False", "Unknown"];
            errs.one_of(&at.index(i).field("status"), condition.status(), &known);
        }
    }
}

const MAX_GROUP: i32 = 20_000;
const MAX_VERSION: i32 = 1_000;

impl APIService {
    fn check_name(&self, errs: &mut ErrorList) {
        let wanted = format!("{}.{}", self.spec().version(), self.spec().group());
        let wrong = |name: &str| match names::path_segment_name(name) {
            wrong if !wrong.is_empty() => wrong,
            _ if name == wanted => Vec::new(),
            _ => vec![format!("must be `spec.version+\".\"+spec.group`: {wanted:?}")],
        };
        let meta = self.metadata();
        if !meta.generate_name().is_empty() {
            let given = meta.generate_name();
            errs.invalid_each(&FieldPath::METADATA.field("generateName"), given, wrong(given));
        }
        if !meta.name().is_empty() {
            errs.invalid_each(&FieldPath::METADATA.field("name"), meta.name(), wrong(meta.name()));
        }
    }
}

impl APIServiceSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match self.group() {
            "" if self.version() != "v1" => {
                let why = "only v1 may have an empty group and it better be legacy kube";
                errs.required(&at.field("group"), why);
            }
            "" => {}
            group => errs.subdomain(&at.field("group"), group),
        }
        let wrong = names::dns1035_label(self.version());
        errs.invalid_each(&at.field("version"), self.version(), wrong);
        for (name, n, max) in [
            ("groupPriorityMinimum", self.group_priority_minimum(), MAX_GROUP),
            ("versionPriority", self.version_priority(), MAX_VERSION),
        ] {
            if !(1..=max).contains(&n) {
                errs.invalid(&at.field(name), n, format!("must be positive and less than {max}"));
            }
        }
        let bundle = Bytes::decode(self.ca_bundle()).unwrap_or_default();
        if let Some(service) = self.service() {
            service.check(&at.field("service"), errs);
            if self.insecure_skip_tls_verify() && !bundle.is_empty() {
                let why = "may not be true if caBundle is present";
                errs.invalid(&at.field("insecureSkipTLSVerify"), true, why);
            }
        } else {
            if !bundle.is_empty() {
                let bad = format!("{} bytes", bundle.len());
                let why = "local APIServices may not have a caBundle";
                errs.invalid(&at.field("caBundle"), bad, why);
            }
            if self.insecure_skip_tls_verify() {
                let why = "local APIServices may not have insecureSkipTLSVerify";
                errs.invalid(&at.field("insecureSkipTLSVerify"), true, why);
            }
        }
    }
}

impl ServiceReference {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "namespace", self.namespace());
        errs.required_field(at, "name", self.name());
        check_port(self.port(), &at.field("port"), errs);
    }
}

impl APIServiceStatus {
    fn available(&self) -> String {
        let Some(it) = self.conditions().find(|condition| condition.type_() == "Available") else {
            return "Unknown".to_owned();
        };
        match (it.status(), it.reason()) {
            ("True", _) | (_, "") => it.status().to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn is_named_after_what_it_serves() {
        let service: APIService = created_from_json(
            r#"{"metadata":{"name":"x"},"spec":{"group":"a.example.com","version":"v1",
                "groupPriorityMinimum":1,"versionPriority":1}}"#,
        );
        let why = "must be `spec.version+\".\"+spec.group`: \"v1.a.example.com\"";
        assert_eq!(
            create_errors(&service),
            [format!("metadata.name: Invalid value: \"x\": {why}")]
        );
    }
}
