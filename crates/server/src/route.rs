//! Routing: from a request that has passed the filters to its handler.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::Method;
use object::{Status, names::NAMESPACES};
use schema::{Subresource, SubresourceStrategy};

use crate::{
    Reply, Request, ServedResource, Server, aggregator,
    codec::body_type,
    negotiate::{EndpointRestrictions, negotiate_media_type},
    non_resource::serve_non_resource,
    object_requests::{form, serve_object},
    options::request_context,
    rejection::Rejection,
    respond::{no_method, page_not_found},
    route_table::Route,
};

/// The response of a handler; an error is sent as Status.
pub type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send + 'a>>;

/// Handles a resource or subresource that is not a plain object: reviews, logs, scale, token,
/// proxies.
pub trait EndpointHandler: fmt::Debug + Send + Sync {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a>;
}

/// A shared handler.
pub type HandlerRef = Arc<dyn EndpointHandler>;

/// The HTTP methods that proxies forward.
const PROXIED_METHODS: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// Routes a request to its handler.
pub(crate) async fn route(
    server: &Arc<Server>,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Rejection> {
    if let (Some(others), Some((group, version))) =
        (&server.aggregate, aggregator::group_version_of_path(&request.info.path))
        && others.has(group, version)
    {
        return Ok(others.handle(server, request).await?);
    }
    if !request.info.is_resource {
        return Ok(serve_non_resource(server, request).await?);
    }
    let info = &request.info;
    let kinds = server.registry.kinds();
    let Some(served) = kinds.get(&info.group, &info.version, &info.resource) else {
        return if kinds.has_group(&info.group) {
            Err(Status::unknown_resource().into())
        } else {
            Ok(page_not_found())
        };
    };
    let custom = served.definition.custom();
    if custom.is_some() && check_scope(&served, &request).is_err() {
        return Ok(page_not_found());
    }
    warnings.extend(custom.and_then(|custom| custom.deprecated.clone()));
    let declared = served.definition.subresource(&info.subresource);
    // Nothing follows a subresource in a path, except for proxies.
    if !info.rest.is_empty() && !is_proxy(declared) {
        return if custom.is_some() {
            Ok(page_not_found())
        } else {
            Err(Status::unknown_resource().into())
        };
    }
    check_method(&served, declared, &request)?;
    // Checked before any handler: the authorization was for the path in this scope.
    check_scope(&served, &request)?;
    warnings.extend(served.definition.deprecation_warning());
    server.metrics.mark_deprecated_requested(&served.definition, &info.subresource);
    match server.routes.find(&served.definition, declared)? {
        Route::Object => serve_object(server, served, request, warnings).await,
        Route::Handler(handler) => {
            if declared.is_none() {
                check_negotiable(&served, &request)?;
            }
            Ok(handler.handle(server, request).await?)
        }
    }
}

/// Checks that a request to a resource with a handler can be decoded and answered.
fn check_negotiable(served: &ServedResource, request: &Request) -> Result<(), Rejection> {
    if request.info.verb != "create" {
        return form(served, request).map(drop);
    }
    let (headers, query) = (&request.head.headers, &request.query);
    negotiate_media_type(headers, query, EndpointRestrictions::Part)?;
    body_type(headers, query)?;
    request_context(request)?;
    Ok(())
}

fn is_proxy(declared: Option<&Subresource>) -> bool {
    declared.is_some_and(|declared| declared.strategy == SubresourceStrategy::Proxy)
}

/// Checks that the resource or subresource exists at this path and supports the method.
fn check_method(
    served: &ServedResource,
    declared: Option<&Subresource>,
    request: &Request,
) -> Result<(), Status> {
    let info = &request.info;
    let verbs = match declared {
        Some(declared) => declared.verbs,
        None if info.subresource.is_empty() => served.definition.verbs,
        None if served.definition.is_custom() => {
            return Err(Status::not_found(served.subject(&info.name)));
        }
        None => return Err(Status::unknown_resource()),
    };
    let named = !info.name.is_empty();
    let elsewhere = served.definition.is_namespaced() && info.namespace.is_empty();
    let only_made = verbs == ["create"] && declared.is_none();
    if elsewhere && (named || only_made) || only_made && named {
        return Err(Status::unknown_resource());
    }
    let unnamed_change = !named && matches!(&*info.verb, "update" | "patch");
    let named_create = named && info.verb == "create" && declared.is_none();
    let reads = request.head.method == Method::GET;
    let allowed = verbs.contains(&&*info.verb)
        && request.head.method != Method::HEAD
        && (info.verb != "watch" || reads);
    let forwarded = is_proxy(declared) && PROXIED_METHODS.contains(&request.head.method.as_str());
    if !forwarded && (unnamed_change || named_create || !allowed) {
        return Err(no_method());
    }
    let connects = declared.is_some_and(|declared| declared.strategy.connects());
    if connects && request.query.get("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    Ok(())
}

/// Checks that the path has a namespace exactly if the kind is namespaced.
fn check_scope(served: &ServedResource, request: &Request) -> Result<(), Status> {
    let info = &request.info;
    let namespaced = served.definition.is_namespaced();
    let own = info.resource == NAMESPACES && info.namespace == info.name;
    let given = !info.namespace.is_empty() && !own;
    let all = matches!(&*info.verb, "list" | "watch");
    match (namespaced, given) {
        (true, false) if !all && info.name.is_empty() => Err(no_method()),
        (true, false) if !all => Err(Status::unknown_resource()),
        (false, true) => Err(Status::unknown_resource()),
        _ => Ok(()),
    }
}
