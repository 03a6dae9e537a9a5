//! DefaultStorageClass and DefaultIngressClass: who names no class gets the one that is
//! marked, the newest if there are several.

use std::cmp::Reverse;

use object::{Object, Status, View};
use server::{Admission, Admit, Admitting, Operation};

use super::all;

/// Which objects get which class.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultClass {
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    field: &'static str,
    classes: &'static str,
    /// What marks a class; and what an object may name one by instead of the field.
    marks: &'static [&'static str],
    named_by: &'static str,
}

pub(super) const STORAGE: DefaultClass = DefaultClass {
    name: "DefaultStorageClass",
    group: "",
    plural: "persistentvolumeclaims",
    field: "storageClassName",
    classes: "storage.k8s.io/storageclasses",
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
    named_by: "volume.beta.kubernetes.io/storage-class",
};

pub(super) const INGRESS: DefaultClass = DefaultClass {
    name: "DefaultIngressClass",
    group: "networking.k8s.io",
    plural: "ingresses",
    field: "ingressClassName",
    classes: "networking.k8s.io/ingressclasses",
    marks: &["ingressclass.kubernetes.io/is-default-class"],
    named_by: "kubernetes.io/ingress.class",
};

impl Admit for DefaultClass {
    fn name(&self) -> &'static str {
        self.name
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let done = self.fill(admission);
        Box::pin(async move { done })
    }
}

impl DefaultClass {
    fn fill(&self, admission: &mut Admission) -> Result<(), Status> {
        let says = !admission.object.get("spec").get(self.field).is_null()
            || admission.meta().annotations().get(self.named_by).is_some();
        if !admission.is(self.group, self.plural)
            || admission.operation != Operation::Create
            || says
        {
            return Ok(());
        }
        let (group, plural) = self.classes.split_once('/').unwrap_or_default();
        let classes = all(admission, group, plural, "")?;
        let metas = classes.iter().map(|class| Object::view(&class.object).metadata());
        let marked = metas.filter(|meta| {
            self.marks.iter().any(|mark| meta.annotations().get(mark) == Some("true"))
        });
        let newest = marked.min_by_key(|meta| (Reverse(meta.creation_timestamp()), meta.name()));
        if let Some(class) = newest {
            admission.object["spec"][self.field] = class.name().into();
        }
        Ok(())
    }
}
