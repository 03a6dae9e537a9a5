//! Selection of objects by namespace, labels and fields.

use object::{
    Object, Text, Value, View,
    selector::{FieldSelector, Selector},
};
use schema::ResourceDefinition;
use store::Topic;

use crate::ServedResource;

/// Selects objects; the default selects all of them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub namespace: Text,
    pub labels: Selector,
    pub fields: FieldSelector,
}

impl Selection {
    /// Selects all objects of a namespace.
    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..Self::default() }
    }

    pub(crate) fn matches(&self, served: &ServedResource, object: &Value) -> bool {
        let meta = Object::view(object).metadata();
        let field = |name: &str| field(served, object, name).unwrap_or_default();
        (self.namespace.is_empty() || self.namespace == meta.namespace())
            && self.labels.matches(meta.labels())
            && (self.fields.is_empty() || self.fields.matches(field))
    }

    /// Whether it selects everything in its namespace.
    pub(crate) fn is_whole(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The part of the selection that holds in every version of an object: name and namespace.
    pub(crate) fn lasting(&self) -> Self {
        let mut fields = self.fields.clone();
        fields.terms.retain(|term| matches!(&*term.field, "metadata.name" | "metadata.namespace"));
        Self { namespace: self.namespace.clone(), labels: Selector::default(), fields }
    }

    /// The name, if the selection requires one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.required_value("metadata.name")
    }

    /// The narrowest watch topic that includes every event of the selection.
    pub(crate) fn topic(&self, kind: &ResourceDefinition) -> Topic {
        for index in kind.strategy.watch_topic_fields() {
            if let Some(value) = self.fields.required_value(index) {
                return Topic::Index(index.into(), value.into());
            }
        }
        let namespace = match self.fields.required_value("metadata.namespace") {
            Some(namespace) => namespace,
            None => &self.namespace,
        };
        match self.name() {
            Some(name) if !namespace.is_empty() || !kind.is_namespaced() => {
                Topic::Name(format!("{namespace}/{name}").into())
            }
            _ if namespace.is_empty() => Topic::All,
            _ => Topic::Namespace(namespace.into()),
        }
    }
}

/// The value of a selectable field.
fn field(served: &ServedResource, object: &Value, name: &str) -> Option<Text> {
    let meta = Object::view(object).metadata();
    match name {
        "metadata.name" => Some(meta.name().into()),
        "metadata.namespace" => Some(meta.namespace().into()),
        name => served.internal.strategy.selectable_field_value(object, name).or_else(|| {
            // The version of the request may have another name for the field.
            let mut object = object.clone();
            served.to_request_version(&mut object);
            served.definition.strategy.selectable_field_value(&object, name)
        }),
    }
}
