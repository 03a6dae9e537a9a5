//! The route table: what answers requests to each resource and subresource. It is derived from the
//! definitions; a handler is needed exactly where a definition says that there is no object.

use std::collections::HashMap;

use object::Status;
use schema::{ResourceDefinition, Subresource, SubresourceStrategy};

use crate::{HandlerRef, ServedResources};

/// Group, resource and subresource; an empty subresource is the resource itself.
type RouteKey = (&'static str, &'static str, &'static str);

/// The handlers of everything that is not a plain object.
#[derive(Clone, Debug, Default)]
pub struct Handlers {
    endpoints: HashMap<RouteKey, HandlerRef>,
    /// Handlers of converted subresources by name. They serve custom resources too.
    conversions: HashMap<&'static str, HandlerRef>,
}

/// What answers a request.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// The registry: an object is read or written.
    Object,
    Handler(HandlerRef),
}

/// The routes of the built-in kinds, and the handlers for custom resources, which come and go.
#[derive(Debug, Default)]
pub struct RouteTable {
    routes: HashMap<RouteKey, Route>,
    handlers: Handlers,
}

/// A resource or subresource that is not an object and has no handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no handler for {0}")]
pub struct MissingHandler(String);

impl Handlers {
    /// Adds the handler of a resource, or of a subresource.
    pub fn add(
        &mut self,
        (group, resource, subresource): (&'static str, &'static str, &'static str),
        handler: HandlerRef,
    ) {
        self.endpoints.insert((group, resource, subresource), handler);
    }

    /// Adds the handler of a subresource that is converted, whatever resource has it.
    pub fn add_conversion(&mut self, subresource: &'static str, handler: HandlerRef) {
        self.conversions.insert(subresource, handler);
    }
}

impl RouteTable {
    /// Derives the routes of all resources that are served now.
    pub fn derive(kinds: &ServedResources, handlers: Handlers) -> Result<Self, MissingHandler> {
        let mut table = Self { routes: HashMap::new(), handlers };
        for served in kinds.all() {
            let definition = served.definition;
            let parts = definition.subresources.iter().map(Some);
            for part in [None].into_iter().chain(parts) {
                let name = part.map_or("", |part| part.name);
                let names = &definition.names;
                let route = table.resolve(&definition, part).ok_or_else(|| {
                    MissingHandler(format!("{}/{name} of {}", names.plural, names.api_version()))
                })?;
                table.routes.insert((names.group, names.plural, name), route);
            }
        }
        Ok(table)
    }

    /// The route of a resource or of a subresource that it declares.
    pub(crate) fn find(
        &self,
        definition: &ResourceDefinition,
        declared: Option<&Subresource>,
    ) -> Result<Route, Status> {
        let (group, resource) = (definition.names.group, definition.names.plural);
        let key = (group, resource, declared.map_or("", |declared| declared.name));
        let known = self.routes.get(&key).cloned();
        known.or_else(|| self.resolve(definition, declared)).ok_or_else(Status::unknown_resource)
    }

    fn resolve(
        &self,
        definition: &ResourceDefinition,
        declared: Option<&Subresource>,
    ) -> Option<Route> {
        let (group, resource) = (definition.names.group, definition.names.plural);
        let handler = |name| self.handlers.endpoints.get(&(group, resource, name));
        let handler = match declared {
            None if definition.is_stored() => return Some(Route::Object),
            Some(declared) if declared.strategy.is_object() => return Some(Route::Object),
            None => handler(""),
            Some(Subresource { name, strategy: SubresourceStrategy::Converted, .. }) => {
                self.handlers.conversions.get(name)
            }
            Some(declared) => handler(declared.name),
        };
        handler.cloned().map(Route::Handler)
    }
}
