//! Patches: read, change the tree, then as any update; again if somebody was faster.

use object::{Object, Status, Value, View};
use schema::patch;
use store::Version;

use super::{Call, Registry, create::default, update::based_on};
use crate::{Query, Served, codec::fit, respond::shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
}

impl PatchType {
    /// By the content type of the request.
    pub fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// A patch to an object or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    pub ty: PatchType,
    pub patch: &'a Value,
    pub query: &'a Query,
}

impl Registry {
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn patch(
        &self,
        call: &mut Call,
        served: &Served,
        key: (&str, &str),
        subresource: &str,
        patch: Patch<'_>,
    ) -> Result<Version<Value>, Status> {
        let mut warnings = Vec::new();
        let done = self
            .change(call, served, key, subresource, |old| {
                let (object, odd) = patched(served, old, patch)?;
                warnings = odd;
                let wanted = based_on(Object::view(&object).metadata().resource_version())?;
                if wanted != old.revision {
                    return Err(Status::stale(served.subject(key.1)));
                }
                let mut object = object;
                default(served, &mut object);
                Ok(object)
            })
            .await?;
        call.warnings.extend(warnings);
        Ok(done)
    }
}

/// The object as the patch wants it, in the request's version, and what is odd.
fn patched(
    served: &Served,
    old: &Version<Value>,
    patch: Patch<'_>,
) -> Result<(Value, Vec<String>), Status> {
    let before = shown(served, old.revision, &old.object);
    let mut object = match patch.ty {
        PatchType::Json => patch::json(&before, patch.patch).map_err(|error| error.status())?,
        PatchType::Merge => {
            let mut object = before;
            patch::merge(&mut object, patch.patch);
            object
        }
        PatchType::Strategic => {
            let shape = &served.definition.shape;
            patch::strategic(shape, &before, patch.patch).map_err(|error| error.status())?
        }
    };
    let odd = fit(&served.definition, patch.query, &mut object, Vec::new())?;
    Ok((object, odd))
}
