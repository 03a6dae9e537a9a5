//! The kinds that are attacked, each with valid objects as starting points.

use anyhow::{Context as _, Result, ensure};
use object::yaml;
use schema::{ResourceDefinition, Scope};
use serde_json::Value;

const BASES: &str = include_str!("bases.yaml");

/// A kind and valid objects of it in JSON, with the placeholders of `bases.yaml`.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) definition: ResourceDefinition,
    pub(crate) bases: Vec<String>,
}

/// All kinds that can be created.
pub(crate) fn all() -> Result<Vec<Kind>> {
    let mut bases = Vec::new();
    for text in BASES.split("\n---\n").skip(1) {
        let tree = yaml::from_yaml(text).map_err(|error| anyhow::anyhow!("{error}: {text}"))?;
        let tree: Value = serde_json::from_slice(&object::to_json(&tree))?;
        bases.push(tree);
    }
    let mut kinds = Vec::new();
    for definition in api::builtin_resources() {
        if !definition.verbs.contains(&"create") {
            continue;
        }
        let names = definition.names;
        let exact = |base: &&Value| base["apiVersion"] == names.api_version();
        let same: Vec<&Value> = bases.iter().filter(|base| is_of(base, &definition)).collect();
        let own: Vec<&Value> = same.iter().copied().filter(exact).collect();
        let first = same.first().map(|base| base["apiVersion"].clone()).unwrap_or_default();
        let own = if own.is_empty() {
            same.into_iter().filter(|base| base["apiVersion"] == first).collect()
        } else {
            own
        };
        let own: Vec<String> = own.into_iter().map(|base| in_version(base, &definition)).collect();
        ensure!(!own.is_empty(), "bases.yaml has no {} of group {:?}", names.kind, names.group);
        kinds.push(Kind { definition, bases: own });
    }
    Ok(kinds)
}

/// The kind of the object at a path, if it is in one of the attack's namespaces or cluster-scoped.
pub(crate) fn of_path<'a>(kinds: &'a [Kind], path: &str) -> Option<&'a Kind> {
    let (collection, _) = path.rsplit_once('/')?;
    kinds.iter().find(|kind| ["a", "b"].iter().any(|name| kind.collection(name) == collection))
}

/// Whether a base is of this kind, in any version.
fn is_of(base: &Value, definition: &ResourceDefinition) -> bool {
    let version = base["apiVersion"].as_str().unwrap_or_default();
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    group == definition.names.group && base["kind"] == definition.names.kind
}

/// The base in this kind's version. Versions with different fields have separate bases.
fn in_version(base: &Value, definition: &ResourceDefinition) -> String {
    let mut base = base.clone();
    base["apiVersion"] = definition.names.api_version().into();
    base.to_string()
}

impl Kind {
    /// The path of the collection, in the namespace `a` or `b` if the kind is namespaced.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let names = self.definition.names;
        let root = match names.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", names.version),
        };
        match self.definition.scope {
            Scope::Namespaced => format!("{root}/namespaces/{namespace}/{}", names.plural),
            Scope::Cluster => format!("{root}/{}", names.plural),
        }
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.definition.scope == Scope::Namespaced
    }

    /// A valid object with this number in its name.
    pub(crate) fn object(&self, which: usize, number: usize) -> Result<Value> {
        let base = &self.bases[which % self.bases.len()];
        serde_json::from_str(&fill(base, number)).with_context(|| base.clone())
    }
}

/// Replaces the placeholders of a base by a name and other values that must differ between objects.
pub(crate) fn fill(base: &str, number: usize) -> String {
    base.replace("HOSTILE_CA", "⟦hostile-ca⟧")
        .replace("HOSTILE", "⟦hostile⟧")
        .replace("CERTIFICATE_REQUEST_DER", REQUEST_DER)
        .replace("CERTIFICATE_REQUEST", REQUEST)
        .replace("ADDRESS", &format!("10.77.0.{}", number % 250 + 1))
        .replace("RANGE", &format!("10.{}.0.0/24", number % 100 + 100))
        .replace("MUTATE", MUTATE)
        .replace("NAME", &name(number))
}

pub(crate) fn name(number: usize) -> String {
    format!("fz-{number}")
}

/// `{"response":{"uid":"UID","allowed":true,"patchType":"JSONPatch","patch":…}}`: the backend inserts the request's
/// uid.
const MUTATE: &str = "eyJhcGlWZXJzaW9uIjoiYWRtaXNzaW9uLms4cy5pby92MSIsImtpbmQiOiJBZG1pc3Npb25SZXZpZXciLCJyZXNwb25zZSI6eyJ1aWQiOiJVSUQiLCJhbGxvd2VkIjp0cnVlLCJwYXRjaFR5cGUiOiJKU09OUGF0Y2giLCJwYXRjaCI6Ilczc2liM0FpT2lKaFpHUWlMQ0p3WVhSb0lqb2lMMlJoZEdFaUxDSjJZV3gxWlNJNmV5SjRJam9pZVNKOWZWMD0ifX0";
/// A certificate request for `CN=attack` with an Ed25519 key, PEM in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHUU1FUUNBUUF3RVRFUE1BMEdBMVVFQXd3R1lYUjBZV05yTUNvd0JRWURLMlZ3QXlFQXdLWDROdEs2Q0RNVgpuRVJrODJaQWQ4Q2tUY2xOSkV3QlFtRkRSUG54ZHVpZ0FEQUZCZ01yWlhBRFFRRC9PeUlRalRNVzNoV0JzLzBUCnRrRUZCbUlBWDF1dkpyYks1QkNQSGY3cHh6UFlJcWx6Uk9pSGhMTDBjWjNXUmpsRno2OWJtTHVVeUxMZmdGTVMKV3A0QgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
/// A certificate request with an Ed25519 key, DER in base64.
const REQUEST_DER: &str = "MIGQMEQCAQAwETEPMA0GA1UEAwwGYXR0YWNrMCowBQYDK2VwAyEAwKX4NtK6CDMVnERk82ZAd8CkTclNJEwBQmFDRPnxduigADAFBgMrZXADQQD/OyIQjTMW3hWBs/0TtkEFBmIAX1uvJrbK5BCPHf7pxzPYIqlzROiHhLL0cZ3WRjlFz69bmLuUyLLfgFMSWp4B";

#[test]
fn every_kind_has_a_base() {
    let kinds = all().expect("good bases");
    for kind in &kinds {
        for which in 0..kind.bases.len() {
            kind.object(which, 3).expect("a base is JSON");
        }
    }
    assert!(kinds.len() > 70, "{}", kinds.len());
}
