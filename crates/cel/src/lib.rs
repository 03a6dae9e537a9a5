//! The Kubernetes dialect of the Common Expression Language (CEL): parser, type checker, cost estimation and evaluator.
//! Pure: it reads objects and computes values.

pub mod access;
mod ast;
mod attribute;
mod check;
mod cost;
mod decl_type;
pub mod device;
mod environment;
mod error;
mod escape;
mod eval;
mod function;
mod library;
mod pattern;
mod plan;
pub mod policy;
mod program;
mod rules;
mod source;
mod syntax;
mod types;
mod unify;
mod validate;
mod value;

pub use self::{
    cost::CostRange,
    decl_type::DeclType,
    environment::Environment,
    error::Error,
    escape::escape,
    library::{AccessRequest, Authorizer, Decision, ResourceAttributes, Url},
    program::{Bindings, CALL_LIMIT, INSTANTIATION_FAILED, Program},
    rules::CrdRuleCompiler,
    source::CompileErrors,
    types::Type,
    value::{Message, Value},
};
