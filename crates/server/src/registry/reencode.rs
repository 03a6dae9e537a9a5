//! Rewrites stored objects unchanged, to apply another encoding or encryption key.

use object::Status;
use store::Write;

use super::{Registry, store_status};

impl Registry {
    /// Rewrites every object of a kind and returns how many. An object that is written concurrently
    /// is skipped: that write already uses the new form.
    pub async fn rewrite(&self, group: &str, plural: &str) -> Result<usize, Status> {
        let served = self.kind(group, plural)?;
        let pinned = served.objects()?.snapshot();
        let mut count = 0;
        for (key, version) in pinned.range(&served.prefix(""), None) {
            let bytes = self.to_bytes(&served, key, &version.object)?;
            let write = Write::put(key, version.revision, bytes, version.object.clone());
            match self.engine.write(write).await {
                Ok(_) => count += 1,
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(store_status(&error)),
            }
        }
        Ok(count)
    }
}
