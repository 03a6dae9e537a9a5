//! Random access checks: may this user do that? Half of them are about what the world's rules and
//! objects name.

use object::Value;
use server::{Attributes, UserInfo};

use super::{
    random::Random,
    world::{GROUPS, NAMES, NODES, PATHS, USERS, namespaces},
};
use crate::tree;

#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) user: UserInfo,
    pub(super) attributes: Attributes,
}

const VERBS: [&str; 11] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "*",
    "",
];

/// Group, resource, subresource.
const RESOURCES: [(&str, &str, &str); 19] = [
    ("", "pods", ""),
    ("", "pods", "log"),
    ("", "pods", "exec"),
    ("", "secrets", ""),
    ("", "configmaps", ""),
    ("", "services", "proxy"),
    ("", "replicationcontrollers", "scale"),
    ("apps", "deployments", ""),
    ("apps", "deployments", "scale"),
    ("apps", "deployments", "status"),
    ("apps", "statefulsets", "scale"),
    ("apps", "pods", ""),
    ("example.com", "widgets", ""),
    ("example.com", "widgets", "scale"),
    ("example.com", "deployments", "scale"),
    ("", "*", ""),
    ("*", "pods", ""),
    ("", "", ""),
    ("", "pods", "*"),
];

/// Resources that the node authorizer handles: group, resource, subresource.
const OF_NODES: [(&str, &str, &str); 38] = [
    ("", "secrets", ""),
    ("", "secrets", ""),
    ("", "secrets", "status"),
    ("", "configmaps", ""),
    ("", "configmaps", ""),
    ("", "persistentvolumeclaims", ""),
    ("", "persistentvolumeclaims", ""),
    ("", "persistentvolumeclaims", "status"),
    ("", "persistentvolumes", ""),
    ("", "persistentvolumes", ""),
    ("", "persistentvolumes", "status"),
    ("", "serviceaccounts", ""),
    ("", "serviceaccounts", "token"),
    ("", "serviceaccounts", "other"),
    ("", "nodes", ""),
    ("", "nodes", "status"),
    ("", "nodes", "proxy"),
    ("", "pods", ""),
    ("", "pods", "status"),
    ("", "pods", "eviction"),
    ("", "pods", "exec"),
    ("", "events", ""),
    ("", "services", ""),
    ("", "endpoints", ""),
    ("events.k8s.io", "events", ""),
    ("coordination.k8s.io", "leases", ""),
    ("storage.k8s.io", "csinodes", ""),
    ("storage.k8s.io", "csinodes", "status"),
    ("storage.k8s.io", "csinodes", "other"),
    ("storage.k8s.io", "csidrivers", ""),
    ("storage.k8s.io", "volumeattachments", ""),
    ("resource.k8s.io", "resourceclaims", ""),
    ("resource.k8s.io", "resourceslices", ""),
    ("resource.k8s.io", "resourceslices", "status"),
    ("node.k8s.io", "runtimeclasses", ""),
    ("certificates.k8s.io", "certificatesigningrequests", ""),
    ("certificates.k8s.io", "podcertificaterequests", ""),
    ("authentication.k8s.io", "tokenreviews", ""),
];

impl Question {
    pub(super) fn random(random: &mut Random, round: usize) -> Self {
        match random.below(10) {
            0..4 => Self::of_resource(random, round),
            4 | 5 => Self::of_path(random),
            _ => Self::of_node(random, round),
        }
    }

    fn of_resource(random: &mut Random, round: usize) -> Self {
        let (group, resource, subresource) = random.one_of(&RESOURCES);
        let mut places = namespaces(round);
        places.extend([String::new(), "default".to_owned()]);
        let attributes = Attributes {
            verb: random.one_of(&VERBS).into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: random.one_of(&places).into(),
            name: random.one_of(&["", "", NAMES[0], NAMES[1], NAMES[2]]).into(),
            is_resource: true,
            ..Attributes::default()
        };
        Self { user: somebody(random, round), attributes }
    }

    fn of_path(random: &mut Random) -> Self {
        let verb = random.one_of(&["get", "post", "put", "delete", "head", "*"]);
        let path = random.one_of(&PATHS);
        let attributes =
            Attributes { verb: verb.into(), path: path.into(), ..Attributes::default() };
        Self { user: somebody(random, 0), attributes }
    }

    fn of_node(random: &mut Random, round: usize) -> Self {
        let (group, resource, subresource) = random.one_of(&OF_NODES);
        let node = random.one_of(&NODES);
        let place = match resource {
            "persistentvolumes" | "nodes" | "csinodes" | "volumeattachments" | "resourceslices" => {
                String::new()
            }
            "leases" => random.one_of(&["kube-node-lease", "default", ""]).to_owned(),
            _ if random.chance(10) => String::new(),
            _ => random.one_of(&namespaces(round)),
        };
        let name = match (resource, random.below(10)) {
            (_, 0) => String::new(),
            ("nodes" | "csinodes" | "leases", _) => random.one_of(&NODES).to_owned(),
            ("persistentvolumes" | "volumeattachments" | "resourceslices", _) => {
                format!("r{round}-{}", random.one_of(&NAMES))
            }
            ("persistentvolumeclaims", 1..4) => {
                format!("{}-{}", random.one_of(&NAMES), random.one_of(&["v0", "v1", "v2"]))
            }
            _ => random.one_of(&NAMES).to_owned(),
        };
        let fields = match random.below(8) {
            0..3 => format!("spec.nodeName={node}"),
            3 => format!("spec.nodeName!={node}"),
            4 => format!("spec.nodeName={}", random.one_of(&NODES)),
            5 => format!("metadata.namespace=a,spec.nodeName={node}"),
            6 => format!("spec.nodeName={node}x"),
            _ => String::new(),
        };
        let attributes = Attributes {
            verb: random.one_of(&VERBS[..9]).into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: place.into(),
            name: name.into(),
            field_selector: fields.into(),
            is_resource: true,
            ..Attributes::default()
        };
        let groups: &[&str] = match random.below(20) {
            0 => &[],
            1 => &["system:authenticated"],
            _ => &["system:nodes", "system:authenticated"],
        };
        let name = match random.below(20) {
            0 => "system:node:".to_owned(),
            1 => node.to_owned(),
            _ => format!("system:node:{node}"),
        };
        Self { user: UserInfo::new(&name, groups), attributes }
    }

    /// The check as a SubjectAccessReview.
    pub(super) fn review(&self) -> Value {
        let mut review = tree(
            r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{}}"#,
        );
        let asked = &self.attributes;
        let spec = &mut review["spec"];
        spec["user"] = self.user.name.clone().into();
        spec["groups"] = self.user.groups.iter().map(object::Text::as_str).collect();
        if !asked.is_resource {
            spec["nonResourceAttributes"]["verb"] = asked.verb.clone().into();
            spec["nonResourceAttributes"]["path"] = asked.path.clone().into();
            return review;
        }
        let resource = &mut spec["resourceAttributes"];
        resource["verb"] = asked.verb.clone().into();
        resource["group"] = asked.group.clone().into();
        resource["resource"] = asked.resource.clone().into();
        resource["subresource"] = asked.subresource.clone().into();
        resource["namespace"] = asked.namespace.clone().into();
        resource["name"] = asked.name.clone().into();
        if !asked.field_selector.is_empty() {
            resource["fieldSelector"]["rawSelector"] = asked.field_selector.clone().into();
        }
        review
    }
}

pub(super) fn somebody(random: &mut Random, round: usize) -> UserInfo {
    let name = if random.chance(25) {
        let account = random.one_of(&NAMES);
        format!("system:serviceaccount:{}:{account}", random.one_of(&namespaces(round)))
    } else {
        random.one_of(&USERS).to_owned()
    };
    let mut groups = random.some_of(&GROUPS, 3);
    if random.chance(70) {
        groups.push("system:authenticated");
    }
    if random.chance(2) {
        groups.push("system:masters");
    }
    UserInfo::new(&name, &groups)
}
