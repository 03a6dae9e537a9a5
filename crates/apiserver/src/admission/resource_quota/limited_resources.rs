//! `limitedResources` of the plugin's configuration: resources that may be used only where a quota
//! covers them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use object::{Text, Value};
use schema::{ErrorList, FieldPath};
use server::AdmissionAttributes;

use super::{scope, usage::ResourceList};
use crate::structured::{aggregate, strict, text, texts};

const VERSIONS: &[(&str, &str)] = &[
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// One limited resource: which of its quota resources (`matchContains`) and scopes are limited.
#[derive(Clone, Debug)]
pub(super) struct LimitedResource {
    group: String,
    resource: String,
    contains: Vec<String>,
    scopes: Value,
}

/// Reads all limited resources of a configuration.
pub(super) fn read(config: &Value) -> Result<Vec<LimitedResource>> {
    if config.is_null() {
        return Ok(Vec::new());
    }
    let said = (text(config, "apiVersion"), text(config, "kind"));
    ensure!(VERSIONS.contains(&said), "ResourceQuota: a ResourceQuotaConfiguration is expected");
    let mut errors = ErrorList::default();
    strict(config, &FieldPath::Root, &["apiVersion", "kind", "limitedResources"], &mut errors);
    let (path, mut all) = (FieldPath::Root.field("limitedResources"), Vec::new());
    for (at, limited) in config.get("limitedResources").items().iter().enumerate() {
        let path = path.index(at);
        let fields = ["apiGroup", "resource", "matchContains", "matchScopes"];
        strict(limited, &path, &fields, &mut errors);
        if text(limited, "resource").is_empty() {
            errors.required(&path.field("resource"), "");
        }
        all.push(LimitedResource {
            group: text(limited, "apiGroup").to_owned(),
            resource: text(limited, "resource").to_owned(),
            contains: texts(limited.get("matchContains")),
            scopes: limited.get("matchScopes").clone(),
        });
    }
    ensure!(errors.is_empty(), aggregate(&errors));
    Ok(all)
}

/// The resource names used by the object that a quota must cover.
pub(super) fn amounts(
    all: &[LimitedResource],
    admission: &AdmissionAttributes,
    used: &ResourceList,
) -> BTreeSet<Text> {
    let names = &admission.served.definition.names;
    let own = |own: &&LimitedResource| own.group == names.group && own.resource == names.plural;
    let parts: Vec<&String> = all.iter().filter(own).flat_map(|own| &own.contains).collect();
    let limited = |name: &&Text| parts.iter().any(|part| name.contains(part.as_str()));
    let used = used.iter().filter(|(_, amount)| amount.sign() > 0).map(|(name, _)| name);
    used.filter(limited).cloned().collect()
}

/// The scopes of the object that quotas must cover and do not, formatted for the message; `None` if
/// there are none.
pub(super) fn uncovered_scopes(
    all: &[LimitedResource],
    admission: &AdmissionAttributes,
    covered: &BTreeSet<String>,
) -> Option<String> {
    let terms = all.iter().flat_map(|own| own.scopes.items());
    let terms = terms.filter(|term| scope::selects_object(admission, &admission.object, term));
    let open = terms.filter(|term| !covered.contains(text(term, "scopeName")));
    let open: Vec<String> = open.map(shown).collect();
    (!open.is_empty()).then(|| format!("[{}]", open.join(" ")))
}

fn shown(term: &Value) -> String {
    let values = texts(term.get("values")).join(" ");
    format!("{{{} {} [{values}]}}", text(term, "scopeName"), text(term, "operator"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_resources() {
        let config = |rest: &str| {
            let head =
                r#""apiVersion":"apiserver.config.k8s.io/v1","kind":"ResourceQuotaConfiguration""#;
            let json = format!(r#"{{{head},"limitedResources":[{rest}]}}"#);
            read(&object::from_json(json.as_bytes()).unwrap())
        };
        let term = r#"{"scopeName":"PriorityClass","operator":"In","values":["a","b"]}"#;
        let read = config(&format!(r#"{{"resource":"pods","matchScopes":[{term}]}}"#)).unwrap();
        assert_eq!(shown(&read[0].scopes.items()[0]), "{PriorityClass In [a b]}");
        let wrong = config(r#"{"matchContains":["x"]}"#).unwrap_err().to_string();
        assert!(wrong.contains("limitedResources[0].resource: Required value"), "{wrong}");
        assert!(config(r#"{"resource":"pods","nope":1}"#).is_err());
    }
}
