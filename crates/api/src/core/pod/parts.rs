//! Changes of a pod through its own paths: new ephemeral containers, other resources.

use object::{Lens, List, Map, Quantity, Value};
use schema::{CLIENT_METADATA_FIELDS, ErrorList, FieldPath};

use super::{Pod, annotations, defaults, rules};
use crate::core::{Container, ResourceRequirements};

/// Marks a pod that stands for one that the kubelet has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
/// How Go writes a path without a name.
const EMPTY_PATH: FieldPath = FieldPath::Root.field("[]");

impl Pod {
    /// Keeps everything of the old pod but what this path is for.
    pub(super) fn keep_but(&mut self, part: &str, old: &Self) {
        let mut spec = old.spec().clone();
        if part == "resize" {
            if self.spec().resources().is_some() {
                defaults::pod_resources(self.spec_mut());
            }
            let (new, was) = (self.spec(), old.spec());
            let same = |new: &List<Container>, old: &List<Container>| new.len() == old.len();
            let known = same(new.containers(), was.containers())
                && same(new.init_containers(), was.init_containers());
            if !known {
                return; // for the rules to tell
            }
            spec.set_containers(resized(new.containers(), was.containers()));
            spec.set_init_containers(resized(new.init_containers(), was.init_containers()));
            if let Some(resources) = new.resources() {
                spec.set_resources(resources.clone());
            }
        } else {
            spec.set_ephemeral_containers(self.spec().ephemeral_containers().clone());
        }
        self.set_spec(spec);
        self.set_status(old.status().clone());
        let tree = &mut self.0;
        for field in CLIENT_METADATA_FIELDS {
            match old.metadata().tree().get(field) {
                Value::Null => tree["metadata"].remove(field),
                kept => tree["metadata"][*field] = kept.clone(),
            }
        }
    }

    pub(super) fn check_part(&self, part: &str, old: &Self, errs: &mut ErrorList) {
        let fixed = old.metadata().annotations().get(MIRROR).is_some();
        let mut told = ErrorList::default();
        rules::check_pod(self, &mut told);
        if part == "resize" {
            let windows = old.spec().os().is_some_and(|os| os.name() == "windows");
            if fixed {
                return errs.forbidden(&EMPTY_PATH, "static pods cannot be resized");
            } else if windows {
                return errs.forbidden(&EMPTY_PATH, "windows pods cannot be resized");
            }
            self.check_resize(old, &mut told);
        } else {
            if fixed {
                let why = "static pods do not support ephemeral containers";
                return errs.forbidden(&EMPTY_PATH, why);
            }
            let notes = (self.metadata().annotations(), old.metadata().annotations());
            annotations::check_changed(
                notes.0,
                notes.1,
                &FieldPath::METADATA.field("annotations"),
                &mut told,
            );
            self.check_ephemeral(old, &mut told);
        }
        errs.0.append(&mut told.0);
    }

    /// Ephemeral containers come, and stay as they came.
    fn check_ephemeral(&self, old: &Self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("ephemeralContainers");
        let all = self.spec().ephemeral_containers().by_key(|it| it.as_container().name());
        for was in old.spec().ephemeral_containers().iter() {
            let name = was.as_container().name();
            match all.get(name).copied() {
                None => errs.forbidden(
                    &at,
                    format!("existing ephemeral containers {name:?} may not be removed\n"),
                ),
                Some(new) if new != was => errs.forbidden(
                    &at,
                    format!(
                        "existing ephemeral containers {name:?} may not be changed\n@@ -1 +1 @@\n"
                    ),
                ),
                Some(_) => {}
            }
        }
    }

    fn check_resize(&self, old: &Self, errs: &mut ErrorList) {
        if self.qos_class() != old.qos_class() {
            let why = "Pod QOS Class may not change as a result of resizing";
            errs.invalid(&FieldPath::SPEC, self.status().qos_class(), why);
        }
        let running = old.status().container_statuses().find(|one| one.state().running().is_some());
        if running.is_some_and(|one| one.resources().is_none()) {
            errs.forbidden(&FieldPath::SPEC, "Pod running on node without support for resize");
        }
        let (new, was) = (self.spec(), old.spec());
        validate_pod_level(new.resources(), was.resources(), errs);
        let lists = [
            ("containers", new.containers(), was.containers()),
            ("initContainers", new.init_containers(), was.init_containers()),
        ];
        let before = errs.0.len();
        for (name, new, was) in lists {
            check_order(name, new, was, errs);
        }
        if errs.0.len() > before {
            return;
        }
        for (name, new, was) in lists {
            let at = FieldPath::SPEC.field(name);
            for (i, (new, was)) in new.iter().zip(was.iter()).enumerate() {
                let at = at.index(i);
                check_kept(
                    new.resources(),
                    was.resources(),
                    "resource",
                    &at.field("resources"),
                    errs,
                );
                let apart = resources_apart(new.resources(), was.resources())
                    && new.resize_policy() == was.resize_policy();
                if name == "containers" {
                    if !apart {
                        errs.forbidden(
                            &FieldPath::SPEC,
                            "only cpu and memory resources are mutable",
                        );
                    }
                    continue;
                }
                let again =
                    new.resize_policy().find(|it| it.restart_policy() == "RestartContainer");
                if again.is_some() && new.restart_policy().is_none() {
                    let why = "non-sidecar init containers with a resize policy of \
                               RestartContainer cannot be resized";
                    errs.forbidden(&at, why);
                }
                if !apart {
                    let why =
                        "only cpu and memory resources for init or sidecar containers are mutable";
                    errs.forbidden(&at, why);
                }
            }
        }
    }
}

/// The old containers, with what the new ones may use.
fn resized(new: &List<Container>, old: &List<Container>) -> List<Container> {
    if new.iter().zip(old.iter()).any(|(new, old)| new.name() != old.name()) {
        return new.clone(); // for the rules to tell
    }
    let sized = new.iter().zip(old.iter()).map(|(new, old)| {
        let sized = old.clone().with_resources(new.resources().clone());
        sized.with_resize_policy(new.resize_policy().clone())
    });
    sized.collect()
}

fn check_order(name: &str, new: &List<Container>, old: &List<Container>, errs: &mut ErrorList) {
    let at = FieldPath::SPEC.field(name);
    if new.len() != old.len() {
        return errs.forbidden(&at, format!("{name} may not be added or removed on resize"));
    }
    for (i, (new, old)) in new.iter().zip(old.iter()).enumerate() {
        if new.name() != old.name() {
            let why = format!("{name} may not be renamed or reordered on resize");
            errs.forbidden(&at.index(i).field("name"), why);
        }
    }
}

fn validate_pod_level(
    new: Option<&ResourceRequirements>,
    old: Option<&ResourceRequirements>,
    errs: &mut ErrorList,
) {
    let (at, mut none) = (FieldPath::SPEC.field("resources"), ResourceRequirements::new());
    let sized = |it: &&ResourceRequirements| !it.limits().is_empty() || !it.requests().is_empty();
    if let Some(new) = new.filter(|new| !sized(new)) {
        none.set_claims(new.claims().clone()); // others tell that there can be none
    }
    let (new, old) = match (new, old) {
        (None, None) => return,
        (None, Some(_)) => return errs.forbidden(&at, "pod-level resources cannot be removed"),
        (Some(new), None) if new.tree().is_zero() => {
            return errs.forbidden(&FieldPath::SPEC, "only cpu and memory resources are mutable");
        }
        (Some(new), old) => (new, old.unwrap_or(&none)),
    };
    check_kept(new, old, "pod-level resource", &at, errs);
    if !resources_apart(new, old) {
        errs.forbidden(&FieldPath::SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

/// What is asked for can become more or less, but not nothing.
fn check_kept(
    new: &ResourceRequirements,
    old: &ResourceRequirements,
    what: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (name, new, old) in
        [("requests", new.requests(), old.requests()), ("limits", new.limits(), old.limits())]
    {
        if old.iter().any(|(resource, _)| new.get(resource).is_none()) {
            errs.forbidden(&at.field(name), format!("{what} {name} cannot be removed"));
        }
    }
}

/// Whether the two differ in nothing but what can be resized.
fn resources_apart(new: &ResourceRequirements, old: &ResourceRequirements) -> bool {
    let same = |new: &Map<Quantity>, old: &Map<Quantity>| {
        let fixed = |(name, _): &(&str, _)| !RESIZABLE.contains(name);
        new.iter().filter(fixed).eq(old.iter().filter(fixed))
    };
    same(new.limits(), old.limits())
        && same(new.requests(), old.requests())
        && new.claims() == old.claims()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{core::EphemeralContainer, testing::created_from_json};

    fn pod() -> Pod {
        created_from_json(
            r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": "1"}}}]}}"#,
        )
    }

    fn complaints(new: &Pod, part: &str) -> Vec<String> {
        let mut errs = ErrorList::default();
        new.check_part(part, &pod(), &mut errs);
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ephemeral_containers_only_come() {
        let (old, mut new) = (pod(), pod());
        new.spec_mut().set_node_name("elsewhere");
        let debug = EphemeralContainer::new().with_target_container_name("c");
        new.spec_mut().set_ephemeral_containers([debug]);
        new.keep_but("ephemeralcontainers", &old);
        assert_eq!(new.spec().node_name(), "");
        assert_eq!(new.spec().ephemeral_containers().len(), 1);
        let mut errs = ErrorList::default();
        old.check_ephemeral(&new, &mut errs);
        assert!(errs.0[0].to_string().contains("may not be removed"), "{errs:?}");
    }

    #[test]
    fn only_processors_and_memory_are_resized() {
        let sized = |requests: &[(&str, &str)]| {
            let mut new = pod();
            let container = new.spec_mut().containers_mut().iter_mut().next().expect("one");
            container.set_image("other");
            container.set_resources(ResourceRequirements::new());
            let asked = container.resources_mut().requests_mut();
            for (name, amount) in requests {
                asked.insert(name, amount.parse::<Quantity>().expect("an amount"));
            }
            new.keep_but("resize", &pod());
            new
        };
        let more = sized(&[("cpu", "2")]);
        assert_eq!(more.spec().containers().iter().next().expect("one").image(), "i");
        assert!(complaints(&more, "resize").is_empty());
        let other = complaints(&sized(&[("cpu", "1"), ("ephemeral-storage", "1Gi")]), "resize");
        assert_eq!(other, ["spec: Forbidden: only cpu and memory resources are mutable"]);
        let none = complaints(&sized(&[("memory", "1Gi")]), "resize");
        assert_eq!(
            none,
            [
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
            ]
        );
    }
}
