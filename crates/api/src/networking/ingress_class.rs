//! networking/v1: IngressClass.

use macros::api;
use object::{ObjectMeta, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use crate::{columns, rules::ValidateField};

/// A class of ingresses, and the controller that implements it.
#[api]
pub struct IngressClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: IngressClassSpec,
}

#[api]
pub struct IngressClassSpec {
    /// Name of the controller, such as example.com/ingress.
    controller: String,
    /// Object with further settings for the controller.
    parameters: Option<IngressClassParametersReference>,
}

#[api]
pub struct IngressClassParametersReference {
    /// API group of the kind; empty for the core group.
    api_group: Option<String>,
    /// The kind of the object.
    kind: Must<String>,
    /// The name of the object.
    name: Must<String>,
    /// Cluster or Namespace.
    scope: Option<String>,
    /// The namespace of the object.
    namespace: Option<String>,
}

impl Kind for IngressClass {
    const NAMES: ResourceNames =
        ResourceNames::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["networking.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const GENERATION: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn { cell: |class: &Self, _| class.shown_name().into(), ..TableColumn::NAME },
        TableColumn::text("Controller", |class, _| class.spec().controller().into()),
        TableColumn::text("Parameters", |class, _| class.shown_parameters().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        let controller = at.field("controller");
        errs.max_bytes(&controller, spec.controller(), MAX_CONTROLLER);
        errs.domain_path(&controller, spec.controller());
        at.if_present("parameters", spec.parameters(), |parameters, at| parameters.check(at, errs));
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        let (new, old) = (self.spec().controller(), old.spec().controller());
        errs.immutable(&FieldPath::SPEC.field("controller"), &new.into(), &old.into());
        self.validate(errs);
    }

    fn default_fields(&mut self) {
        if self.spec().parameters().is_some_and(|parameters| parameters.scope().is_none()) {
            self.spec_mut().parameters_mut().set_scope("Cluster");
        }
    }
}

const MAX_CONTROLLER: usize = 250;
/// Marks the class of ingresses that name none.
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

impl IngressClass {
    fn shown_name(&self) -> String {
        let meta = self.metadata();
        let is_default = meta.annotations().get(DEFAULT) == Some("true");
        format!("{}{}", meta.name(), if is_default { " (default)" } else { "" })
    }

    fn shown_parameters(&self) -> String {
        let Some(parameters) = self.spec().parameters() else { return columns::NONE.into() };
        let group = parameters.api_group().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", parameters.kind(), parameters.name())
    }
}

impl IngressClassParametersReference {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        at.if_present("apiGroup", self.api_group(), |group, at| errs.subdomain(at, group));
        for (name, text) in [("kind", self.kind()), ("name", self.name())] {
            errs.required_field(at, name, text);
            errs.invalid_each(&at.field(name), text, names::path_segment_name(text));
        }
        let namespace = at.field("namespace");
        match (self.scope(), self.namespace()) {
            (None, _) => errs.required(&at.field("scope"), ""),
            (Some("Namespace"), None) => {
                errs.required(&namespace, "`parameters.scope` is set to 'Namespace'");
            }
            (Some("Namespace"), Some(name)) => errs.label(&namespace, name),
            (Some("Cluster"), Some(_)) => {
                errs.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
            }
            (Some("Cluster"), None) => {}
            (Some(scope), _) => {
                errs.not_supported(&at.field("scope"), scope, &["Cluster", "Namespace"]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, create_errors, created_from_json};

    #[test]
    fn a_class_has_a_controller_and_whole_parameters() {
        let class = created_from_json::<IngressClass>(
            r#"{"metadata":{"name":"a"},"spec":{"controller":"example.com/c",
                "parameters":{"kind":"K","name":"n","apiGroup":"g.example.com"}}}"#,
        );
        assert_eq!(class.spec().parameters().and_then(|it| it.scope()), Some("Cluster"));
        assert_eq!(cell(&class, "Parameters"), "K.g.example.com/n");
        let found = create_errors(&created_from_json::<IngressClass>(
            r#"{"metadata":{"name":"a"},"spec":{"parameters":{"kind":"K","name":"n",
                "scope":"Namespace"}}}"#,
        ));
        assert_eq!(
            found,
            [
                "spec.controller: Required value",
                "spec.parameters.namespace: Required value: `parameters.scope` is set to \
                 'Namespace'",
            ]
        );
    }
}
