//! Lists: all selected objects of a kind at one revision.

use std::sync::Arc;

use object::{Object, Status, Text, Value, View};
use store::{CacheSnapshot, Version};

use super::{Registry, Selection, continuation::ContinueToken, store_status, unreadable};
use crate::ServedResource;

/// Minimum chunk size when objects must be converted before it is known whether they are selected.
const CHUNK: usize = 500;

/// Limit, continue token and revision of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Maximum number of objects; 0 means all.
    pub limit: usize,
    /// The continue token of the previous page.
    pub token: String,
    /// The exact revision to list at; `None` means the latest.
    pub exact_revision: Option<u64>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct ListResult {
    pub revision: u64,
    pub items: Vec<Arc<Version<Value>>>,
    /// Continue token of the next page; empty on the last.
    pub token: String,
    /// `remainingItemCount`: only known for lists without selectors.
    pub remaining: Option<usize>,
}

impl Registry {
    /// Lists objects in the stored version.
    pub fn list(
        &self,
        served: &ServedResource,
        selection: &Selection,
        page: &ListOptions,
    ) -> Result<ListResult, Status> {
        let prefix = served.prefix(&selection.namespace);
        let unreadable = served.objects()?.undecodable(&prefix);
        if !unreadable.is_empty() {
            return Err(unreadable::list(served, &unreadable));
        }
        let (pinned, after) = self.snapshot(served, page)?;
        let after = after.map(|after| format!("{prefix}{after}"));
        let mut items = Vec::new();
        if let Some(path) = path(served, selection).filter(|_| after.is_none()) {
            let named = pinned.get(&path);
            items.extend(named.filter(|version| selection.matches(served, &version.object)));
            return Ok(ListResult {
                revision: pinned.revision,
                items,
                token: String::new(),
                remaining: None,
            });
        }
        let whole = selection.is_whole(); // then the key decides, and no object is read
        let mut range = pinned.range(&prefix, after.as_deref());
        while let Some((key, version)) = range.next() {
            if !whole && !selection.matches(served, &version.object) {
                continue;
            }
            items.push(version.into_version());
            // If any key follows there is another page, even if no object of it is selected.
            if items.len() == page.limit && range.next().is_some() {
                let remaining = whole.then(|| pinned.count(&prefix, Some(key)));
                let after = key.strip_prefix(&*prefix).unwrap_or(key).to_owned();
                let token = ContinueToken { revision: pinned.revision, after }.encode();
                return Ok(ListResult { revision: pinned.revision, items, token, remaining });
            }
        }
        Ok(ListResult { revision: pinned.revision, items, token: String::new(), remaining: None })
    }
}

impl Registry {
    /// Lists objects in the version of the request. If a webhook has to convert them, selectors are
    /// applied after the conversion.
    pub async fn list_converted(
        &self,
        served: &ServedResource,
        selection: &Selection,
        page: &ListOptions,
    ) -> Result<ListResult, Status> {
        if !served.needs_conversion_webhook() {
            return self.list(served, selection, page);
        }
        if selection.is_whole() {
            let mut list = self.list(served, selection, page)?;
            list.items = self.converted(served, list.items).await?;
            return Ok(list);
        }
        let (within, limit) = (selection.lasting(), page.limit);
        let chunk = if limit == 0 { 0 } else { limit.max(CHUNK) };
        let mut page = ListOptions { limit: chunk, ..page.clone() };
        let mut items = Vec::<Arc<Version<Value>>>::new();
        loop {
            let ListResult { revision, items: found, token, .. } =
                self.list(served, &within, &page)?;
            let mut left = self.converted(served, found).await?.into_iter();
            while let Some(version) = left.next() {
                if !selection.matches(served, &version.object) {
                    continue;
                }
                items.push(version.clone());
                if items.len() == limit && (left.len() > 0 || !token.is_empty()) {
                    let after = place(served, selection, &version);
                    let token = ContinueToken { revision, after }.encode();
                    return Ok(ListResult { revision, items, token, remaining: None });
                }
            }
            if token.is_empty() {
                return Ok(ListResult { revision, items, token, remaining: None });
            }
            page = ListOptions { limit: chunk, token, exact_revision: None };
        }
    }
}

/// The key of an object relative to the listed prefix, for continue tokens.
fn place(served: &ServedResource, selection: &Selection, version: &Version<Value>) -> String {
    let meta = Object::view(&version.object).metadata();
    let path = served.path(meta.namespace(), meta.name());
    path.strip_prefix(&*served.prefix(&selection.namespace)).unwrap_or(&path).to_owned()
}

/// The key of the only object that can be selected, if the selection names it.
pub(crate) fn path(served: &ServedResource, selection: &Selection) -> Option<Text> {
    let known = !served.internal.is_namespaced() || !selection.namespace.is_empty();
    let name = selection.name().filter(|_| known)?;
    Some(served.path(&selection.namespace, name))
}

impl Registry {
    /// The snapshot to list, and the key after which the page begins.
    fn snapshot(
        &self,
        served: &ServedResource,
        page: &ListOptions,
    ) -> Result<(CacheSnapshot<Value>, Option<String>), Status> {
        let objects = served.objects()?;
        let at =
            |revision| objects.snapshot_at_or_load(&*self.engine, &served.prefix(""), revision);
        if !page.token.is_empty() {
            let ContinueToken { revision, after } = ContinueToken::decode(&page.token)?;
            let pinned = match revision {
                0 => objects.snapshot(),
                _ => at(revision).map_err(|_| expired(objects.snapshot().revision, &after))?,
            };
            return Ok((pinned, Some(after)));
        }
        let pinned = match page.exact_revision {
            Some(revision) => at(revision).map_err(|error| match error {
                store::Error::Compacted { .. } => {
                    Status::expired("The resourceVersion for the provided list is too old.")
                }
                other => store_status(&other),
            })?,
            None => objects.snapshot(),
        };
        Ok((pinned, None))
    }
}

/// The error for a continue token whose revision was compacted. It contains a token that continues
/// at the current revision.
fn expired(revision: u64, after: &str) -> Status {
    let token = ContinueToken { revision, after: after.to_owned() }.encode();
    Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can \
         start a new list without the continue parameter, or use the continue token in this \
         response to retrieve the remainder of the results. Continuing with the provided token \
         results in an inconsistent list - objects that were created, modified, or deleted between \
         the time the first chunk was returned and now may show up in the list.",
    )
    .with_metadata(object::ListMeta::new().with_continue(token))
}
