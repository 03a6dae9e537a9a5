//! Patches: read, change the tree, then as any update; again if somebody was faster.

use object::{Object, Status, Value, View, to_json};
use schema::{Errors, Path, patch};
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
                check_name(&object, key.1)?;
                let wanted = based_on(Object::view(&object).metadata().resource_version())?;
                if wanted != 0 && wanted != old.revision {
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

/// A patch changes an object, it does not make another of it.
fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match Object::view(object).metadata().name() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        other if other != name => Err(Status::bad_request(format!(
            "the name of the object ({other}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// The object as the patch wants it, in the request's version, and what is odd.
fn patched(
    served: &Served,
    old: &Version<Value>,
    patch: Patch<'_>,
) -> Result<(Value, Vec<String>), Status> {
    let mut before = shown(served, old.revision, &old.object);
    // What the version does not know stays out of sight, as it was before.
    served
        .definition
        .conform(&mut before, &mut Vec::new())
        .map_err(|error| Status::internal(format!("the stored object is not right: {error}")))?;
    let mut object = match patch.ty {
        PatchType::Json => patch::json(&before, patch.patch).map_err(|error| error.status())?,
        PatchType::Merge if patch.patch.is_null() => {
            return Err(Status::bad_request("Invalid JSON Patch"));
        }
        PatchType::Merge if !patch.patch.is_object() => {
            let why = patch::not_an_object(patch.patch);
            return Err(Status::bad_request(format!("error decoding patch: {why}")));
        }
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
    let given = object.clone();
    let odd = fit(&served.definition, patch.query, &mut object, &[]);
    Ok((object, odd.map_err(|status| misfit(&status, patch.ty, &given))?))
}

/// What came of a patch is no object of its kind. Upstream says so without its name.
fn misfit(status: &Status, ty: PatchType, given: &Value) -> Status {
    if ty == PatchType::Strategic {
        return status.clone();
    }
    let why = status.message();
    let why = why.split_once(" cannot be handled as a ").map_or(why, |(_, rest)| rest);
    let why = why.split_once(": ").map_or(why, |(_, rest)| rest);
    let mut errs = Errors::default();
    let text = String::from_utf8_lossy(&to_json(given)).into_owned();
    errs.invalid(&Path::Root.field("patch"), text, why);
    errs.status("", "", "")
}
