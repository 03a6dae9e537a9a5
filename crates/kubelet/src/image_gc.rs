//! Image garbage collection: deletes unused images when the disk fills up, least recently used first.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use container::cri::Image;
use runtime::EventType;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{KubeletContext, node::machine};

/// When images are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Disk usage in percent from which on images are deleted; 100: never.
    pub high_threshold_percent: u8,
    /// Disk usage in percent down to which images are deleted.
    pub low_threshold_percent: u8,
    /// Seconds for which a new image is kept however full the disk is.
    pub min_age: i64,
}

const LOOK: Duration = Duration::from_mins(5);

/// When each image was first detected and last used.
#[derive(Debug, Default)]
pub(crate) struct ImageRecords {
    known: Mutex<HashMap<String, Record>>,
}

/// When an image was first detected and last used, in seconds of the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    first_detected: i64,
    last_used: i64,
}

impl Default for ImageGcPolicy {
    fn default() -> Self {
        Self { high_threshold_percent: 85, low_threshold_percent: 80, min_age: 120 }
    }
}

impl ImageGcPolicy {
    /// Number of bytes to free on a disk of this size; `None` if usage is below the high threshold.
    pub fn bytes_to_free(self, size: i64, left: i64) -> Option<i64> {
        let left_part = i128::from(left) * 100 / i128::from(size.max(1));
        let used = 100 - i64::try_from(left_part).unwrap_or(100);
        if self.high_threshold_percent >= 100
            || size == 0
            || used < i64::from(self.high_threshold_percent)
        {
            return None;
        }
        let keep = i128::from(size) * i128::from(100 - self.low_threshold_percent) / 100;
        Some(i64::try_from(keep).unwrap_or(i64::MAX) - left)
    }
}

pub(crate) fn start(host: &Arc<KubeletContext>) {
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("image gc", async move {
        loop {
            let done = panics::contain("image gc", garbage_collect(&host)).await;
            if let Err(why) = done.unwrap_or_else(|why| Err(why.to_string())) {
                warn!(why, "image garbage collection failed");
                host.record_node_event(EventType::Warning, "ImageGCFailed", why);
            }
            sleep(LOOK).await;
        }
    });
}

/// Deletes every unused image, to reclaim disk space before pods are evicted.
pub(crate) async fn delete_unused_images(host: &Arc<KubeletContext>) {
    if let Err(why) = free(host, i64::MAX).await {
        warn!(why, "image garbage collection failed");
    }
}

async fn garbage_collect(host: &Arc<KubeletContext>) -> Result<(), String> {
    let (size, left) = machine::disk(&host.image_folder().await);
    let Some(wanted) = host.config.image_gc.bytes_to_free(size, left) else {
        observe(host).await?; // records when new images are first detected
        return Ok(());
    };
    let freed = free(host, wanted).await?;
    if freed < wanted {
        return Err(format!(
            "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found {freed} bytes eligible to free."
        ));
    }
    Ok(())
}

async fn free(host: &Arc<KubeletContext>, wanted: i64) -> Result<i64, String> {
    let (images, used) = observe(host).await?;
    let now = host.steady_seconds();
    let records = host.images.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut freed = 0;
    for image in eviction_order(&images, &used, &records, now, host.config.image_gc.min_age) {
        if freed >= wanted {
            break;
        }
        info!(image = image.id, size = image.size, "removing an image to free disk space");
        match host.runtime.remove_image(&image.id).await {
            Ok(()) => {
                freed = freed.saturating_add(i64::try_from(image.size).unwrap_or(i64::MAX));
                host.images.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&image.id);
            }
            Err(error) => warn!(image = image.id, %error, "cannot remove an image"),
        }
    }
    Ok(freed)
}

/// Lists all images and those that containers use, and updates the records.
async fn observe(host: &Arc<KubeletContext>) -> Result<(Vec<Image>, HashSet<String>), String> {
    let wrong = |error: tonic::Status| error.message().to_owned();
    let images = host.runtime.images().await.map_err(wrong)?;
    let containers = host.runtime.containers(HashMap::new()).await.map_err(wrong)?;
    let named = |one: container::cri::Container| [one.image_id, one.image_ref];
    let named: HashSet<String> = containers.into_iter().flat_map(named).collect();
    let is_used = |image: &&Image| {
        named.contains(&image.id) || image.repo_digests.iter().any(|name| named.contains(name))
    };
    let used: HashSet<String> =
        images.iter().filter(is_used).map(|image| image.id.clone()).collect();
    let now = host.steady_seconds();
    let mut known = host.images.known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|id, _| images.iter().any(|image| image.id == *id));
    for image in &images {
        let record =
            known.entry(image.id.clone()).or_insert(Record { first_detected: now, last_used: 0 });
        if used.contains(&image.id) {
            record.last_used = now;
        }
    }
    drop(known);
    Ok((images, used))
}

/// The images that may be deleted, in the order of deletion.
fn eviction_order<'a>(
    images: &'a [Image],
    used: &HashSet<String>,
    known: &HashMap<String, Record>,
    now: i64,
    least_age: i64,
) -> Vec<&'a Image> {
    let mut unused: Vec<(Record, &Image)> = images
        .iter()
        .filter(|image| !image.pinned && !used.contains(&image.id))
        .filter_map(|image| Some((*known.get(&image.id)?, image)))
        .filter(|(record, _)| now - record.first_detected >= least_age)
        .collect();
    unused
        .sort_by_key(|(record, image)| (record.last_used, record.first_detected, image.id.clone()));
    unused.into_iter().map(|(_, image)| image).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_decides_how_much_goes() {
        let limits = ImageGcPolicy::default();
        assert_eq!(limits.bytes_to_free(1000, 160), None);
        assert_eq!(limits.bytes_to_free(1000, 150), Some(50));
        assert_eq!(limits.bytes_to_free(1000, 10), Some(190));
        assert_eq!(
            ImageGcPolicy { high_threshold_percent: 100, ..limits }.bytes_to_free(1000, 10),
            None
        );
        assert_eq!(limits.bytes_to_free(0, 0), None);
    }

    #[test]
    fn what_was_unused_the_longest_goes_first() {
        let image = |id: &str, pinned| Image { id: id.into(), pinned, ..Image::default() };
        let images = [
            image("fresh", false),
            image("late", false),
            image("never", false),
            image("pinned", true),
            image("used", false),
        ];
        let records =
            [("fresh", 95, 0), ("late", 0, 50), ("never", 0, 0), ("pinned", 0, 0), ("used", 0, 9)];
        let records = records.map(|(id, first, last)| {
            (id.to_owned(), Record { first_detected: first, last_used: last })
        });
        let used = ["used".to_owned()].into();
        let order = eviction_order(&images, &used, &records.into(), 100, 10);
        let names: Vec<&str> = order.iter().map(|image| &*image.id).collect();
        assert_eq!(names, ["never", "late"]);
    }
}
