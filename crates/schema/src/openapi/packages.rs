//! Names of types in OpenAPI documents: `io.k8s.api.apps.v1.Deployment`.
//!
//! The Rust module of a type determines its group. Versions with equal schemas share their types:
//! inside a kind of the same group, a type belongs to the kind's version.

use std::collections::HashMap;

use object::StructSchema;

use crate::{ResourceDefinition, ResourceNames};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta";

/// Packages whose types other groups use in a version that is not `v1`.
const NON_V1_PACKAGES: &[(&str, &str)] = &[("io.k8s.api.scheduling", "v1alpha3")];

/// Whether a type belongs to apimachinery, not to a group.
pub(crate) fn is_meta(shape: &StructSchema) -> bool {
    shape.rust_module.starts_with("object::") || shape.rust_module == "api::meta"
}

/// The package of a type: its name without the version, and the version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelPackage {
    stem: String,
    version: String,
}

impl ModelPackage {
    pub(super) fn of(group: &str, version: &str) -> Self {
        let package = package(group, version);
        let stem = package.strip_suffix(&format!(".{version}")).unwrap_or(&package);
        Self { stem: stem.to_owned(), version: version.to_owned() }
    }

    /// The package of a type that is referenced from this package.
    pub(super) fn leads_to(&self, shape: &StructSchema) -> Self {
        let mut modules = shape.rust_module.split("::");
        let stem = match (modules.next(), modules.next()) {
            _ if is_meta(shape) => META.to_owned(),
            (Some("api"), Some("internal")) => "io.k8s.api.apiserverinternal".to_owned(),
            (Some("api"), Some(group @ ("apiextensions" | "apiregistration"))) => {
                Self::of(&format!("{group}.k8s.io"), "v1").stem
            }
            (Some("api"), Some(group)) => format!("io.k8s.api.{group}"),
            _ => return self.clone(),
        };
        if stem == self.stem {
            return self.clone();
        }
        let version = NON_V1_PACKAGES.iter().find(|(other, _)| *other == stem);
        Self { version: version.map_or("v1", |(_, version)| version).to_owned(), stem }
    }

    pub(super) fn name(&self, shape: &StructSchema) -> String {
        format!("{}.{}.{}", self.stem, self.version, shape.name)
    }
}

/// The kinds of the types, by type.
#[derive(Debug, Default)]
pub(super) struct ModelNames {
    kinds: HashMap<*const StructSchema, Vec<ResourceNames>>,
}

impl ModelNames {
    pub(super) fn of(definitions: &[ResourceDefinition]) -> Self {
        let mut packages = Self::default();
        for definition in definitions.iter().filter(|definition| definition.is_built_in()) {
            let shape = std::ptr::from_ref(&*definition.schema);
            packages.kinds.entry(shape).or_default().push(definition.names);
        }
        packages
    }

    /// The kind whose objects have this type, in the version of the package.
    pub(super) fn kind(
        &self,
        shape: &StructSchema,
        package: &ModelPackage,
    ) -> Option<&ResourceNames> {
        let kinds = self.kinds.get(&std::ptr::from_ref(shape))?;
        kinds.iter().find(|names| names.version == package.version)
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
