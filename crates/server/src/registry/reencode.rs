//! Objects written again as they are, for another form at rest.

use object::Status;
use store::Write;

use super::{Registry, store_status};

impl Registry {
    /// Writes every object of a kind again. Gives how many; one that somebody else
    /// writes meanwhile has its new form by that.
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
