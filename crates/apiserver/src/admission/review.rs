//! The `request` of an AdmissionReview, for webhooks and for CEL expressions.

use object::{Object, Text, Value, View};
use server::{AdmissionAttributes, Operation, ServedResource, UserInfo};

/// Builds the request in the version `seen`; `shown` converts its objects to that version.
pub(super) fn request(
    admission: &AdmissionAttributes<'_>,
    seen: &ServedResource,
    shown: impl Fn(&Value) -> Value,
) -> Value {
    let own = admission.served;
    let mut request = Value::object();
    request["uid"] = "".into();
    request["kind"] = kind(seen, &admission.object);
    request["resource"] = resource(seen);
    request["requestKind"] = kind(own, &admission.object);
    request["requestResource"] = resource(own);
    for (field, text) in [
        ("subResource", admission.subresource),
        ("requestSubResource", admission.subresource),
        ("name", admission.name.as_str()),
        ("namespace", admission.namespace.as_str()),
    ] {
        if !text.is_empty() {
            request[field] = text.into();
        }
    }
    request["operation"] = match admission.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
    .into();
    request["userInfo"] = user(admission.user);
    let object = Some(&admission.object).filter(|object| !object.is_null());
    request["object"] = object.map_or(Value::Null, &shown);
    request["oldObject"] = admission.old.map_or(Value::Null, &shown);
    request["dryRun"] = admission.dry_run.into();
    request["options"] = options(admission);
    request
}

/// The options of the operation, such as CreateOptions.
fn options(admission: &AdmissionAttributes<'_>) -> Value {
    let kind = match admission.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = Value::object();
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    if admission.dry_run {
        options["dryRun"] = ["All"].into_iter().collect();
    }
    let mut say = |field: &str, text: &str| {
        if !text.is_empty() {
            options[field] = text.into();
        }
    };
    let Some(delete) = admission.delete else {
        say("fieldManager", &admission.options.field_manager);
        say("fieldValidation", &admission.options.field_validation);
        return options;
    };
    say("propagationPolicy", &delete.propagation);
    if let Some(seconds) = delete.grace_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    for (field, wanted) in [("uid", &delete.uid), ("resourceVersion", &delete.revision)] {
        if let Some(wanted) = wanted {
            options["preconditions"][field] = wanted.clone().into();
        }
    }
    options
}

/// The kind of the object: that of the resource, or that of a subresource's body.
fn kind(served: &ServedResource, object: &Value) -> Value {
    let (names, view) = (&served.definition.names, Object::view(object));
    let (group, version) = match view.api_version().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", view.api_version()),
    };
    let own = [names.group, names.version, names.kind];
    let part = !view.kind().is_empty() && view.kind() != served.internal.names.kind;
    let [group, version, name] = if part { [group, version, view.kind()] } else { own };
    let mut kind = Value::object();
    kind["group"] = group.into();
    kind["version"] = version.into();
    kind["kind"] = name.into();
    kind
}

fn resource(served: &ServedResource) -> Value {
    let names = &served.definition.names;
    let mut resource = Value::object();
    resource["group"] = names.group.into();
    resource["version"] = names.version.into();
    resource["resource"] = names.plural.into();
    resource
}

fn user(user: &UserInfo) -> Value {
    let mut info = Value::object();
    info["username"] = user.name.clone().into();
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    info["groups"] = user.groups.iter().map(Text::as_str).collect();
    for (name, values) in &user.extra {
        info["extra"][name.as_str()] = values.iter().map(String::as_str).collect();
    }
    info
}
