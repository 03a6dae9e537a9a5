//! Admission policies: compilation and evaluation of their expressions.

mod expression;
mod mutating;
mod scope;
mod session;
mod validating;

pub use self::{
    expression::{Expected, Expression},
    mutating::{MutatingPolicy, Mutation},
    scope::{VariableScope, Variables},
    validating::{MatchConditions, PolicyResult, ValidatingPolicy, ValidationDecision},
};

use crate::{
    decl_type::DeclType,
    error::Error,
    library::{Authorizer, ResourceAttributes},
    program::Bindings,
    value::Value,
};

/// Cost budget of one request, about a second.
pub const COST_BUDGET: u64 = 10_000_000;
/// Cost budget of the match conditions.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;
/// Maximum length in bytes of a message that an expression returns.
pub const MAX_MESSAGE_LENGTH: usize = 5 * 1024;

/// A request, as expressions see it.
#[derive(Clone)]
pub struct PolicyInputs<'a> {
    pub object: &'a object::Value,
    pub old_object: &'a object::Value,
    /// The declaration of the objects, where more than their JSON is known.
    pub node: Option<&'a DeclType>,
    pub request: &'a object::Value,
    /// The Namespace of the object; `NULL` if it has none.
    pub namespace: &'a object::Value,
    pub namespace_node: Option<&'a DeclType>,
    pub params: &'a object::Value,
    pub params_node: Option<&'a DeclType>,
    pub authorizer: Option<(&'a dyn Authorizer, ResourceAttributes)>,
}

impl std::fmt::Debug for PolicyInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs").field("request", self.request).finish_non_exhaustive()
    }
}

impl<'a> PolicyInputs<'a> {
    /// A request for `object`, without any other inputs.
    pub fn new(object: &'a object::Value, request: &'a object::Value) -> Self {
        Self {
            object,
            old_object: &object::NULL,
            node: None,
            request,
            namespace: &object::NULL,
            namespace_node: None,
            params: &object::NULL,
            params_node: None,
            authorizer: None,
        }
    }

    /// The variables of every expression.
    fn bindings(&self) -> Result<Bindings<'a>, Error> {
        let bindings = Bindings::new()
            .tree("object", self.object, self.node)?
            .tree("oldObject", self.old_object, self.node)?
            .tree("request", self.request, None)?
            .tree("namespaceObject", self.namespace, self.namespace_node)?
            .tree("params", self.params, self.params_node)?;
        Ok(match &self.authorizer {
            Some((authorizer, check)) => {
                bindings.value("authorizer", Value::authorizer(*authorizer)).value(
                    "authorizer.requestResource",
                    Value::resource_check(*authorizer, check.clone()),
                )
            }
            None => bindings,
        })
    }
}
