//! Two minimal kinds.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, ResourceNames, SelectableField};

/// Wants some items.
#[api]
pub(crate) struct Set {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    replicas: i32,
}

/// Belongs to a set.
#[api]
pub(crate) struct Item {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    node_name: String,
}

const fn names(kind: &'static str, plural: &'static str) -> ResourceNames {
    ResourceNames {
        group: "test",
        version: "v1",
        kind,
        plural,
        singular: "",
        short_names: &[],
        categories: &[],
    }
}

impl Kind for Set {
    const NAMES: ResourceNames = names("Set", "sets");
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}

impl Kind for Item {
    const NAMES: ResourceNames = names("Item", "items");
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::with_watch_topic("nodeName", |item| item.node_name().to_owned())];
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}

pub(crate) fn set(name: &str, replicas: i32) -> Set {
    let meta = ObjectMeta::new().with_name(name).with_namespace("default");
    Set::new().with_metadata(meta).with_replicas(replicas)
}

pub(crate) fn item(name: &str, node: &str) -> Item {
    let meta = ObjectMeta::new().with_name(name).with_namespace("default");
    Item::new().with_metadata(meta).with_node_name(node)
}
