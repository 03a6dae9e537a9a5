//! Admission plugin for `adminAccess` to devices that are in use (DRA): it is allowed only in
//! namespaces with the label `resource.kubernetes.io/admin-access: "true"`.

use object::{Object, Value, View};
use schema::{ErrorList, FieldPath};
use server::{AdmissionAttributes, AdmissionPlugin, Operation};

const LABEL: &str = "resource.kubernetes.io/admin-access";

#[derive(Debug)]
pub(super) struct DeviceAdminAccess;

impl AdmissionPlugin for DeviceAdminAccess {
    fn name(&self) -> &'static str {
        "DeviceAdminAccess"
    }

    fn field_errors(&self, admission: &AdmissionAttributes, errs: &mut ErrorList) {
        let names = &admission.served.definition.names;
        if names.group != "resource.k8s.io" {
            return;
        }
        let (object, create) = (&admission.object, admission.operation == Operation::Create);
        let (wanted, at) = match (names.plural, admission.subresource) {
            ("resourceclaims", "") if create => (requested(object.get("spec")), REQUESTS),
            ("resourceclaimtemplates", "") if create => {
                (requested(object.get("spec").get("spec")), REQUESTS)
            }
            ("resourceclaims", "status") if admission.old.and_then(given).is_none() => {
                (given(object), RESULTS)
            }
            _ => return,
        };
        if let Some(first) = wanted.filter(|_| !namespace_allows_admin_access(admission)) {
            let why = format!(
                "admin access to devices requires the `{LABEL}: true` label on the containing \
                 namespace"
            );
            errs.forbidden(&FieldPath::Root.field(at).index(first).field("adminAccess"), why);
        }
    }
}

const REQUESTS: &str = "spec.devices.requests";
const RESULTS: &str = "status.allocation.devices.results";

/// Index of the first device request with `adminAccess`.
fn requested(spec: &Value) -> Option<usize> {
    let requests = spec.get("devices").get("requests").items();
    requests.iter().position(|request| asks(request.get("exactly")))
}

/// Index of the first allocation result with `adminAccess`.
fn given(claim: &Value) -> Option<usize> {
    let devices = claim.get("status").get("allocation").get("devices");
    devices.get("results").items().iter().position(asks)
}

fn asks(wish: &Value) -> bool {
    wish.get("adminAccess").as_bool().unwrap_or_default()
}

fn namespace_allows_admin_access(admission: &AdmissionAttributes) -> bool {
    let registry = admission.registry;
    let namespace = registry
        .kind("", "namespaces")
        .and_then(|kind| registry.get(&kind, "", &admission.namespace));
    namespace.is_ok_and(|namespace| {
        let labels = Object::view(&namespace.object).metadata().labels();
        labels.get(LABEL) == Some("true")
    })
}
