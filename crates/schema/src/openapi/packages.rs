//! What a type is called in a document: `io.k8s.api.apps.v1.Deployment`.
//!
//! A shape knows its short name only. It belongs to the group and version that comes
//! to it first, in the order of the definitions; core comes before all others.

use std::collections::HashMap;

use object::{Link, Struct, Type};

use crate::{Definition, Names};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Shapes that a kind of another group leads to first: from where, how their names
/// begin, and where they belong.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("io.k8s.api.storage.v1", "TopologySelector", "io.k8s.api.core.v1"),
    ("io.k8s.api.batch.v1", "WorkloadPodGroup", "io.k8s.api.scheduling.v1alpha3"),
    ("io.k8s.api.batch.v1", "TopologyConstraint", "io.k8s.api.scheduling.v1alpha3"),
];

/// The full names of all named shapes.
#[derive(Debug, Default)]
pub(super) struct Packages {
    names: HashMap<*const Struct, String>,
    kinds: HashMap<*const Struct, Names>,
}

impl Packages {
    pub(super) fn of(definitions: &[Definition]) -> Self {
        let mut packages = Self::default();
        for definition in definitions.iter().filter(|definition| definition.custom.is_none()) {
            let package = package(definition.names.group, definition.names.version);
            packages.visit(&definition.shape, &package);
            packages.kinds.insert(std::ptr::from_ref(&*definition.shape), definition.names);
        }
        packages
    }

    /// The full name of a shape.
    pub(super) fn name(&self, shape: &Struct) -> String {
        let known = self.names.get(&std::ptr::from_ref(shape));
        known.cloned().unwrap_or_else(|| full(META, &shape.name))
    }

    /// The kind whose objects have this shape.
    pub(super) fn kind(&self, shape: &Struct) -> Option<&Names> {
        self.kinds.get(&std::ptr::from_ref(shape))
    }

    fn visit(&mut self, shape: &Struct, package: &str) {
        let key = std::ptr::from_ref(shape);
        if self.names.contains_key(&key) {
            return;
        }
        let own = ELSEWHERE
            .iter()
            .find(|(from, start, _)| *from == package && shape.name.starts_with(start));
        let package = if is_meta(&shape.name) { META } else { own.map_or(package, |own| own.2) };
        self.names.insert(key, full(package, &shape.name));
        for field in &*shape.fields {
            if let Some(inner) = inner(&field.ty) {
                self.visit(inner, package);
            }
        }
    }
}

/// The package of a group and version.
pub(super) fn package(group: &str, version: &str) -> String {
    match group {
        "" => format!("io.k8s.api.core.{version}"),
        "apiextensions.k8s.io" => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}")
        }
        "apiregistration.k8s.io" => {
            format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}")
        }
        "internal.apiserver.k8s.io" => format!("io.k8s.api.apiserverinternal.{version}"),
        group if group.ends_with(".k8s.io") || !group.contains('.') => {
            let name = group.split('.').next().unwrap_or_default();
            format!("io.k8s.api.{name}.{version}")
        }
        group => {
            let reversed: Vec<_> = group.rsplit('.').collect();
            format!("{}.{version}", reversed.join("."))
        }
    }
}

/// The named shape that a type leads to.
fn inner(ty: &Type) -> Option<&Struct> {
    match ty {
        Type::Object(Link::Shared(_)) => None,
        Type::Object(shape) | Type::Either(shape, _) => Some(shape),
        Type::List(item) | Type::Map(item) => inner(item),
        _ => None,
    }
}

fn full(package: &str, name: &str) -> String {
    format!("{package}.{name}")
}

/// Whether the type belongs to all groups.
pub(crate) fn is_meta(name: &str) -> bool {
    matches!(
        name,
        "ObjectMeta"
            | "ListMeta"
            | "ShardInfo"
            | "OwnerReference"
            | "ManagedFieldsEntry"
            | "Condition"
            | "LabelSelector"
            | "LabelSelectorRequirement"
            | "FieldSelectorRequirement"
            | "GroupResource"
            | "DeleteOptions"
            | "Preconditions"
            | "Status"
            | "StatusDetails"
            | "StatusCause"
    )
}
