//! Discovery: the resources that the server serves, and the lookup of a resource by a name on the command line.

use object::{Value, quote::quote};

use crate::{
    error::{CommandError, Result},
    server::Server,
};

/// A resource in one version.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    /// Names of its subresources, such as `status` and `scale`.
    pub(crate) subresources: Vec<String>,
    /// Whether this version is the preferred one of its group.
    pub(crate) preferred: bool,
}

/// Every resource in every version, in the server's order of preference.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestMapper {
    pub(crate) all: Vec<Resource>,
    /// Groups whose discovery failed.
    pub(crate) failed_groups: Vec<String>,
}

impl Resource {
    /// A resource guessed from a kind, without a request to the server.
    pub(crate) fn guess_from_kind(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let singular = kind.to_lowercase();
        let plural = match singular.as_bytes() {
            [.., b's' | b'x'] | [.., b'c' | b's', b'h'] => format!("{singular}es"),
            [.., b'y'] => format!("{}ies", &singular[..singular.len() - 1]),
            _ => format!("{singular}s"),
        };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural,
            singular,
            kind: kind.to_owned(),
            namespaced: true,
            ..Self::default()
        }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name with its group: `pods`, `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The lower-case kind with its group, which is printed before names: `pod`, `deployment.apps`.
    pub(crate) fn kind_name(&self) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() { kind } else { format!("{kind}.{}", self.group) }
    }

    /// The kind with its group, as errors name it: `Pod`, `Deployment.apps`.
    pub(crate) fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// Fails for kinds that upstream's kubectl has no type for, such as those of custom resources. Commands that
    /// need the typed object refuse them.
    pub(crate) fn require_type(&self) -> crate::error::Result {
        let built_in = !self.group.contains('.') || self.group.ends_with(".k8s.io");
        let own_scheme = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
        if built_in && !own_scheme.contains(&self.group.as_str()) {
            return Ok(());
        }
        Err(crate::error::CommandError::error(format!(
            "no kind {} is registered for version {} in scheme \"pkg/scheme/scheme.go:28\"",
            object::quote::quote(&self.kind),
            object::quote::quote(&self.api_version())
        )))
    }

    /// The URL path of an object, or of the collection if `name` is empty.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        let root =
            if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let mut path = format!("{root}/{}", self.version);
        if self.namespaced && !namespace.is_empty() {
            path += &format!("/namespaces/{}", escape(namespace));
        }
        path += &format!("/{}", self.plural);
        if !name.is_empty() {
            path += &format!("/{}", escape(name));
        }
        path
    }

    /// The group, version and resource, as `"/v1, Resource=pods"`.
    pub(crate) fn gvr(&self) -> String {
        format!("{}/{}, Resource={}", self.group, self.version, self.plural)
    }

    /// The group, version and kind, as `apps/v1, Kind=Deployment`.
    pub(crate) fn gvk(&self) -> String {
        format!("{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

impl RestMapper {
    /// Runs discovery.
    pub(crate) fn load(server: &Server) -> Result<Self> {
        let mut this = Self::default();
        let mut core = server.get_as("/api", AGGREGATED)?;
        if core["kind"].as_str() == Some("APIGroupDiscoveryList") {
            let rest = server.get_as("/apis", AGGREGATED)?;
            for group in core["items"].items().iter().chain(rest["items"].items()) {
                this.add_group(group);
            }
            return Ok(this);
        }
        // A server without aggregated discovery lists the resources of each version.
        for version in std::mem::take(&mut core["versions"]).items() {
            let version = version.as_str().unwrap_or_default();
            let list = server.get(&format!("/api/{version}"))?;
            this.add_list("", version, &list, true);
        }
        for group in server.get("/apis")?["groups"].items() {
            let name = group["name"].as_str().unwrap_or_default();
            let preferred = group["preferredVersion"]["version"].as_str().unwrap_or_default();
            let mut versions: Vec<&str> =
                group["versions"].items().iter().filter_map(|v| v["version"].as_str()).collect();
            versions.sort_by_key(|version| *version != preferred);
            for version in versions {
                match server.get(&format!("/apis/{name}/{version}")) {
                    Ok(list) => this.add_list(name, version, &list, version == preferred),
                    Err(_) => this.failed_groups.push(format!("{name}/{version}")),
                }
            }
        }
        Ok(this)
    }

    fn add_group(&mut self, group: &Value) {
        let name = text(&group["metadata"]["name"]);
        for (at, version) in group["versions"].items().iter().enumerate() {
            let number = text(&version["version"]);
            if version["freshness"].as_str() == Some("Stale") {
                self.failed_groups.push(format!("{name}/{number}"));
            }
            for resource in version["resources"].items() {
                let kind = &resource["responseKind"];
                self.all.push(Resource {
                    group: name.clone(),
                    version: number.clone(),
                    plural: text(&resource["resource"]),
                    singular: text(&resource["singularResource"]),
                    kind: text(&kind["kind"]),
                    namespaced: resource["scope"].as_str() == Some("Namespaced"),
                    short_names: texts(&resource["shortNames"]),
                    categories: texts(&resource["categories"]),
                    verbs: texts(&resource["verbs"]),
                    subresources: resource["subresources"]
                        .items()
                        .iter()
                        .map(|s| text(&s["subresource"]))
                        .collect(),
                    preferred: at == 0,
                });
            }
        }
    }

    fn add_list(&mut self, group: &str, version: &str, list: &Value, preferred: bool) {
        let all = list["resources"].items();
        for resource in all.iter().filter(|r| !text(&r["name"]).contains('/')) {
            let plural = text(&resource["name"]);
            let below = format!("{plural}/");
            let subresources = all.iter().map(|r| text(&r["name"]));
            self.all.push(Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                singular: text(&resource["singularName"]),
                kind: text(&resource["kind"]),
                namespaced: resource["namespaced"].as_bool() == Some(true),
                short_names: texts(&resource["shortNames"]),
                categories: texts(&resource["categories"]),
                verbs: texts(&resource["verbs"]),
                subresources: subresources
                    .filter_map(|n| n.strip_prefix(&below).map(str::to_owned))
                    .collect(),
                plural,
                preferred,
            });
        }
    }

    /// The resource that a word names: `po`, `deployments.apps`, `jobs.v1.batch`, `Pod`.
    pub(crate) fn find(&self, word: &str) -> Result<&Resource> {
        // Only names of resources are matched without regard to case, not short names.
        let lower = word.to_lowercase();
        if lower != word && self.all.iter().any(|r| r.short_names.contains(&lower)) {
            return Err(Self::unknown(word));
        }
        let parts: Vec<&str> = lower.splitn(3, '.').collect();
        if let [name, version, group] = parts[..]
            && let Some(found) = self
                .all
                .iter()
                .find(|r| r.is_called(name) && r.version == version && r.group == group)
        {
            return Ok(found);
        }
        let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let fits = |r: &&Resource| r.is_called(name) && r.group.starts_with(group);
        let named = self.all.iter().find(|r| fits(r) && (r.plural == name || r.singular == name));
        if let Some(found) = named.or_else(|| self.all.iter().find(fits)) {
            return Ok(found);
        }
        let kind = word.split('.').next().unwrap_or_default();
        if let Some(found) = self.all.iter().find(|r| r.kind == kind && r.group.starts_with(group))
        {
            return Ok(found);
        }
        Err(Self::unknown(word))
    }

    fn unknown(word: &str) -> CommandError {
        let (name, group) = word.split_once('.').unwrap_or((word, ""));
        CommandError::error(match group {
            "" => format!("the server doesn't have a resource type {}", quote(name)),
            _ => format!(
                "the server doesn't have a resource type {} in group {}",
                quote(name),
                quote(group)
            ),
        })
    }

    /// A resource of another group with the same short name.
    pub(crate) fn also_short(&self, word: &str) -> Option<&Resource> {
        let has = |r: &&Resource| r.preferred && r.short_names.iter().any(|short| short == word);
        let first = self.all.iter().find(has)?;
        self.all.iter().filter(has).find(|other| other.group != first.group)
    }

    /// The resource of objects with this apiVersion and kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        self.all.iter().find(|r| r.kind == kind && r.api_version() == api_version)
    }

    /// The resources of a category such as `all`, each in its preferred version.
    pub(crate) fn category(&self, name: &str) -> Vec<&Resource> {
        let preferred = self.all.iter().filter(|r| r.preferred);
        preferred.filter(|r| r.categories.iter().any(|c| c == name)).collect()
    }
}

impl Resource {
    fn is_called(&self, name: &str) -> bool {
        self.plural == name
            || self.singular == name
            || self.short_names.iter().any(|short| short == name)
    }
}

/// Percent-encodes a path segment or query value.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(b.into());
            }
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.items().iter().map(text).collect()
}
