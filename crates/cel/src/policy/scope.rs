//! The variables that a policy's expressions may use.

use std::sync::Arc;

use crate::{decl_type::DeclType, environment::Environment, types::Type};

/// Which variables are available in addition to those of every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct VariableScope {
    pub params: bool,
    pub authorizer: bool,
    /// Whether mutations can be written: `Object{}`, `JSONPatch{}`.
    pub mutation: bool,
    /// Whether the policy declares variables.
    pub variables: bool,
}

/// The variables that a policy declares, with their types. Clones share structure, so that each variable can have an
/// environment with the previous ones.
#[derive(Clone, Debug, Default)]
pub struct Variables(imbl::HashMap<Arc<str>, Type>);

impl Variables {
    /// Declares a variable. Of several with the same name the first determines the type.
    pub fn declare(&mut self, name: &str, ty: Type) {
        if !self.0.contains_key(name) {
            self.0.insert(name.into(), ty);
        }
    }

    pub(crate) fn ty(&self, name: &str) -> Option<&Type> {
        self.0.get(name)
    }
}

const VARIABLES: &str = "kubernetes.variables";

impl VariableScope {
    /// The environment with these variables.
    pub fn environment(self, variables: &Variables) -> Arc<Environment> {
        self.typed(variables, None, None)
    }

    /// Like `environment`, with known types of the objects and of the parameters.
    pub fn typed(
        self,
        variables: &Variables,
        object: Option<&Arc<DeclType>>,
        params: Option<&Arc<DeclType>>,
    ) -> Arc<Environment> {
        let of = |environment: Environment, name: &str, node: Option<&Arc<DeclType>>| match node {
            Some(node) if node.ty().is_some() => environment.with_node(name, node),
            _ => environment.with_variable(name, Type::Dyn),
        };
        let environment = request_types(namespace_types(Environment::new()));
        let environment = of(of(environment, "object", object), "oldObject", object);
        let mut environment = environment
            .with_variable("namespaceObject", Type::named("kubernetes.Namespace"))
            .with_variable("request", Type::named("kubernetes.AdmissionRequest"));
        if self.variables {
            environment = environment
                .with_variable("variables", Type::named(VARIABLES))
                .with_declared(VARIABLES, variables);
        }
        if self.params {
            environment = of(environment, "params", params);
        }
        if self.authorizer {
            let authorizer = |name: &str| Type::named(&format!("kubernetes.authorization.{name}"));
            environment = environment
                .with_variable("authorizer", authorizer("Authorizer"))
                .with_variable("authorizer.requestResource", authorizer("ResourceCheck"));
        }
        if self.mutation {
            environment = environment.with_mutation();
        }
        Arc::new(environment)
    }
}

fn request_types(environment: Environment) -> Environment {
    let texts = || Type::list(Type::Text);
    let kind = || Type::named("kubernetes.GroupVersionKind");
    let resource = || Type::named("kubernetes.GroupVersionResource");
    environment
        .with_structure(
            "kubernetes.GroupVersionKind",
            &[("group", Type::Text), ("version", Type::Text), ("kind", Type::Text)],
        )
        .with_structure(
            "kubernetes.GroupVersionResource",
            &[("group", Type::Text), ("version", Type::Text), ("resource", Type::Text)],
        )
        .with_structure(
            "kubernetes.UserInfo",
            &[
                ("username", Type::Text),
                ("uid", Type::Text),
                ("groups", texts()),
                ("extra", Type::map(Type::Text, texts())),
            ],
        )
        .with_structure(
            "kubernetes.AdmissionRequest",
            &[
                ("kind", kind()),
                ("resource", resource()),
                ("subResource", Type::Text),
                ("requestKind", kind()),
                ("requestResource", resource()),
                ("requestSubResource", Type::Text),
                ("name", Type::Text),
                ("namespace", Type::Text),
                ("operation", Type::Text),
                ("userInfo", Type::named("kubernetes.UserInfo")),
                ("dryRun", Type::Bool),
                ("options", Type::Dyn),
            ],
        )
}

fn namespace_types(environment: Environment) -> Environment {
    let texts = || Type::list(Type::Text);
    let labels = || Type::map(Type::Text, Type::Text);
    environment
        .with_structure("kubernetes.NamespaceSpec", &[("finalizers", texts())])
        .with_structure(
            "kubernetes.NamespaceCondition",
            &[
                ("status", Type::Text),
                ("type", Type::Text),
                ("lastTransitionTime", Type::Timestamp),
                ("message", Type::Text),
                ("reason", Type::Text),
            ],
        )
        .with_structure(
            "kubernetes.NamespaceStatus",
            &[
                ("conditions", Type::list(Type::named("kubernetes.NamespaceCondition"))),
                ("phase", Type::Text),
            ],
        )
        .with_structure(
            "kubernetes.NamespaceMetadata",
            &[
                ("name", Type::Text),
                ("generateName", Type::Text),
                ("namespace", Type::Text),
                ("labels", labels()),
                ("annotations", labels()),
                ("UID", Type::Text),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", Type::Text),
                ("finalizers", texts()),
            ],
        )
        .with_structure(
            "kubernetes.Namespace",
            &[
                ("metadata", Type::named("kubernetes.NamespaceMetadata")),
                ("spec", Type::named("kubernetes.NamespaceSpec")),
                ("status", Type::named("kubernetes.NamespaceStatus")),
            ],
        )
}
