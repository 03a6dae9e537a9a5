//! What may change or refuse a write between its decoding and the store.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules and reviews write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write on its way, in the stored version.
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
    /// What is to be stored; `Null` on deletion.
    pub object: Value,
    pub old: Option<&'a Value>,
    /// That of the old object; 0: there is none.
    pub revision: u64,
    pub reinvocation: Reinvocation,
    pub dry_run: bool,
    pub options: &'a WriteOptions,
    /// How a deletion is meant.
    pub delete: Option<&'a DeleteRequest>,
    pub(crate) output: Mutex<AdmissionOutput>,
}

/// What a request says of its write besides.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub field_manager: Text,
    pub field_validation: Text,
}

/// Plugins that change objects may have to look again at what those behind them changed.
#[derive(Clone, Debug, Default)]
pub struct Reinvocation {
    /// 0, then 1.
    pub round: u8,
    /// Whether somebody asks for the second round.
    pub wanted: bool,
    /// Those who were asked, and want to be asked again if others change something.
    pub invoked: Vec<Text>,
    /// Those of them about whom that has come true.
    pub to_reinvoke: Vec<Text>,
    /// What each plugin left behind.
    pub last: BTreeMap<&'static str, Value>,
}

impl Reinvocation {
    /// Somebody changed the object: those who were asked before are asked again.
    pub fn mark_changed(&mut self) {
        self.wanted = true;
        self.to_reinvoke.append(&mut self.invoked);
    }

    /// Whether a plugin begins its second round, and others changed the object since its first.
    pub fn should_reinvoke(&mut self, plugin: &'static str, object: &Value) -> bool {
        let again = self.round > 0;
        if again && self.last.remove(plugin).as_ref() != Some(object) {
            self.to_reinvoke.append(&mut self.invoked);
        }
        again
    }
}

/// What plugins say besides yes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionOutput {
    pub(crate) warnings: Vec<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl AdmissionAttributes<'_> {
    /// Tells the caller something though the write succeeds.
    pub fn warn(&self, warning: impl Into<String>) {
        let mut said = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        said.warnings.push(warning.into());
    }

    /// Notes something for those who audit, under a key that says whose it is. What was noted
    /// under it before stays.
    pub fn annotate(&self, key: &str, value: String) {
        if !key.contains('/') || !qualified_name(key).is_empty() {
            warn!(key, "an annotation for the audit log has no proper key");
            return;
        }
        let mut said = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        said.annotations.entry(key.to_owned()).or_insert(value);
    }

    pub(crate) fn take_output(&mut self) -> AdmissionOutput {
        std::mem::take(self.output.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this is about objects of that group and resource, not about a part of them.
    pub fn is_resource(&self, group: &str, resource: &str) -> bool {
        let names = &self.served.definition.names;
        self.subresource.is_empty() && names.group == group && names.plural == resource
    }

    /// Refuses the write, in upstream's form. A name may not have been made yet.
    pub fn forbidden(&self, why: &str) -> Status {
        let names = [&*self.name, self.meta().name(), self.meta().generate_name()];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(self.served.subject(name), why)
    }

    pub fn meta(&self) -> &object::ObjectMeta {
        Object::view(&self.object).metadata()
    }
}

pub type AdmissionFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// One admission plugin. They run in the order of one list: all `mutate`, then
/// the object is checked, then all `validate`.
pub trait AdmissionPlugin: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn mutate<'a>(&'a self, _admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// Finds what is wrong with the object, to be told with all that its kind finds.
    fn field_errors(&self, _admission: &AdmissionAttributes, _errs: &mut ErrorList) {}

    fn validate<'a>(&'a self, _admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}
