//! The AlwaysPullImages admission plugin: sets `imagePullPolicy: Always` on every container, so
//! that a pod cannot use a cached image without the credentials to pull it.

use object::{Status, Value};
use schema::{ErrorList, FieldPath};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::aggregate;

const EPHEMERAL: &str = "ephemeralContainers";
const LISTS: [&str; 3] = ["initContainers", "containers", EPHEMERAL];

#[derive(Debug)]
pub(super) struct AlwaysPullImages;

impl AdmissionPlugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        if adds_containers(admission) {
            let added = admission.object.get("spec").get(EPHEMERAL).items().iter().cloned();
            let added: Vec<Value> = added
                .map(|mut container| {
                    if is_new(admission, &container) {
                        container["imagePullPolicy"] = "Always".into();
                    }
                    container
                })
                .collect();
            admission.object["spec"][EPHEMERAL] = added.into_iter().collect();
        } else if applies(admission) {
            let volumes = admission.object.get("spec").get("volumes").items().iter().cloned();
            let volumes: Vec<Value> = volumes
                .map(|mut volume| {
                    if !volume.get("image").is_null() {
                        volume["image"]["pullPolicy"] = "Always".into();
                    }
                    volume
                })
                .collect();
            if !volumes.is_empty() {
                admission.object["spec"]["volumes"] = volumes.into_iter().collect();
            }
            for list in LISTS {
                let always = admission.object.get("spec").get(list).items().iter().cloned();
                let always: Vec<Value> = always
                    .map(|mut container| {
                        container["imagePullPolicy"] = "Always".into();
                        container
                    })
                    .collect();
                if !always.is_empty() {
                    admission.object["spec"][list] = always.into_iter().collect();
                }
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = check(admission);
        Box::pin(async move { done })
    }
}

/// Whether the request adds ephemeral containers to a running pod. Upstream does not handle these,
/// so that there an image that another pod has pulled runs without the credentials to pull it.
fn adds_containers(admission: &AdmissionAttributes) -> bool {
    let names = &admission.served.definition.names;
    let is_pod = names.group.is_empty() && names.plural == "pods";
    is_pod && admission.subresource == "ephemeralcontainers" && admission.object.is_object()
}

fn is_new(admission: &AdmissionAttributes, container: &Value) -> bool {
    let old = admission.old.map_or(&[][..], |old| old.get("spec").get(EPHEMERAL).items());
    !old.iter().any(|own| own.get("name") == container.get("name"))
}

/// Whether the plugin applies: to the creation of a pod, and to an update that adds an image.
fn applies(admission: &AdmissionAttributes) -> bool {
    if admission.operation == Operation::Create {
        return admission.is_resource("", "pods");
    } else if admission.operation != Operation::Update || !admission.is_resource("", "pods") {
        return false;
    }
    let images = |pod: &Value| -> Vec<String> {
        let all = LISTS.iter().flat_map(|list| pod.get("spec").get(list).items());
        all.filter_map(|container| container.get("image").as_str().map(str::to_owned)).collect()
    };
    let before = admission.old.map(images).unwrap_or_default();
    images(&admission.object).iter().any(|image| !before.contains(image))
}

fn check(admission: &AdmissionAttributes) -> Result<(), Status> {
    let adds = adds_containers(admission);
    if !adds && !applies(admission) {
        return Ok(());
    }
    let mut errs = ErrorList::default();
    let spec = FieldPath::Root.field("spec");
    for list in LISTS.into_iter().filter(|list| !adds || *list == EPHEMERAL) {
        let all = spec.field(list);
        for (at, container) in admission.object.get("spec").get(list).items().iter().enumerate() {
            let policy = container.get("imagePullPolicy").as_str().unwrap_or_default();
            if policy != "Always" && (!adds || is_new(admission, container)) {
                let at = all.index(at);
                errs.not_supported(&at.field("imagePullPolicy"), policy, &["Always"]);
            }
        }
    }
    let volumes = spec.field("volumes");
    let own = admission.object.get("spec").get("volumes").items().iter();
    for (at, volume) in own.enumerate().filter(|_| !adds) {
        let policy = volume.get("image").get("pullPolicy").as_str().unwrap_or_default();
        if !volume.get("image").is_null() && policy != "Always" {
            let (at, image) = (volumes.index(at), "image");
            errs.not_supported(&at.field(image).field("pullPolicy"), policy, &["Always"]);
        }
    }
    let broken = errs.0.iter().map(|error| admission.forbidden(&error.to_string()));
    let broken = broken.map(|status| status.message().to_owned()).collect();
    aggregate(broken).map_or(Ok(()), |why| Err(Status::failure(500, "", why)))
}
