//! A small kind for the tests of this crate, with every list type and merge strategy.

use crate::{Kind, ResourceNames, Subresource};
use macros::api;
use object::{IntOrString, LabelSelector, List, Map, ObjectMeta, Value, from_json};

#[api]
pub(crate) struct Sample {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: SampleSpec,
    #[api(tag = 3)]
    status: SampleStatus,
}

#[api]
pub(crate) struct SampleSpec {
    #[api(tag = 1)]
    replicas: Option<i32>,
    #[api(tag = 2)]
    selector: Option<LabelSelector>,
    #[api(tag = 3, keys("name"), merge, merge_key = "name", no_omitempty)]
    containers: List<SampleContainer>,
    #[api(tag = 4, keys("name"), merge, retain_keys, merge_key = "name")]
    volumes: List<SampleVolume>,
    #[api(tag = 5, retain_keys)]
    strategy: SampleStrategy,
    #[api(tag = 6, set, merge)]
    access_modes: List<String>,
    #[api(tag = 7, atomic)]
    node_selector: Map<String>,
    #[api(tag = 8)]
    parameters: Value,
}

#[api]
pub(crate) struct SampleContainer {
    #[api(tag = 1, no_omitempty)]
    name: String,
    #[api(tag = 2)]
    image: String,
    #[api(tag = 3)]
    args: List<String>,
    #[api(tag = 4)]
    command: List<String>,
    #[api(tag = 5, keys("containerPort", "protocol"), merge, merge_key = "containerPort")]
    ports: List<SamplePort>,
}

#[api]
pub(crate) struct SamplePort {
    #[api(tag = 1, no_omitempty)]
    container_port: i32,
    #[api(tag = 2, default = "TCP")]
    protocol: String,
    #[api(tag = 3)]
    host_port: i32,
}

#[api]
pub(crate) struct SampleVolume {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    host_path: Option<SamplePath>,
    #[api(tag = 3)]
    empty_dir: Option<SamplePath>,
}

#[api]
pub(crate) struct SamplePath {
    #[api(tag = 1, no_omitempty)]
    path: String,
}

#[api]
pub(crate) struct SampleStrategy {
    #[api(tag = 1)]
    type_: String,
    #[api(tag = 2)]
    max_surge: Option<IntOrString>,
}

#[api]
pub(crate) struct SampleStatus {
    #[api(tag = 1)]
    replicas: i32,
}

/// The scale subresource, as crate `api` declares it.
pub(crate) const SCALE: Subresource =
    Subresource::converted("scale", "Scale").of_group("autoscaling", "v1");

impl Kind for Sample {
    const NAMES: ResourceNames = ResourceNames {
        group: "apps",
        version: "v1",
        kind: "Sample",
        plural: "samples",
        singular: "sample",
        short_names: &[],
        categories: &[],
    };
    const SUBRESOURCES: &'static [Subresource] = &[SCALE, Subresource::status("Sample")];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}

pub(crate) fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("tests write JSON")
}
