//! Devices that are in use may be looked at only from namespaces that are marked for it.

use object::{Object, Status, Value, View};
use schema::{Errors, Path};
use server::{Admission, Admit, Admitting, Operation};

const LABEL: &str = "resource.kubernetes.io/admin-access";

#[derive(Debug)]
pub(super) struct DeviceAdminAccess;

impl Admit for DeviceAdminAccess {
    fn name(&self) -> &'static str {
        "DeviceAdminAccess"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let done = check(admission);
        Box::pin(async move { done })
    }
}

fn check(admission: &Admission) -> Result<(), Status> {
    let of = |plural: &str| admission.is("resource.k8s.io", plural);
    let spec = admission.object.get("spec");
    let spec = match admission.operation {
        Operation::Create if of("resourceclaims") => spec,
        Operation::Create if of("resourceclaimtemplates") => spec.get("spec"),
        _ => return Ok(()),
    };
    let asks =
        |request: &Value| request.get("exactly").get("adminAccess").as_bool().unwrap_or_default();
    let requests = spec.get("devices").get("requests").items();
    match requests.iter().position(asks) {
        Some(first) if !is_marked(admission)? => Err(refused(admission, first)),
        _ => Ok(()),
    }
}

fn is_marked(admission: &Admission) -> Result<bool, Status> {
    let kind = admission.registry.kind("", "namespaces")?;
    let namespace = admission.registry.get(&kind, "", &admission.namespace)?;
    let labels = Object::view(&namespace.object).metadata().labels();
    Ok(labels.get(LABEL) == Some("true"))
}

fn refused(admission: &Admission, first: usize) -> Status {
    let mut errs = Errors::default();
    let at = Path::Root.field("spec");
    let at = at.field("devices");
    let at = at.field("requests");
    let why = format!(
        "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    );
    errs.forbidden(&at.index(first).field("adminAccess"), why);
    let names = &admission.served.definition.names;
    errs.status(names.group, names.kind, Object::view(&admission.object).metadata().name())
}
