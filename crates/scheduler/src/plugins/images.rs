//! ImageLocality: prefers nodes that already have the pod's images.

use api::core::ContainerImage;

use crate::{NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot};

const MIN_THRESHOLD: i64 = 23 * 1024 * 1024;
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * 1024 * 1024;

/// Prefers nodes that have the pod's images.
#[derive(Debug)]
pub(crate) struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let images: Vec<_> =
            pod.pod.spec().all_containers().map(|c| normalized_image_name(c.image())).collect();
        Some(Box::new(ImageLocalityEvaluator(images)))
    }
}

struct ImageLocalityEvaluator(Vec<String>);

impl NodeEvaluator for ImageLocalityEvaluator {
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let known = node.node.status().images();
        let here = known.iter().filter(|image| {
            image.names().iter().any(|name| self.0.iter().any(|wanted| wanted == name))
        });
        let bytes = here.map(ContainerImage::size_bytes).fold(0, i64::saturating_add);
        let most = MAX_CONTAINER_THRESHOLD * i64::try_from(self.0.len()).unwrap_or(1);
        Some(
            (bytes.clamp(MIN_THRESHOLD, most.max(MIN_THRESHOLD)) - MIN_THRESHOLD) * 100
                / (most - MIN_THRESHOLD).max(1),
        )
    }
}

/// The image name with its tag, `latest` by default.
fn normalized_image_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.into() } else { format!("{image}:latest") }
}
