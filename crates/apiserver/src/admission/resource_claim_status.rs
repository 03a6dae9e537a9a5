//! Fine-grained authorization of ResourceClaim status updates: the scheduler writes the allocation
//! and `reservedFor`, each driver the status of its own devices. In addition to
//! `resourceclaims/status`, upstream requires permission on `resourceclaims/binding` and
//! `resourceclaims/driver`, which exist for authorization only and are not served.

use std::collections::BTreeSet;

use object::{
    Status, Value,
    names::{dns1123_label, dns1123_subdomain},
};
use schema::{ErrorList, FieldPath};
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Attributes, Operation, UserInfo,
};

use super::AuthorizerChain;

const NODE: &str = "authentication.kubernetes.io/node-name";
const STATUS: FieldPath = FieldPath::Root.field("status");

#[derive(Debug)]
pub(super) struct ResourceClaimStatus {
    pub(super) rights: AuthorizerChain,
}

impl AdmissionPlugin for ResourceClaimStatus {
    fn name(&self) -> &'static str {
        "ResourceClaimStatus"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

impl ResourceClaimStatus {
    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let names = &admission.served.definition.names;
        let is_status = (names.group, names.plural, admission.subresource)
            == ("resource.k8s.io", "resourceclaims", "status");
        let (true, Operation::Update, Some(old)) = (is_status, admission.operation, admission.old)
        else {
            return Ok(());
        };
        let (old, new) = (old.get("status"), admission.object.get("status"));
        let mut errs = ErrorList::default();
        let binds = ["allocation", "reservedFor"].iter().any(|name| old.get(name) != new.get(name));
        if binds && !self.may(admission, &["update", "patch"], ("binding", "", "")).await {
            let why = "changing status.allocation or status.reservedFor requires \
                       resource=\"resourceclaims/binding\", verb=\"update\" permission";
            errs.forbidden(&STATUS.field("allocation"), why);
        }
        if !new.get("allocation").is_null() {
            let verbs = driver_verbs(admission.user, new.get("allocation"));
            for driver in changed_drivers(old, new) {
                let about = ("driver", admission.namespace.as_str(), driver);
                if !self.may(admission, verbs, about).await {
                    let why = format!(
                        "changing status.devices requires resource=\"resourceclaims/driver\", \
                         verb=\"{}\" permission",
                        verbs[0]
                    );
                    errs.forbidden(&STATUS.field("devices"), why);
                }
            }
        }
        match errs.is_empty() {
            true => Ok(()),
            false => Err(errs.into_status(names.group, names.kind, &admission.name)),
        }
    }

    /// Whether the user is authorized for one of these verbs.
    async fn may(
        &self,
        admission: &AdmissionAttributes<'_>,
        verbs: &[&str],
        (subresource, namespace, name): (&str, &str, &str),
    ) -> bool {
        let names = &admission.served.definition.names;
        for verb in verbs {
            let wanted = Attributes {
                verb: (*verb).into(),
                group: names.group.into(),
                version: names.version.into(),
                resource: names.plural.into(),
                subresource: subresource.into(),
                namespace: namespace.into(),
                name: name.into(),
                is_resource: true,
                ..Attributes::default()
            };
            if self.rights.is_allowed(admission.user, &wanted).await {
                return true;
            }
        }
        false
    }
}

/// The verbs that permit a driver's update. The driver's pod on the node of the allocation may also
/// use the `associated-node:` verbs; any other user needs an `arbitrary-node:` verb.
fn driver_verbs(user: &UserInfo, allocation: &Value) -> &'static [&'static str] {
    const BOTH: &[&str] = &[
        "associated-node:update",
        "associated-node:patch",
        "arbitrary-node:update",
        "arbitrary-node:patch",
    ];
    let account = user.name.strip_prefix("system:serviceaccount:");
    let is_account = account.and_then(|name| name.split_once(':')).is_some_and(|(space, name)| {
        dns1123_label(space).is_empty() && dns1123_subdomain(name).is_empty()
    });
    let own = user.extra.get(NODE).map(Vec::as_slice);
    match (own, allocated_node(allocation)) {
        (Some([own]), Some(node)) if is_account && own == node => BOTH,
        _ => &BOTH[2..],
    }
}

/// The only node on which an allocation can be used; `None` if it is not bound to one node by name.
fn allocated_node(allocation: &Value) -> Option<&str> {
    let [term] = allocation.get("nodeSelector").get("nodeSelectorTerms").items() else {
        return None;
    };
    let [field] = term.get("matchFields").items() else { return None };
    let text = |name: &str| field.get(name).as_str();
    let [node] = field.get("values").items() else { return None };
    let by_name = term.get("matchExpressions").items().is_empty()
        && (text("key"), text("operator")) == (Some("metadata.name"), Some("In"));
    node.as_str().filter(|node| by_name && !node.is_empty())
}

/// The drivers of devices whose status is added, removed or changed.
fn changed_drivers<'a>(old: &'a Value, new: &'a Value) -> BTreeSet<&'a str> {
    let key = |device: &'a Value| {
        ["driver", "pool", "device", "shareID"].map(|name| device.get(name).as_str())
    };
    let (old, new) = (old.get("devices").items(), new.get("devices").items());
    let changed = |from: &'a [Value], to: &'a [Value]| {
        from.iter().filter(move |device| {
            let same = to.iter().find(|other| key(other) == key(device));
            same.is_none_or(|same| same != *device)
        })
    };
    let all = changed(old, new).chain(changed(new, old));
    all.filter_map(|device| device.get("driver").as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Value {
        object::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn drivers_answer_for_their_own_devices() {
        let devices = |list: &str| tree(&format!(r#"{{"devices":[{list}]}}"#));
        let one = r#"{"driver":"a","pool":"p","device":"d"}"#;
        let changed = r#"{"driver":"a","pool":"p","device":"d","data":{"x":1}}"#;
        let other = r#"{"driver":"b","pool":"p","device":"d"}"#;
        let drivers = |old: &str, new: &str| {
            let (old, new) = (devices(old), devices(new));
            changed_drivers(&old, &new).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(drivers(one, one), Vec::<String>::new());
        assert_eq!(drivers(one, changed), ["a"]);
        assert_eq!(drivers("", other), ["b"]);
        assert_eq!(drivers(&format!("{one},{other}"), one), ["b"]);
        assert_eq!(drivers(one, other), ["a", "b"]);
    }

    #[test]
    fn a_driver_on_the_node_needs_less() {
        let allocation = |node: &str| {
            tree(&format!(
                r#"{{"nodeSelector":{{"nodeSelectorTerms":[{{"matchFields":[
                {{"key":"metadata.name","operator":"In","values":["{node}"]}}]}}]}}}}"#
            ))
        };
        let mut user = UserInfo::new("system:serviceaccount:d:s", &[]);
        assert_eq!(driver_verbs(&user, &allocation("n1")).len(), 2);
        user.extra.insert(NODE.to_owned(), vec!["n1".to_owned()]);
        assert_eq!(driver_verbs(&user, &allocation("n1")).len(), 4);
        assert_eq!(driver_verbs(&user, &allocation("n2")).len(), 2);
        assert_eq!(driver_verbs(&user, &tree("{}")).len(), 2);
        user.name = "bob".into();
        assert_eq!(driver_verbs(&user, &allocation("n1")).len(), 2);
    }
}
