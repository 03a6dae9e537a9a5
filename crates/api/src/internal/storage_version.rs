//! apiserverinternal/v1alpha1: StorageVersion.

use std::collections::{BTreeMap, BTreeSet};

use macros::api;
use object::{Lens, List, ObjectMeta, Time, Value, names};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn, ValidateName, validate_finalizers,
};

use crate::{columns, rules::ValidateField};

/// The versions in which servers store a resource.
#[api]
pub struct StorageVersion {
    /// Standard object metadata: name, namespace, labels, annotations.
    #[api(required)]
    metadata: ObjectMeta,
    /// Nothing.
    #[api(no_omitempty, go_type = "v1alpha1.StorageVersionSpec")]
    spec: StorageVersionSpec,
    /// What each server says.
    #[api(no_omitempty)]
    status: StorageVersionStatus,
}

#[api]
pub struct StorageVersionStatus {
    /// What each server reads and writes.
    #[api(keys("apiServerID"))]
    storage_versions: List<ServerStorageVersion>,
    /// The version that all servers write, if they agree.
    common_encoding_version: Option<String>,
    /// What holds of the resource.
    #[api(keys("type"))]
    conditions: List<StorageVersionCondition>,
}

#[api]
pub struct ServerStorageVersion {
    /// The server.
    #[api(required, name = "apiServerID")]
    api_server_id: String,
    /// The version that it writes.
    #[api(required)]
    encoding_version: String,
    /// The versions that it reads.
    #[api(required, set)]
    decodable_versions: List<String>,
    /// The versions that it serves.
    #[api(set)]
    served_versions: List<String>,
}

#[api]
pub struct StorageVersionCondition {
    /// Type of the condition.
    #[api(go_type = "v1alpha1.StorageVersionConditionType")]
    type_: Must<String>,
    /// Whether it holds: True, False, Unknown.
    #[api(go_type = "v1alpha1.ConditionStatus")]
    status: Must<String>,
    /// The generation that was looked at.
    observed_generation: i64,
    /// When it last changed.
    last_transition_time: Time,
    /// Why, in a word.
    reason: Must<String>,
    /// Why, for people.
    #[api(required)]
    message: String,
}

#[api]
pub struct StorageVersionSpec {}

impl Kind for StorageVersion {
    const NAMES: ResourceNames = ResourceNames::new(
        "internal.apiserver.k8s.io",
        "v1alpha1",
        "StorageVersion",
        "storageversions",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] = &["internal.apiserver.k8s.io/v1alpha1"];
    const SCOPE: Scope = Scope::Cluster;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("StorageVersion")];

    const ANY_FINALIZER: bool = true;
    const NAME: ValidateName = wrong_name;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("CommonEncodingVersion", |this, _| {
            columns::text_or_unset(this.status().common_encoding_version().unwrap_or_default())
        }),
        TableColumn::text("StorageVersions", |this, _| {
            let versions = this.status().storage_versions().iter();
            let all: Vec<_> = versions
                .map(|it| format!("{}={}", it.api_server_id(), it.encoding_version()))
                .collect();
            columns::text_or_unset(&columns::first_three(&all))
        }),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        validate_finalizers(self.metadata(), errs);
    }

    fn validate_update(&self, _: &Self, _: &mut ErrorList) {}

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        self.status().check(&FieldPath::STATUS, errs);
    }
}

/// A group and a resource: `apps.deployments`.
fn wrong_name(name: &str, _prefix: bool) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let group = names::dns1123_subdomain(group).into_iter();
    let resource = names::dns1035_label(resource).into_iter();
    group
        .map(|wrong| format!("the group segment {wrong}"))
        .chain(resource.map(|wrong| format!("the resource segment {wrong}")))
        .collect()
}

impl StorageVersionStatus {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut servers = BTreeSet::new();
        at.field("storageVersions").for_each_item(self.storage_versions().iter(), |version, at| {
            errs.unique(&mut servers, &at.field("apiServerID"), version.api_server_id());
            version.check(at, errs);
        });
        self.check_common(&at.field("commonEncodingVersion"), errs);
        let mut types = BTreeMap::new();
        for (i, condition) in self.conditions().iter().enumerate() {
            // Upstream leaves `conditions` out of the path.
            let at = at.index(i);
            if let Some(first) = types.insert(condition.type_(), i) {
                let why = format!(
                    "the type of the condition is not unique, it also appears in \
                     conditions[{first}]"
                );
                errs.invalid(&at.field("type"), condition.type_(), why);
            }
            errs.qualified(&at.field("type"), condition.type_());
            errs.qualified(&at.field("status"), condition.status());
            errs.required_field(&at, "reason", condition.reason());
            errs.required_field(&at, "message", condition.message());
        }
    }

    /// The version that all servers write, if they agree, is said.
    fn check_common(&self, at: &FieldPath, errs: &mut ErrorList) {
        let versions =
            || self.storage_versions().iter().map(ServerStorageVersion::encoding_version);
        let common = versions().next().filter(|first| versions().all(|other| other == *first));
        match (common, self.common_encoding_version()) {
            (None, Some(said)) => {
                let why = "should be nil if servers do not agree on the same encoding version, or \
                           if there is no server reporting the supported versions yet";
                errs.invalid(at, said, why);
            }
            (Some(common), None) => {
                let why = format!("the common encoding version is {common}");
                errs.invalid(at, Value::Null, why);
            }
            (Some(common), Some(said)) if common != said => {
                errs.invalid(at, said, format!("the actual common encoding version is {common}"));
            }
            _ => {}
        }
    }
}

impl ServerStorageVersion {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.subdomain(&at.field("apiServerID"), self.api_server_id());
        check_version(&at.field("encodingVersion"), self.encoding_version(), errs);
        let decodable = self.decodable_versions();
        at.field("decodableVersions")
            .for_each_item(decodable.iter(), |it, at| check_version(at, it, errs));
        let reads = |version: &str| decodable.iter().any(|other| other == version);
        if !reads(self.encoding_version()) {
            let encoding = self.encoding_version();
            let why = format!("decodableVersions must include encodingVersion {encoding}");
            let bad = self.tree().get("decodableVersions").clone();
            errs.invalid(&at.field("decodableVersions"), bad, why);
        }
        at.field("servedVersions").for_each_item(self.served_versions().iter(), |version, at| {
            check_version(at, version, errs);
            if !reads(version) {
                let all: Vec<_> = decodable.iter().collect();
                let why = format!(
                    "individual served version : {version} must be included in \
                     decodableVersions : [{}]",
                    all.join(" ")
                );
                errs.invalid(at, version, why);
            }
        });
    }
}

fn check_version(at: &FieldPath, version: &str, errs: &mut ErrorList) {
    let wrong = wrong_version(version);
    if !wrong.is_empty() {
        errs.invalid(at, version, wrong.join(","));
    }
}

/// What is wrong with a version that may have a group in front.
fn wrong_version(text: &str) -> Vec<String> {
    let part = |name: &str, text: &str, rule: fn(&str) -> Vec<String>| match text {
        "" => vec![format!("{name} part: must be non-empty")],
        text => rule(text).into_iter().map(|wrong| format!("{name} part: {wrong}")).collect(),
    };
    match text.split('/').collect::<Vec<_>>()[..] {
        [version] => part("version", version, names::dns1035_label),
        [group, version] => {
            let mut wrong = part("group", group, names::dns1123_subdomain);
            wrong.extend(part("version", version, names::dns1035_label));
            wrong
        }
        _ => vec![
            "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric \
             characters or '-', start with an alphabetic character, and end with an alphanumeric \
             character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyVersion')"
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_group_and_a_resource() {
        assert!(wrong_name("apps.deployments", false).is_empty());
        assert_eq!(wrong_name("x", false).len(), 1);
        assert!(wrong_name("apps.Bad", false)[0].starts_with("the resource segment"));
    }

    #[test]
    fn versions_may_have_a_group() {
        assert!(wrong_version("apps/v1").is_empty() && wrong_version("v1").is_empty());
        assert_eq!(wrong_version("/v1"), ["group part: must be non-empty"]);
    }
}
