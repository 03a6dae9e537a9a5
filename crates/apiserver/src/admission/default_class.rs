//! The DefaultStorageClass and DefaultIngressClass admission plugins: an object without a class
//! gets the class that is annotated as default; of several, the newest.

use std::cmp::Reverse;

use object::{Object, Status, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::all;

/// A default class plugin: the resource it applies to, the field it sets, and the resource of the
/// classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultClass {
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    field: &'static str,
    classes: &'static str,
    /// The annotations that mark a class as default.
    default_annotations: &'static [&'static str],
    /// The annotation by which an object may name its class instead of the field.
    legacy_annotation: &'static str,
}

pub(super) const STORAGE: DefaultClass = DefaultClass {
    name: "DefaultStorageClass",
    group: "",
    plural: "persistentvolumeclaims",
    field: "storageClassName",
    classes: "storage.k8s.io/storageclasses",
    default_annotations: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
    legacy_annotation: "volume.beta.kubernetes.io/storage-class",
};

pub(super) const INGRESS: DefaultClass = DefaultClass {
    name: "DefaultIngressClass",
    group: "networking.k8s.io",
    plural: "ingresses",
    field: "ingressClassName",
    classes: "networking.k8s.io/ingressclasses",
    default_annotations: &["ingressclass.kubernetes.io/is-default-class"],
    legacy_annotation: "kubernetes.io/ingress.class",
};

impl AdmissionPlugin for DefaultClass {
    fn name(&self) -> &'static str {
        self.name
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = self.set_default_class(admission);
        Box::pin(async move { done })
    }
}

impl DefaultClass {
    fn set_default_class(&self, admission: &mut AdmissionAttributes) -> Result<(), Status> {
        let says = !admission.object.get("spec").get(self.field).is_null()
            || admission.meta().annotations().get(self.legacy_annotation).is_some();
        if !admission.is_resource(self.group, self.plural)
            || admission.operation != Operation::Create
            || says
        {
            return Ok(());
        }
        let (group, plural) = self.classes.split_once('/').unwrap_or_default();
        let classes = all(admission, group, plural, "")?;
        let metas = classes.iter().map(|class| Object::view(&class.object).metadata());
        let marked = metas.filter(|meta| {
            self.default_annotations.iter().any(|mark| meta.annotations().get(mark) == Some("true"))
        });
        let newest = marked.min_by_key(|meta| (Reverse(meta.creation_timestamp()), meta.name()));
        if let Some(class) = newest {
            admission.object["spec"][self.field] = class.name().into();
        }
        Ok(())
    }
}
