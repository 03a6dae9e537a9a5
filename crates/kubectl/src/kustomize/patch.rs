//! Patches of kustomizations: strategic merge patches and JSON patches.

use object::{Value, selector::Selector, yaml};

use super::{Resource, merge::merge, read, read::Kustomization};
use crate::error::{CommandError, Result};

/// Selects the objects to patch. Texts are patterns for the whole value.
#[derive(Debug, Default)]
pub(super) struct Target {
    fields: Vec<(&'static str, String)>,
    labels: Selector,
    annotations: Selector,
}

impl Target {
    pub(super) fn of(tree: &Value) -> Result<Self> {
        let text = |name: &str| tree[name].as_str().unwrap_or_default();
        let mut fields = Vec::new();
        for name in ["group", "version", "kind", "name", "namespace"] {
            if !text(name).is_empty() {
                fields.push((name, text(name).to_owned()));
            }
        }
        let read = |name: &str| {
            Selector::parse(text(name)).map_err(|error| CommandError::error(error.to_string()))
        };
        Ok(Self {
            fields,
            labels: read("labelSelector")?,
            annotations: read("annotationSelector")?,
        })
    }

    /// Whether an object is selected.
    pub(super) fn fits(&self, resource: &Resource) -> bool {
        let (group, version) = resource.group_and_version();
        let names = resource.names();
        let field = |(name, pattern): &(&str, String)| match *name {
            "group" => group == pattern,
            "version" => version == pattern,
            "kind" => matches(pattern, resource.kind()),
            "name" => names.iter().any(|(_, name)| matches(pattern, name)),
            _ => names.iter().any(|(namespace, _)| matches(pattern, namespace)),
        };
        let metadata = &resource.object["metadata"];
        self.fields.iter().all(field)
            && self.labels.matches_with(|key| metadata["labels"].get(key).as_str())
            && self.annotations.matches_with(|key| metadata["annotations"].get(key).as_str())
    }

    pub(super) fn words(&self) -> String {
        let part = |wanted: &str, none: &str| {
            let found = self.fields.iter().find(|(name, _)| *name == wanted);
            found.map_or(none.to_owned(), |(_, value)| value.clone())
        };
        format!(
            "{}.{}.{}/{}.{}",
            part("kind", "[noKind]"),
            part("version", "[noVer]"),
            part("group", "[noGrp]"),
            part("name", "[noName]"),
            part("namespace", "[noNs]")
        )
    }
}

/// Whether a whole text matches a pattern: alternatives with `|`, and `.*` or `.` for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
    pattern.split('|').any(|one| {
        let one = one.trim_start_matches('(').trim_end_matches(')');
        fits(&one.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>())
    })
}

fn fits(pattern: &[char], text: &[char]) -> bool {
    let Some(first) = pattern.first() else { return text.is_empty() };
    let one = |c: &char| *first == '.' || first == c;
    match pattern.get(1) {
        Some(repeat @ ('*' | '+')) => {
            let least = usize::from(*repeat == '+');
            let most = text.iter().take_while(|c| one(c)).count();
            (least..=most).any(|count| fits(&pattern[2..], &text[count..]))
        }
        _ => text.first().is_some_and(one) && fits(&pattern[1..], &text[1..]),
    }
}

/// Applies `patchesStrategicMerge` and `patches`.
pub(super) fn run(kustomization: &Kustomization, all: &mut Vec<Resource>) -> Result {
    for entry in kustomization.texts("patchesStrategicMerge") {
        let text = if entry.contains('\n') || entry.trim_start().starts_with('{') {
            entry
        } else {
            load(kustomization, &entry)?
        };
        merge_all(&text, None, all)?;
    }
    for entry in kustomization.tree["patches"].items() {
        let (text, target) = patch_of(kustomization, entry)?;
        let tree = yaml::from_yaml(&text).ok();
        if matches!(tree, Some(Value::List(_))) {
            let Some(target) = target else {
                return Err(CommandError::error("must specify a target for JSON patch"));
            };
            change_all(&text, &target, all)?;
        } else {
            merge_all(&text, target.as_ref(), all)?;
        }
    }
    Ok(())
}

/// Applies `patchesJson6902`.
pub(super) fn json(kustomization: &Kustomization, all: &mut [Resource]) -> Result {
    for entry in kustomization.tree["patchesJson6902"].items() {
        let (text, target) = patch_of(kustomization, entry)?;
        let Some(target) = target else {
            return Err(CommandError::error("must specify a target for JSON patch"));
        };
        change_all(&text, &target, all)?;
    }
    Ok(())
}

fn load(kustomization: &Kustomization, path: &str) -> Result<String> {
    read::inside(&kustomization.root, path).map_err(|why| {
        CommandError::error(format!("failed to get the patch file from path({path}): {why}"))
    })
}

fn patch_of(kustomization: &Kustomization, entry: &Value) -> Result<(String, Option<Target>)> {
    let text = match (entry["path"].as_str(), entry["patch"].as_str()) {
        (Some(path), None) => load(kustomization, path)?,
        (None, Some(text)) => text.to_owned(),
        (Some(_), Some(_)) => {
            return Err(CommandError::error("patch and path can't be set at the same time"));
        }
        _ => {
            return Err(CommandError::error(
                "must specify one of patch and path in PatchTransformer",
            ));
        }
    };
    let target = &entry["target"];
    let target = if target.is_null() { None } else { Some(Target::of(target)?) };
    Ok((text, target))
}

fn change_all(text: &str, target: &Target, all: &mut [Resource]) -> Result {
    let patch = yaml::from_yaml(text).map_err(|error| CommandError::error(error.to_string()))?;
    for resource in all.iter_mut().filter(|resource| target.fits(resource)) {
        resource.object = schema::patch::apply_json_patch(&resource.object, &patch)?;
    }
    Ok(())
}

fn merge_all(text: &str, target: Option<&Target>, all: &mut Vec<Resource>) -> Result {
    let documents =
        yaml::split_documents(text).map_err(|error| CommandError::error(error.to_string()))?;
    for document in documents {
        let patch = yaml::from_yaml(document).map_err(|error| {
            CommandError::error(format!("unable to parse SM or JSON patch from [{text}]: {error}"))
        })?;
        if patch.is_null() {
            continue;
        }
        let mut found = false;
        let mut gone = Vec::new();
        for (at, resource) in all.iter_mut().enumerate() {
            let meant = match target {
                Some(target) => target.fits(resource),
                None => names(&patch, resource),
            };
            if !meant {
                continue;
            }
            found = true;
            if patch["$patch"].as_str() == Some("delete") {
                gone.push(at);
                continue;
            }
            let (kind, name) = (resource.object["kind"].clone(), resource.now());
            let version = resource.object["apiVersion"].clone();
            merge(&mut resource.object, &patch);
            // A patch for several objects does not change their kind and name.
            resource.object["kind"] = kind;
            resource.object["apiVersion"] = version;
            resource.object["metadata"]["name"] = name.1.into();
            if !name.0.is_empty() {
                resource.object["metadata"]["namespace"] = name.0.into();
            }
        }
        for at in gone.into_iter().rev() {
            all.remove(at);
        }
        if !found && target.is_none() {
            let text = |value: &Value, none: &str| match value.as_str().unwrap_or_default() {
                "" => none.to_owned(),
                given => given.to_owned(),
            };
            let api_version = text(&patch["apiVersion"], "");
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let group = if group.is_empty() { "[noGrp]" } else { group };
            return Err(CommandError::error(format!(
                "no resource matches strategic merge patch \"{}.{version}.{group}/{}.{}\": no matches for Id {}.{version}.{group}/{}.{}; failed to find unique target for patch {}.{version}.{group}/{}.{}",
                text(&patch["kind"], "[noKind]"),
                text(&patch["metadata"]["name"], "[noName]"),
                text(&patch["metadata"]["namespace"], "[noNs]"),
                text(&patch["kind"], "[noKind]"),
                text(&patch["metadata"]["name"], "[noName]"),
                text(&patch["metadata"]["namespace"], "[noNs]"),
                text(&patch["kind"], "[noKind]"),
                text(&patch["metadata"]["name"], "[noName]"),
                text(&patch["metadata"]["namespace"], "[noNs]"),
            )));
        }
    }
    Ok(())
}

/// Whether a patch applies to this object.
fn names(patch: &Value, resource: &Resource) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, namespace) =
        (text(&patch["metadata"]["name"]), text(&patch["metadata"]["namespace"]));
    patch["kind"] == resource.object["kind"]
        && patch["apiVersion"] == resource.object["apiVersion"]
        && resource
            .names()
            .iter()
            .any(|(space, other)| *other == name && (namespace.is_empty() || *space == namespace))
}

#[test]
fn patterns_fit_the_whole() {
    assert!(matches("web.*", "web-1") && matches("a|b", "b") && matches("^web$", "web"));
    assert!(!matches("web", "web-1") && !matches("a.c", "ac"));
}
