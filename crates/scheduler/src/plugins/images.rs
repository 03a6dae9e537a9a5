//! A node that has the pod's images starts it sooner.

use api::core::ContainerImage;

use crate::{Judge, NodeInfo, Plugin, PodInfo, Snapshot};

const SMALL: i64 = 23 * 1024 * 1024;
const LARGE_EACH: i64 = 1000 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let images: Vec<_> = pod.pod.spec().all_containers().map(|c| whole(c.image())).collect();
        Some(Box::new(Images(images)))
    }
}

struct Images(Vec<String>);

impl Judge for Images {
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let known = node.node.status().images();
        let here = known.iter().filter(|image| {
            image.names().iter().any(|name| self.0.iter().any(|wanted| wanted == name))
        });
        let bytes = here.map(ContainerImage::size_bytes).fold(0, i64::saturating_add);
        let most = LARGE_EACH * i64::try_from(self.0.len()).unwrap_or(1);
        Some((bytes.clamp(SMALL, most.max(SMALL)) - SMALL) * 100 / (most - SMALL).max(1))
    }
}

/// The name with its tag.
fn whole(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.into() } else { format!("{image}:latest") }
}
