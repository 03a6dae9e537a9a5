//! The authorizer library: `authorizer.group('apps').resource('deployments').check('create')`.

use std::{fmt, sync::Arc};

use object::names;

use super::{Opaque, Outcome, text_of};
use crate::{error::Error, function::Function, value::Value};

/// Answers authorization checks of expressions.
pub trait Authorizer: Send + Sync {
    fn check(&self, access: &AccessRequest<'_>) -> Decision;
}

/// An authorization check.
#[derive(Clone, Copy, Debug)]
pub enum AccessRequest<'a> {
    Path { user: Option<(&'a str, &'a str)>, path: &'a str, verb: &'a str },
    Resource { user: Option<(&'a str, &'a str)>, check: &'a ResourceAttributes, verb: &'a str },
}

/// The resource of a check. The user of an access request is that of the request, or the service account with this
/// namespace and name.
#[derive(Clone, Debug, Default)]
pub struct ResourceAttributes {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// The authorizer, with the user to check.
#[derive(Clone)]
pub struct BoundAuthorizer<'a> {
    authorizer: &'a dyn Authorizer,
    /// Namespace and name of a service account.
    user: Option<Arc<(String, String)>>,
}

impl fmt::Debug for BoundAuthorizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("user", &self.user).finish_non_exhaustive()
    }
}

impl BoundAuthorizer<'_> {
    fn user(&self) -> Option<(&str, &str)> {
        self.user.as_ref().map(|user| (user.0.as_str(), user.1.as_str()))
    }
}

/// A check of a non-resource path that is being built.
#[derive(Clone, Debug)]
pub struct PathCheck<'a> {
    authority: BoundAuthorizer<'a>,
    path: String,
}

/// A check that is being built, with an API group.
#[derive(Clone, Debug)]
pub struct GroupCheck<'a> {
    authority: BoundAuthorizer<'a>,
    group: String,
}

/// A check of a resource that is being built.
#[derive(Clone, Debug)]
pub struct ResourceCheck<'a> {
    authority: BoundAuthorizer<'a>,
    check: ResourceAttributes,
}

impl<'a> Value<'a> {
    /// The value of the variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        Self::Opaque(Opaque::Authorizer(BoundAuthorizer { authorizer, user: None }))
    }

    /// The value of the variable `authorizer.requestResource`.
    pub fn resource_check(authorizer: &'a dyn Authorizer, check: ResourceAttributes) -> Self {
        let authority = BoundAuthorizer { authorizer, user: None };
        Self::Opaque(Opaque::ResourceCheck(Arc::new(ResourceCheck { authority, check })))
    }
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        overloads: &[("authorizer_path", "Authorizer.(string) -> PathCheck")],
        body: |_, args| {
            let [Value::Opaque(Opaque::Authorizer(authority)), path] = args else {
                return Err(Error::no_overload());
            };
            let path = text_of(path)?.to_string();
            if path.trim().is_empty() {
                return Err(Error::new("path must not be empty"));
            }
            let check = PathCheck { authority: authority.clone(), path };
            Ok(Value::Opaque(Opaque::PathCheck(Arc::new(check))))
        },
    },
    Function {
        name: "group",
        overloads: &[("authorizer_group", "Authorizer.(string) -> GroupCheck")],
        body: |_, args| {
            let [Value::Opaque(Opaque::Authorizer(authority)), group] = args else {
                return Err(Error::no_overload());
            };
            let group = text_of(group)?.to_string();
            let check = GroupCheck { authority: authority.clone(), group };
            Ok(Value::Opaque(Opaque::GroupCheck(Arc::new(check))))
        },
    },
    Function {
        name: "serviceAccount",
        overloads: &[("authorizer_serviceaccount", "Authorizer.(string, string) -> Authorizer")],
        body: |_, args| service_account(args),
    },
    Function {
        name: "resource",
        overloads: &[("groupcheck_resource", "GroupCheck.(string) -> ResourceCheck")],
        body: |_, args| {
            let [Value::Opaque(Opaque::GroupCheck(group)), resource] = args else {
                return Err(Error::no_overload());
            };
            let resource = text_of(resource)?.to_string();
            if resource.trim().is_empty() {
                return Err(Error::new("resource must not be empty"));
            }
            let check = ResourceAttributes {
                group: group.group.clone(),
                resource,
                ..ResourceAttributes::default()
            };
            let check = ResourceCheck { authority: group.authority.clone(), check };
            Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new(check))))
        },
    },
    Function {
        name: "subresource",
        overloads: &[("resourcecheck_subresource", "ResourceCheck.(string) -> ResourceCheck")],
        body: |_, args| with(args, |check| &mut check.subresource),
    },
    Function {
        name: "namespace",
        overloads: &[("resourcecheck_namespace", "ResourceCheck.(string) -> ResourceCheck")],
        body: |_, args| with(args, |check| &mut check.namespace),
    },
    Function {
        name: "name",
        overloads: &[("resourcecheck_name", "ResourceCheck.(string) -> ResourceCheck")],
        body: |_, args| with(args, |check| &mut check.name),
    },
    Function {
        name: "fieldSelector",
        overloads: &[("authorizer_fieldselector", "ResourceCheck.(string) -> ResourceCheck")],
        body: |_, args| with(args, |check| &mut check.field_selector),
    },
    Function {
        name: "labelSelector",
        overloads: &[("authorizer_labelselector", "ResourceCheck.(string) -> ResourceCheck")],
        body: |_, args| with(args, |check| &mut check.label_selector),
    },
    Function {
        name: "check",
        overloads: &[
            ("pathcheck_check", "PathCheck.(string) -> Decision"),
            ("resourcecheck_check", "ResourceCheck.(string) -> Decision"),
        ],
        body: |_, args| check(args),
    },
    Function {
        name: "errored",
        overloads: &[("decision_errored", "Decision.() -> bool")],
        body: |_, args| decision(args, |decision| Value::Bool(decision.error.is_some())),
    },
    Function {
        name: "error",
        overloads: &[("decision_error", "Decision.() -> string")],
        body: |_, args| {
            decision(args, |decision| Value::text(decision.error.clone().unwrap_or_default()))
        },
    },
    Function {
        name: "allowed",
        overloads: &[("decision_allowed", "Decision.() -> bool")],
        body: |_, args| decision(args, |decision| Value::Bool(decision.allowed)),
    },
    Function {
        name: "reason",
        overloads: &[("decision_reason", "Decision.() -> string")],
        body: |_, args| decision(args, |decision| Value::text(decision.reason.clone())),
    },
];

fn service_account<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Authorizer(authority)), namespace, name] = args else {
        return Err(Error::no_overload());
    };
    let (namespace, name) = (text_of(namespace)?, text_of(name)?);
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    let user = Some(Arc::new((namespace.to_string(), name.to_string())));
    let authority = BoundAuthorizer { authorizer: authority.authorizer, user };
    Ok(Value::Opaque(Opaque::Authorizer(authority)))
}

fn with<'a>(args: &[Value<'a>], part: fn(&mut ResourceAttributes) -> &mut String) -> Outcome<'a> {
    let [Value::Opaque(Opaque::ResourceCheck(check)), text] = args else {
        return Err(Error::no_overload());
    };
    let mut check = (**check).clone();
    *part(&mut check.check) = text_of(text)?.to_string();
    Ok(Value::Opaque(Opaque::ResourceCheck(Arc::new(check))))
}

fn check<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(check), verb] = args else { return Err(Error::no_overload()) };
    let verb = &**text_of(verb)?;
    let decision = match check {
        Opaque::PathCheck(check) => {
            let PathCheck { authority, path } = &**check;
            authority.authorizer.check(&AccessRequest::Path { user: authority.user(), path, verb })
        }
        Opaque::ResourceCheck(check) => {
            let ResourceCheck { authority, check } = &**check;
            authority.authorizer.check(&AccessRequest::Resource {
                user: authority.user(),
                check,
                verb,
            })
        }
        _ => return Err(Error::no_overload()),
    };
    Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))))
}

fn decision<'a>(args: &[Value<'a>], part: fn(&Decision) -> Value<'static>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(part(decision)),
        _ => Err(Error::no_overload()),
    }
}
