//! Managers that speak another version of a kind: what an object is to them.

use std::sync::Arc;

use object::{Object, Struct, Text, Value, View};
use schema::{
    Definition,
    apply::{ApplyError, Versions},
};

use super::{Registry, manage::reset_of};
use crate::{Served, convert};

/// The versions of a kind, and what somebody has said that objects are in them.
#[derive(Debug)]
pub(super) struct Others<'a> {
    served: &'a Served,
    subresource: &'a str,
    told: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    object: Value,
    version: Text,
    answer: Result<Value, String>,
}

impl<'a> Others<'a> {
    pub(super) fn of(served: &'a Served, subresource: &'a str) -> Self {
        Self { served, subresource, told: Vec::new() }
    }

    /// What is decided as soon as all is known that it takes.
    pub(super) async fn decide<T>(
        &mut self,
        registry: &Registry,
        decide: impl Fn(&Self) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        loop {
            let (object, version) = match decide(self) {
                Err(ApplyError::Unseen(question)) => *question,
                done => return done,
            };
            let to = self.version(&version).ok_or_else(|| no_version(&version))?;
            let asked = convert::ask(registry.converter.get(), to, vec![object.clone()]).await;
            let answer = asked.and_then(|mut made| made.pop().ok_or_else(|| "nothing".to_owned()));
            self.told.push(Told { object, version, answer });
        }
    }

    fn version(&self, api_version: &str) -> Option<&Arc<Definition>> {
        let is = |own: &&Arc<Definition>| own.names.api_version() == api_version;
        self.served.versions.iter().find(is)
    }

    fn in_version(&self, api_version: &str) -> Option<Served> {
        let definition = self.version(api_version)?.clone();
        Some(Served { definition, ..self.served.clone() })
    }

    /// A custom object in another version. All of them go through the one that the request speaks.
    fn custom(&self, object: &Value, api_version: &str) -> Result<Value, ApplyError> {
        let (own, from) =
            (self.served.definition.names.api_version(), Object::view(object).api_version());
        if from != own && api_version != own {
            return self.custom(&self.custom(object, &own)?, api_version);
        }
        let told = |told: &&Told| told.version == api_version && told.object == *object;
        if !self.served.asks() || Object::view(object).metadata().name().is_empty() {
            let mut object = object.clone();
            object["apiVersion"] = api_version.into();
            return Ok(object);
        }
        match self.told.iter().find(told) {
            Some(Told { answer: Ok(made), .. }) => Ok(made.clone()),
            Some(Told { answer: Err(why), .. }) => Err(ApplyError::Failed(why.clone())),
            None => Err(ApplyError::Unseen(Box::new((object.clone(), api_version.into())))),
        }
    }
}

impl Versions for Others<'_> {
    fn shape(&self, api_version: &str) -> Result<Option<&Struct>, ApplyError> {
        match self.version(api_version) {
            None if self.served.kept.is_some() => Err(no_version(api_version)),
            known => Ok(known.map(|known| &*known.shape)),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApplyError> {
        if self.served.kept.is_some() {
            return self.custom(object, api_version);
        }
        let mut object = object.clone();
        let from = self.in_version(Object::view(&object).api_version());
        if let (Some(from), Some(to)) = (from, self.in_version(api_version)) {
            from.stored(&mut object);
            to.shown(&mut object);
            to.definition.drop_hollow(&mut object, &Value::Null);
        }
        Ok(object)
    }

    fn reset(&self) -> &'static [&'static [&'static str]] {
        match (&self.served.kept, self.subresource) {
            (Some(_), "") => &[],
            (_, subresource) => reset_of(self.served, subresource),
        }
    }
}

fn no_version(api_version: &str) -> ApplyError {
    let why = format!("request to convert CR to an invalid group/version: {api_version}");
    ApplyError::Failed(why)
}
