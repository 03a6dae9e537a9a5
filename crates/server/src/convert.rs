//! Custom objects in another version, where somebody else knows how.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use object::{Object, Status, Value, View};
use schema::Definition;
use store::Version;

pub type Converting = Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send>>;

/// Converts custom objects as a definition says.
pub trait Convert: fmt::Debug + Send + Sync {
    /// The objects in the version asked for, in their order. `webhook` is what the
    /// definition says of it.
    fn convert(&self, webhook: &Value, objects: Vec<Value>, api_version: &str) -> Converting;
}

/// Objects of a custom kind in the version of `to`; those that are there already stay as
/// they are. Nothing else of an object changes by that, but for labels and annotations.
pub(crate) async fn converted(
    converter: Option<&Arc<dyn Convert>>,
    to: &Definition,
    mut versions: Vec<Arc<Version<Value>>>,
) -> Result<Vec<Arc<Version<Value>>>, Status> {
    let custom = to.custom.as_ref().and_then(|custom| custom.conversion.as_ref());
    let wanted = to.names.api_version();
    let other =
        |version: &&Arc<Version<Value>>| Object::view(&version.object).api_version() != wanted;
    let objects: Vec<_> =
        versions.iter().filter(other).map(|version| version.object.clone()).collect();
    let (Some(webhook), Some(first)) = (custom, objects.first()) else { return Ok(versions) };
    let named = Object::view(first);
    let what = format!("{}, Kind={}", named.api_version(), named.kind());
    let failed =
        |why: String| Status::internal(format!("conversion webhook for {what} failed: {why}"));
    let converter = converter.ok_or_else(|| failed("this server calls no webhooks".to_owned()))?;
    let count = objects.len();
    let made = converter.convert(webhook, objects, &wanted).await.map_err(failed)?;
    if made.len() != count {
        return Err(failed(format!("returned {} objects, expected {count}", made.len())));
    }
    let mut made = made.into_iter();
    for version in versions.iter_mut().filter(|version| other(&&**version)) {
        let Some(new) = made.next() else { break };
        let object = checked(&version.object, new, to).map_err(failed)?;
        *version = Arc::new(Version { revision: version.revision, object });
    }
    Ok(versions)
}

/// What was asked for, if it is that.
fn checked(old: &Value, mut new: Value, to: &Definition) -> Result<Value, String> {
    let (was, is) = (Object::view(old), Object::view(&new));
    let wanted = to.names.api_version();
    if is.api_version() != wanted {
        let got = is.api_version();
        return Err(format!("invalid groupVersion (expected {wanted}, received {got})"));
    }
    let (was_meta, is_meta) = (was.metadata(), is.metadata());
    for (what, was, is) in [
        ("kind", was.kind(), is.kind()),
        ("name", was_meta.name(), is_meta.name()),
        ("namespace", was_meta.namespace(), is_meta.namespace()),
        ("UID", was_meta.uid(), is_meta.uid()),
    ] {
        if was != is {
            return Err(format!("must have the same {what}: {was} != {is}"));
        }
    }
    let mut meta = old.get("metadata").clone();
    for field in ["labels", "annotations"] {
        match new.get("metadata").get(field) {
            Value::Null => meta.remove(field),
            kept => meta[field] = kept.clone(),
        }
    }
    new["metadata"] = meta;
    to.conform(&mut new, &mut Vec::new())?;
    Ok(new)
}
