//! Conversion between versions for field management: managers may own fields in other versions of a
//! kind.

use std::sync::Arc;

use object::{Object, StructSchema, Text, Value, View};
use schema::{
    ResourceDefinition,
    apply::{ApplyError, VersionConverter},
};

use super::{Registry, managed_fields::reset_of};
use crate::{ServedResource, convert};

/// Converts objects between the versions of a kind, with the webhook's answers so far.
#[derive(Debug)]
pub(super) struct WebhookVersionConverter<'a> {
    served: &'a ServedResource,
    subresource: &'a str,
    told: Vec<CachedConversion>,
}

/// The webhook's answer for one object and version.
#[derive(Debug)]
struct CachedConversion {
    object: Value,
    version: Text,
    answer: Result<Value, String>,
}

impl<'a> WebhookVersionConverter<'a> {
    pub(super) fn of(served: &'a ServedResource, subresource: &'a str) -> Self {
        Self { served, subresource, told: Vec::new() }
    }

    /// Runs `decide`, and repeats it after calling the webhook as long as it needs a further
    /// conversion.
    pub(super) async fn resolve<T>(
        &mut self,
        registry: &Registry,
        decide: impl Fn(&Self) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        loop {
            let (object, version) = match decide(self) {
                Err(ApplyError::NeedsConversion(question)) => *question,
                done => return done,
            };
            let to = self.version(&version).ok_or_else(|| no_version(&version))?;
            let asked =
                convert::call_webhook(registry.converter.get(), to, vec![object.clone()]).await;
            let answer = asked.and_then(|mut made| made.pop().ok_or_else(|| "nothing".to_owned()));
            self.told.push(CachedConversion { object, version, answer });
        }
    }

    fn version(&self, api_version: &str) -> Option<&Arc<ResourceDefinition>> {
        let is = |own: &&Arc<ResourceDefinition>| own.names.api_version() == api_version;
        self.served.versions.iter().find(is)
    }

    fn in_version(&self, api_version: &str) -> Option<ServedResource> {
        let definition = self.version(api_version)?.clone();
        Some(ServedResource { definition, ..self.served.clone() })
    }

    /// Converts a custom resource. Conversions between two other versions go through the version of
    /// the request.
    fn custom(&self, object: &Value, api_version: &str) -> Result<Value, ApplyError> {
        let (own, from) =
            (self.served.definition.names.api_version(), Object::view(object).api_version());
        if from != own && api_version != own {
            return self.custom(&self.custom(object, &own)?, api_version);
        }
        let told = |told: &&CachedConversion| told.version == api_version && told.object == *object;
        if !self.served.needs_conversion_webhook()
            || Object::view(object).metadata().name().is_empty()
        {
            let mut object = object.clone();
            object["apiVersion"] = api_version.into();
            return Ok(object);
        }
        match self.told.iter().find(told) {
            Some(CachedConversion { answer: Ok(made), .. }) => Ok(made.clone()),
            Some(CachedConversion { answer: Err(why), .. }) => Err(ApplyError::Failed(why.clone())),
            None => {
                Err(ApplyError::NeedsConversion(Box::new((object.clone(), api_version.into()))))
            }
        }
    }
}

impl VersionConverter for WebhookVersionConverter<'_> {
    fn shape(&self, api_version: &str) -> Result<Option<&StructSchema>, ApplyError> {
        match self.version(api_version) {
            None if self.served.storage_version.is_some() => Err(no_version(api_version)),
            known => Ok(known.map(|known| &*known.schema)),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApplyError> {
        if self.served.storage_version.is_some() {
            return self.custom(object, api_version);
        }
        let mut object = object.clone();
        let from = self.in_version(Object::view(&object).api_version());
        if let (Some(from), Some(to)) = (from, self.in_version(api_version)) {
            from.to_internal_version(&mut object);
            to.to_request_version(&mut object);
            to.definition.drop_new_empty(&mut object, &Value::Null);
        }
        Ok(object)
    }

    fn reset(&self) -> &'static [&'static [&'static str]] {
        match (&self.served.storage_version, self.subresource) {
            (Some(_), "") => &[],
            (_, subresource) => reset_of(self.served, subresource),
        }
    }
}

fn no_version(api_version: &str) -> ApplyError {
    let why = format!("request to convert CR to an invalid group/version: {api_version}");
    ApplyError::Failed(why)
}
