//! Parts that a cluster may lack. Each kind says which of them its objects need; where a part is
//! lacking, whoever writes such an object is told that nothing will come of it.

use schema::Part;

pub const NETWORK_POLICY: Part = Part {
    name: "network-policy",
    lacking: "nothing in this cluster enforces network policies: the object is stored, and all \
              traffic stays allowed",
    announced_by: None,
};

pub const INGRESS: Part = Part {
    name: "ingress",
    lacking: "no ingress controller runs in this cluster: the object is stored, and nothing is \
              routed by it",
    announced_by: Some(("networking.k8s.io", "ingressclasses")),
};

pub const LOAD_BALANCER: Part = Part {
    name: "load-balancer",
    lacking: "spec.type: no load balancer provider runs in this cluster: the service has its \
              cluster IP and node ports, and gets no external address",
    announced_by: None,
};

pub const VOLUME_ATTACHMENT: Part = Part {
    name: "volume-attachment",
    lacking: "nothing in this cluster attaches volumes: the object is stored, and no volume is \
              attached",
    announced_by: Some(("storage.k8s.io", "csidrivers")),
};

pub const DYNAMIC_RESOURCES: Part = Part {
    name: "dynamic-resources",
    lacking: "nothing in this cluster allocates devices: the object is stored, and no device is \
              given by it",
    announced_by: None,
};

pub const WORKLOAD_SCHEDULING: Part = Part {
    name: "workload-scheduling",
    lacking: "nothing in this cluster schedules pods as groups: the object is stored, and pods are \
              placed one by one",
    announced_by: None,
};

pub const STORAGE_MIGRATION: Part = Part {
    name: "storage-migration",
    lacking: "nothing in this cluster migrates stored objects: the object is stored, and nothing \
              is rewritten",
    announced_by: None,
};

/// All there are.
pub const ALL: &[&Part] = &[
    &NETWORK_POLICY,
    &INGRESS,
    &LOAD_BALANCER,
    &VOLUME_ATTACHMENT,
    &DYNAMIC_RESOURCES,
    &WORKLOAD_SCHEDULING,
    &STORAGE_MIGRATION,
];
