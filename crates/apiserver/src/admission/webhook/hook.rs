//! The configured webhooks, and which of them match a request.

use object::{Object, Status, Text, Value, View};
use server::{AdmissionAttributes, ServedResource};

use super::{WebhookMatchConditions, review};
use crate::admission::{
    all, is_own_write,
    manifests::ManifestDir,
    matching::{matches_selectors, matching_version},
    policy::EXCLUDED,
};

/// One webhook of one configuration.
#[derive(Clone, Debug)]
pub(super) struct Webhook {
    /// Unique among all webhooks.
    pub(super) id: Text,
    pub(super) name: String,
    pub(super) configuration: String,
    pub(super) tree: Value,
}

/// The version of the resource in which the webhook gets the object.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) served: ServedResource,
}

/// All webhooks in the order in which they are called: those from files, then those in the API,
/// each sorted by the name of the configuration.
pub(super) fn hooks(
    admission: &AdmissionAttributes,
    (kind, plural): (&str, &str),
    files: Option<&ManifestDir>,
) -> Result<Vec<Webhook>, Status> {
    const GROUP: &str = "admissionregistration.k8s.io";
    let names = &admission.served.definition.names;
    if EXCLUDED.contains(&names.plural) || is_own_write(admission) {
        return Ok(Vec::new());
    }
    let mut configurations = files.map_or_else(Vec::new, |files| files.objects(kind));
    // Webhooks in the API are not called for the configurations themselves, so that nobody is
    // locked out of them.
    if names.group != GROUP {
        configurations.extend(all(admission, GROUP, plural, "")?);
    }
    let mut hooks = Vec::new();
    for configuration in configurations {
        let meta = Object::view(&configuration.object).metadata();
        for (at, tree) in configuration.object.get("webhooks").items().iter().enumerate() {
            let name = tree.get("name").as_str().unwrap_or_default().to_owned();
            let id = format!("{}/{at}/{name}", meta.name()).into();
            let configuration = meta.name().to_owned();
            hooks.push(Webhook { id, name, configuration, tree: tree.clone() });
        }
    }
    Ok(hooks)
}

impl Webhook {
    /// Whether a field has this value.
    pub(super) fn is(&self, field: &str, value: &str) -> bool {
        self.tree.get(field).as_str() == Some(value)
    }

    /// Whether the webhook is called for this request, and in which version; `None` if it does not
    /// match.
    pub(super) async fn matches(
        &self,
        admission: &AdmissionAttributes<'_>,
        conditions: &WebhookMatchConditions,
    ) -> Result<Option<Invocation>, Status> {
        if !matches_selectors(&self.tree, admission)? {
            return Ok(None);
        }
        let equivalent = self.is("matchPolicy", "Equivalent");
        let rules = self.tree.get("rules").items();
        let Some(served) = matching_version(rules, equivalent, admission) else { return Ok(None) };
        let invocation = Invocation { served };
        if !self.tree.get("matchConditions").items().is_empty() {
            let (_, review) = review::request(admission, &invocation, review::ReviewVersion::V1);
            let matched = conditions.matches(&self.tree, admission, review.get("request")).await;
            if !matched.map_err(|why| admission.forbidden(&why))? {
                return Ok(None);
            }
        }
        Ok(Some(invocation))
    }
}
