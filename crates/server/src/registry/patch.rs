//! Patch requests: reads the object, applies the patch, then updates it; retried on a conflict.

use object::{Object, Status, StrictError, StructSchema, Value, View, from_json_strict};
use schema::{ErrorList, FieldPath, ResourceDefinition, patch};
use store::Version;

use super::{
    Registry, RequestContext,
    create::default_and_convert,
    update::{missing_resource_version, parse_precondition},
};
use crate::{
    Query, ServedResource, audit,
    codec::{
        FieldValidation, StrictFindings, coerce_body, is_unversioned_kind, other_than_object,
        replace_invalid_utf8, validation,
    },
    respond::to_response_object,
};

/// The patch formats other than apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
}

impl PatchType {
    /// The patch type of a content type.
    pub fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// A patch of an object or a subresource.
#[derive(Clone, Debug)]
pub struct Patch<'a> {
    ty: PatchType,
    patch: Value,
    /// The patch as it was sent.
    text: String,
    /// The paths of duplicate fields in the patch.
    duplicate_fields: Vec<String>,
    query: &'a Query,
}

impl<'a> Patch<'a> {
    /// Decodes a patch from a request body.
    pub fn read(ty: PatchType, bytes: &[u8], query: &'a Query) -> Result<Self, Status> {
        let malformed = || Status::bad_request("invalid JSON patch");
        let bytes = replace_invalid_utf8(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| malformed())?.to_owned();
        let mut twice = Vec::new();
        let patch = from_json_strict(&bytes, None, &mut twice).map_err(|_| malformed())?;
        let twice = twice.iter().map(|odd| odd.path().to_owned()).collect();
        audit::log_request_object(|| patch.clone());
        Ok(Self { ty, patch, text, duplicate_fields: twice, query })
    }
}

impl Registry {
    /// Patches an object or a subresource.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn patch(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        subresource: &str,
        patch: &Patch<'_>,
    ) -> Result<Version<Value>, Status> {
        let mut warnings = Vec::new();
        let done = self
            .guaranteed_update(call, served, key, subresource, |old| {
                let (mut object, odd) = self.patched(served, old, patch)?;
                warnings = odd;
                check_identity(served, &object, key)?;
                let wanted =
                    parse_precondition(Object::view(&object).metadata().resource_version())?;
                if wanted == 0 && !served.internal.strategy.allow_unconditional_update() {
                    return Err(missing_resource_version(served, key.1));
                } else if wanted != 0 && wanted != old.revision {
                    return Err(Status::optimistic_lock_conflict(served.subject(key.1)));
                }
                default_and_convert(served, &mut object);
                Ok(object)
            })
            .await;
        call.warnings.splice(0..0, warnings); // they were found first
        done
    }

    /// The patched object in the version of the request, and its warnings.
    fn patched(
        &self,
        served: &ServedResource,
        old: &Version<Value>,
        patch: &Patch<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let before = to_response_object(served, old.revision, &old.object);
        self.apply_patch(&served.definition, before, patch)
    }

    /// Applies a patch to a value that is not the stored object, such as the Scale of a
    /// subresource, or that has another kind.
    pub fn apply_patch(
        &self,
        kind: &ResourceDefinition,
        mut before: Value,
        patch: &Patch<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let shape = &kind.schema;
        // Fields that this version does not have are dropped before patching, as if they did not
        // exist.
        kind.coerce(&mut before, &mut Vec::new()).map_err(|error| {
            Status::internal(format!("the stored object is not right: {error}"))
        })?;
        kind.normalize(&mut before);
        if patch.ty == PatchType::Strategic {
            open(&mut before);
        }
        let (given, text, mut odd) = merged(shape, &before, patch)?;
        odd.retain(|odd| kind.is_built_in() && matches!(odd, StrictError::UnknownField(_)));
        let misfit = |why: &str| {
            let mut errs = ErrorList::default();
            errs.invalid(&FieldPath::Root.field("patch"), &*text, why);
            errs.into_status("", "", "")
        };
        if let Some(why) = self.another_kind(kind, &given, patch.ty) {
            return Err(misfit(&why));
        }
        // Without an apiVersion upstream decodes into its internal type, which has no JSON fields.
        if kind.is_built_in()
            && patch.ty != PatchType::Strategic
            && Object::view(&given).api_version().is_empty()
        {
            let names = given.entries().map(|(name, _)| name).filter(|name| *name != "kind");
            let unknown: Vec<_> = names.map(|name| format!("unknown field {name:?}")).collect();
            return match validation(patch.query) {
                FieldValidation::Strict => {
                    Err(misfit(&format!("strict decoding error: {}", unknown.join(", "))))
                }
                FieldValidation::Warn => Ok((Value::object(), unknown)),
                FieldValidation::Ignore => Ok((Value::object(), Vec::new())),
            };
        }
        let mut object = given.clone();
        let written =
            StrictFindings::written((patch.ty != PatchType::Strategic).then_some(&text), odd);
        let conform = |object: &mut Value| {
            coerce_body(kind, &Query::default(), object, &written).map_err(|status| {
                let why = status.message();
                let why = why.split_once(" cannot be handled as a ").map_or(why, |(_, rest)| rest);
                misfit(why.split_once(": ").map_or(why, |(_, rest)| rest))
            })
        };
        let odd = match conform(&mut object) {
            // Upstream converts the result of a strategic merge from an unstructured map.
            Err(_) if patch.ty == PatchType::Strategic => {
                object = given.clone();
                patch::from_unstructured(kind.names.version, shape, &mut object)
                    .map_err(|why| misfit(&why))?;
                if let Some(why) = kind.strategy.decode_error(&object) {
                    return Err(Status::failure(500, "", why));
                }
                conform(&mut object)?
            }
            odd => odd?,
        };
        let mut all = match patch.ty {
            PatchType::Json => patch::strict_patch_errors(&patch.patch, &patch.duplicate_fields),
            _ => patch
                .duplicate_fields
                .iter()
                .map(|path| format!("duplicate field {path:?}"))
                .collect(),
        };
        all.extend(odd);
        match validation(patch.query) {
            FieldValidation::Ignore => Ok((object, Vec::new())),
            FieldValidation::Strict if !all.is_empty() => {
                Err(misfit(&format!("strict decoding error: {}", all.join(", "))))
            }
            _ => Ok((object, all)),
        }
    }

    /// The error if a patch changes the object to another kind, or to no object.
    fn another_kind(
        &self,
        own: &ResourceDefinition,
        given: &Value,
        ty: PatchType,
    ) -> Option<String> {
        if let Value::List(_) = given {
            return Some(
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value \
                 of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }"
                    .to_owned(),
            );
        }
        let wrong = |name: &&str| !matches!(given.get(name), Value::Null | Value::Text(_));
        if let Some(name) = ["kind", "apiVersion"].into_iter().find(wrong) {
            let (value, what) = (given.get(name), other_than_object(given.get(name)));
            return Some(match (ty, value) {
                (PatchType::Strategic, Value::Int(_) | Value::UInt(_)) => {
                    "cannot convert int64 to string".to_owned()
                }
                (PatchType::Strategic, _) => "unrecognized type: string".to_owned(),
                _ => format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into \
                     Go struct field .{name} of type string",
                    what.unwrap_or("object")
                ),
            });
        }
        let (names, given) = (&own.names, Object::view(given));
        let (version, kind) = (given.api_version(), given.kind());
        // A strategic merge patch is applied to a typed object, whose kind cannot change.
        if own.is_custom()
            || ty == PatchType::Strategic
            || (version, kind) == (&*names.api_version(), names.kind)
            || version.is_empty()
            || kind.is_empty()
        {
            return None;
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        Some(if is_unversioned_kind(kind) || self.kinds().by_kind(group, short, kind).is_some() {
            let package = names.group.split('.').next().filter(|group| !group.is_empty());
            let (package, own) = (package.unwrap_or("core"), names.kind);
            let short = if is_unversioned_kind(kind) { "v1" } else { short };
            format!("converting ({short}.{kind}) to ({package}.{own}): unknown conversion")
        } else {
            format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        })
    }
}

/// Expands raw JSON values to maps, so that a strategic merge patch can merge them by field name.
pub(super) fn open(value: &mut Value) {
    match value {
        Value::Raw(_) => *value = value.with_raw_expanded(),
        value if !has_raw(value) => {}
        Value::List(items) => items.make_mut().iter_mut().for_each(open),
        object => object.retain(|name, value| {
            if name != MANAGED_FIELDS {
                open(value);
            }
            true
        }),
    }
}

fn has_raw(value: &Value) -> bool {
    matches!(value, Value::Raw(_))
        || value.items().iter().any(has_raw)
        || value.entries().any(|(name, value)| name != MANAGED_FIELDS && has_raw(value))
}

/// `managedFields` stays raw.
const MANAGED_FIELDS: &str = "managedFields";

/// The result of the patch, the text that represents it in an error message, and the findings of
/// strict decoding.
fn merged(
    shape: &StructSchema,
    before: &Value,
    patch: &Patch<'_>,
) -> Result<(Value, String, Vec<StrictError>), Status> {
    let strict = validation(patch.query) != FieldValidation::Ignore;
    let text = match patch.ty {
        PatchType::Json => {
            patch::apply_json_patch_text(&patch::to_go_json(shape, before), &patch.text, strict)
        }
        PatchType::Merge if strict && !patch.patch.is_object() && !patch.patch.is_null() => {
            let why = patch::not_an_object(&patch.patch);
            return Err(Status::bad_request(format!("error decoding patch: {why}")));
        }
        PatchType::Merge => {
            patch::apply_merge_patch_text(&patch::to_go_json(shape, before), &patch.text)
        }
        PatchType::Strategic => {
            let mut left = patch.patch.clone();
            let given = patch::apply_strategic_merge_patch(shape, before, &mut left);
            let given = given.map_err(|error| error.status())?;
            return Ok((given, patch::printed(&left), Vec::new()));
        }
    };
    let text = text.map_err(|error| error.status())?;
    let mut odd = Vec::new();
    let given = from_json_strict(text.as_bytes(), Some(shape), &mut odd);
    Ok((given.map_err(|why| Status::bad_request(why.to_string()))?, text, odd))
}

/// Checks that a patch does not change the name or namespace.
pub(super) fn check_identity(
    served: &ServedResource,
    object: &Value,
    (namespace, name): (&str, &str),
) -> Result<(), Status> {
    let meta = Object::view(object).metadata();
    let elsewhere = !meta.namespace().is_empty() && meta.namespace() != namespace;
    if served.definition.is_namespaced() && elsewhere {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    match meta.name() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        other if other != name => Err(Status::bad_request(format!(
            "the name of the object ({other}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}
