//! Admission: the attributes of a write, and the plugins that may change or reject it between
//! decoding and storage.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use object::{Object, Status, Text, Value, View, names::qualified_name};
use schema::ErrorList;
use tracing::warn;

use crate::{DeleteRequest, Registry, ServedResource, UserInfo};

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The name that webhook rules and admission reviews use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The attributes of a write in admission. Its objects are in the storage version.
#[derive(Debug)]
pub struct AdmissionAttributes<'a> {
    pub registry: &'a Registry,
    pub served: &'a ServedResource,
    pub user: &'a UserInfo,
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub namespace: Text,
    pub name: Text,
    /// The object to store; `Null` on deletion.
    pub object: Value,
    pub old: Option<&'a Value>,
    /// Revision of the old object; 0 if there is none.
    pub revision: u64,
    pub reinvocation: Reinvocation,
    pub dry_run: bool,
    pub options: &'a WriteOptions,
    /// The options of a deletion.
    pub delete: Option<&'a DeleteRequest>,
    pub(crate) output: Mutex<AdmissionOutput>,
}

/// Options of a create, update or patch request.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub field_manager: Text,
    pub field_validation: Text,
}

/// State of mutating admission across its two rounds. A plugin may have to run again on what later
/// plugins changed (`reinvocationPolicy: IfNeeded`).
#[derive(Clone, Debug, Default)]
pub struct Reinvocation {
    /// 0 in the first round, 1 in the second.
    pub round: u8,
    /// Whether a second round is needed.
    pub wanted: bool,
    /// Webhooks and policies that were invoked, and need to be invoked again if the object changes.
    pub invoked: Vec<Text>,
    /// Those of `invoked` after which the object was changed: the second round invokes them again.
    pub to_reinvoke: Vec<Text>,
    /// The object as each plugin left it.
    pub last: BTreeMap<&'static str, Value>,
}

impl Reinvocation {
    /// Records that the object was changed: all plugins invoked so far are to be invoked again.
    pub fn mark_changed(&mut self) {
        self.wanted = true;
        self.to_reinvoke.append(&mut self.invoked);
    }

    /// Whether this is the second round of a plugin. If other plugins changed the object since its
    /// first round, everything invoked so far is marked for reinvocation.
    pub fn should_reinvoke(&mut self, plugin: &'static str, object: &Value) -> bool {
        let again = self.round > 0;
        if again && self.last.remove(plugin).as_ref() != Some(object) {
            self.to_reinvoke.append(&mut self.invoked);
        }
        again
    }
}

/// Warnings and audit annotations of the admission plugins.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionOutput {
    pub(crate) warnings: Vec<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl AdmissionAttributes<'_> {
    /// Adds a warning to the response, which may still be a success.
    pub fn warn(&self, warning: impl Into<String>) {
        let mut said = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        said.warnings.push(warning.into());
    }

    /// Adds an audit annotation. The key must be qualified by the plugin's domain. An earlier value
    /// of the same key is kept.
    pub fn annotate(&self, key: &str, value: String) {
        if !key.contains('/') || !qualified_name(key).is_empty() {
            warn!(key, "invalid key of an audit annotation");
            return;
        }
        let mut said = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        said.annotations.entry(key.to_owned()).or_insert(value);
    }

    pub(crate) fn take_output(&mut self) -> AdmissionOutput {
        std::mem::take(self.output.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the write is to an object of this group and resource, not to a subresource.
    pub fn is_resource(&self, group: &str, resource: &str) -> bool {
        let names = &self.served.definition.names;
        self.subresource.is_empty() && names.group == group && names.plural == resource
    }

    /// Builds the Forbidden status that rejects the write, as upstream words it. An object whose
    /// name is not generated yet is called by its `generateName`.
    pub fn forbidden(&self, why: &str) -> Status {
        let names = [&*self.name, self.meta().name(), self.meta().generate_name()];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(self.served.subject(name), why)
    }

    /// The metadata of the object.
    pub fn meta(&self) -> &object::ObjectMeta {
        Object::view(&self.object).metadata()
    }
}

/// The result of an admission plugin; an error rejects the write.
pub type AdmissionFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// An admission plugin. Plugins run in the order of one list: first `mutate` of all, then
/// validation of the object, then `validate` of all.
pub trait AdmissionPlugin: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn mutate<'a>(&'a self, _admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// Adds validation errors, which are reported together with those of the object's kind.
    fn field_errors(&self, _admission: &AdmissionAttributes, _errs: &mut ErrorList) {}

    fn validate<'a>(&'a self, _admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}
