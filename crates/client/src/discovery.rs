//! API discovery, and mapping of names to resources.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header::ACCEPT};
use object::{Text, Value};
use tokio::time::timeout;

use crate::{ApiResource, Client, Error, codec};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource as described by discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredResource {
    pub resource: ApiResource,
    pub singular: Text,
    pub short: Vec<Text>,
    pub categories: Vec<Text>,
    pub verbs: Vec<Text>,
    pub subresources: Vec<Text>,
    /// Whether this is the group's preferred version of the resource.
    pub preferred: bool,
}

/// Maps names to resources. Core first, then groups and versions in the server's order.
#[derive(Clone, Debug, Default)]
pub struct RestMapper {
    pub found: Vec<DiscoveredResource>,
    /// Group versions whose aggregated API server does not respond (stale discovery): there may be more resources than
    /// were found.
    pub stale: Vec<Text>,
}

impl Client {
    pub async fn discover(&self) -> Result<RestMapper, Error> {
        let mut mapper = RestMapper::default();
        for path in ["/api", "/apis"] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(AGGREGATED));
            let answer = async {
                let answer = self.request(Method::GET, path, headers, Bytes::new()).await?;
                answer.error_for_status().await?.bytes().await
            };
            let bytes = timeout(self.config().timeout, answer).await;
            let bytes = bytes.map_err(|_| Error::unavailable("no answer in time"))??;
            let tree = codec::decode(&bytes)?;
            if tree["kind"].as_str() != Some("APIGroupDiscoveryList") {
                return Err(Error::Decode("the server has no aggregated discovery".into()));
            }
            tree["items"].items().iter().for_each(|group| mapper.read_group(group));
        }
        Ok(mapper)
    }
}

impl RestMapper {
    /// The resource that a user means: plural, singular, short name or kind, alone, with group (`deployments.apps`), or
    /// with version and group (`deployments.v1.apps`).
    pub fn resource_for(&self, name: &str) -> Option<&DiscoveredResource> {
        let name = name.to_ascii_lowercase();
        if let Some(found) = self.pick(|found| found.matches_name(&name)) {
            return Some(found);
        }
        let (first, rest) = name.split_once('.')?;
        if let Some(found) = self.pick(|f| f.matches_name(first) && f.resource.group == rest) {
            return Some(found);
        }
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        self.found.iter().find(|found| {
            let resource = &found.resource;
            found.matches_name(first) && resource.version == version && resource.group == group
        })
    }

    /// The resource of objects with this `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.found.iter().find(|found| {
            found.resource.kind == kind && found.resource.api_version() == api_version
        })
    }

    /// The resource of a kind in the server's preferred version.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.pick(|found| found.resource.group == group && found.resource.kind == kind)
    }

    /// Upstream's error message if discovery is incomplete.
    pub fn incomplete(&self) -> Option<String> {
        let each = |stale: &Text| format!("{stale}: stale GroupVersion discovery: {stale}");
        let each: Vec<String> = self.stale.iter().map(each).collect();
        let what = "unable to retrieve the complete list of server APIs";
        (!each.is_empty()).then(|| format!("{what}: {}", each.join(", ")))
    }

    /// All resources in a category, as for `kubectl get CATEGORY`.
    pub fn category(&self, name: &str) -> Vec<&DiscoveredResource> {
        let named = self.found.iter().filter(|found| found.preferred);
        named.filter(|found| found.categories.iter().any(|category| category == name)).collect()
    }

    /// Reads a group. The preferred version of a resource is the first that has it, which may not be the group's first.
    fn read_group(&mut self, group: &Value) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        let begin = self.found.len();
        for version in group["versions"].items() {
            let label = version["version"].as_str().unwrap_or_default();
            if version["freshness"].as_str() == Some("Stale") {
                self.stale.push(format!("{name}/{label}").into());
            }
            for tree in version["resources"].items() {
                let mut new = read_resource(name, label, tree);
                let known = |one: &DiscoveredResource| one.resource.plural == new.resource.plural;
                new.preferred = !self.found.iter().skip(begin).any(known);
                self.found.push(new);
            }
        }
    }

    fn pick(&self, is: impl Fn(&DiscoveredResource) -> bool) -> Option<&DiscoveredResource> {
        let preferred = self.found.iter().find(|found| found.preferred && is(found));
        preferred.or_else(|| self.found.iter().find(|found| is(found)))
    }
}

impl DiscoveredResource {
    fn matches_name(&self, name: &str) -> bool {
        self.resource.plural == name
            || self.singular == name
            || self.resource.kind.eq_ignore_ascii_case(name)
            || self.short.iter().any(|short| short == name)
    }
}

fn read_resource(group: &str, version: &str, tree: &Value) -> DiscoveredResource {
    let text = |value: &Value| Text::from(value.as_str().unwrap_or_default());
    let texts = |value: &Value| value.items().iter().map(text).collect();
    let sub = |sub: &Value| text(&sub["subresource"]);
    DiscoveredResource {
        resource: ApiResource {
            group: group.into(),
            version: version.into(),
            plural: text(&tree["resource"]),
            kind: text(&tree["responseKind"]["kind"]),
            namespaced: tree["scope"].as_str() == Some("Namespaced"),
        },
        singular: text(&tree["singularResource"]),
        short: texts(&tree["shortNames"]),
        categories: texts(&tree["categories"]),
        verbs: texts(&tree["verbs"]),
        subresources: tree["subresources"].items().iter().map(sub).collect(),
        preferred: false,
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn mapper() -> RestMapper {
        let mut mapper = RestMapper::default();
        for group in [
            r#"{"metadata":{},"versions":[{"version":"v1","resources":[
                {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","singularResource":"pod","shortNames":["po"],"categories":["all"]},
                {"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced","singularResource":"event","shortNames":["ev"]}]}]}"#,
            r#"{"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[
                {"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced","singularResource":"event","shortNames":["ev"]}]}]}"#,
            r#"{"metadata":{"name":"x.io"},"versions":[{"version":"v2","resources":[]},{"version":"v1","resources":[
                {"resource":"things","responseKind":{"kind":"Thing"},"scope":"Cluster","singularResource":"thing"}]}]}"#,
            r#"{"metadata":{"name":"y.io"},"versions":[{"version":"v1","freshness":"Stale"}]}"#,
        ] {
            mapper.read_group(&from_json(group.as_bytes()).unwrap());
        }
        mapper
    }

    #[test]
    fn users_name_resources_in_many_ways() {
        let mapper = mapper();
        let found = |name: &str| {
            mapper
                .resource_for(name)
                .map(|found| format!("{}/{}", found.resource.api_version(), found.resource.plural))
        };
        for name in ["po", "pod", "pods", "Pod", "pods.v1", "pods."] {
            assert_eq!(found(name).as_deref(), Some("v1/pods"), "{name}");
        }
        assert_eq!(found("ev").as_deref(), Some("v1/events"), "core comes first");
        assert_eq!(found("events.events.k8s.io").as_deref(), Some("events.k8s.io/v1/events"));
        assert_eq!(found("events.v1.events.k8s.io").as_deref(), Some("events.k8s.io/v1/events"));
        assert_eq!(found("thing").as_deref(), Some("x.io/v1/things"));
        assert_eq!(found("nothing"), None);
        assert_eq!(mapper.category("all").len(), 1);
        let thing = mapper.of_kind("x.io/v1", "Thing").unwrap();
        assert!(!thing.resource.namespaced);
        assert!(thing.preferred, "the group's first version has none");
        let stale = "unable to retrieve the complete list of server APIs: y.io/v1: stale \
                     GroupVersion discovery: y.io/v1";
        assert_eq!(mapper.incomplete().as_deref(), Some(stale));
    }
}
