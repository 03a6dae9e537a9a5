//! Conversion of custom resources between versions, by conversion webhooks.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use object::{Object, Status, Value, View};
use schema::{ErrorList, FieldPath, ResourceDefinition, validate_annotations, validate_labels};
use store::Version;

/// The result of a conversion webhook; the error is its message.
pub type ConvertFuture = Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send>>;

/// Calls conversion webhooks.
pub trait Converter: fmt::Debug + Send + Sync {
    /// Converts the objects to `api_version`, and returns them in their order. `webhook` is the
    /// `conversion.webhook` of the CustomResourceDefinition.
    fn convert(&self, webhook: &Value, objects: Vec<Value>, api_version: &str) -> ConvertFuture;
}

/// Converts custom resources to the version of `to`. Objects that have this version already are
/// left as they are.
pub(crate) async fn converted(
    converter: Option<&Arc<dyn Converter>>,
    to: &ResourceDefinition,
    mut versions: Vec<Arc<Version<Value>>>,
) -> Result<Vec<Arc<Version<Value>>>, Status> {
    if to.custom().is_none_or(|custom| custom.conversion.is_none()) {
        return Ok(versions);
    }
    let wanted = to.names.api_version();
    let other =
        |version: &&Arc<Version<Value>>| Object::view(&version.object).api_version() != wanted;
    let objects: Vec<_> =
        versions.iter().filter(other).map(|version| version.object.clone()).collect();
    if objects.is_empty() {
        return Ok(versions);
    }
    let mut made =
        call_webhook(converter, to, objects).await.map_err(Status::internal)?.into_iter();
    for version in versions.iter_mut().filter(|version| other(&&**version)) {
        let Some(mut object) = made.next() else { break };
        to.coerce(&mut object, &mut Vec::new())
            .map_err(|why| Status::internal(failed(&version.object, &why)))?;
        *version = Arc::new(Version { revision: version.revision, object });
    }
    Ok(versions)
}

/// Calls the conversion webhook for objects in another version than `to`. The result has as many
/// objects; of their metadata a webhook can only change labels and annotations.
pub(crate) async fn call_webhook(
    converter: Option<&Arc<dyn Converter>>,
    to: &ResourceDefinition,
    objects: Vec<Value>,
) -> Result<Vec<Value>, String> {
    let webhook = to.custom().and_then(|custom| custom.conversion.as_ref());
    let (Some(webhook), Some(first)) = (webhook, objects.first()) else { return Ok(objects) };
    let failed = |why: String| failed(first, &why);
    let converter = converter.ok_or_else(|| failed("this server calls no webhooks".to_owned()))?;
    let made = converter.convert(webhook, objects.clone(), &to.names.api_version()).await;
    let made = made.map_err(failed)?;
    if made.len() != objects.len() {
        let (made, asked) = (made.len(), objects.len());
        return Err(failed(format!("returned {made} objects, expected {asked}")));
    }
    let made = objects.iter().zip(made).map(|(old, new)| validate_converted(old, new, to));
    made.collect::<Result<_, _>>().map_err(failed)
}

fn failed(object: &Value, why: &str) -> String {
    let named = Object::view(object);
    format!("conversion webhook for {}, Kind={} failed: {why}", named.api_version(), named.kind())
}

/// Checks that a webhook returned the same object in the requested version, and restores its
/// metadata.
fn validate_converted(
    old: &Value,
    mut new: Value,
    to: &ResourceDefinition,
) -> Result<Value, String> {
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
            kept => {
                if kept != meta.get(field) {
                    validate_strings(field, kept)?;
                }
                meta[field] = kept.clone();
            }
        }
    }
    new["metadata"] = meta;
    Ok(new)
}

/// Validates labels or annotations that a webhook changed. They may be stored and are read by other
/// clients, as if a user had written them.
fn validate_strings(field: &str, changed: &Value) -> Result<(), String> {
    if !changed.is_object() {
        return Err(format!("invalid metadata.{field} in converted object: it is not a map"));
    }
    if let Some((key, _)) = changed.entries().find(|(_, value)| value.as_str().is_none()) {
        return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
    }
    let mut object = Value::object();
    object["metadata"][field] = changed.clone();
    let (meta, mut errs) = (Object::view(&object).metadata(), ErrorList::default());
    let metadata = FieldPath::Root.field("metadata");
    match field {
        "labels" => validate_labels(meta.labels(), &metadata.field("labels"), &mut errs),
        _ => validate_annotations(meta.annotations(), &metadata.field("annotation"), &mut errs),
    }
    let found: Vec<_> = errs.0.iter().map(ToString::to_string).collect();
    match &*found {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;
    use schema::{
        Subresource,
        custom::{NoCelRules, crd_definitions},
    };

    use super::*;

    /// A conversion that renames a field.
    #[derive(Debug)]
    struct Renames;

    impl Converter for Renames {
        fn convert(&self, _: &Value, objects: Vec<Value>, api_version: &str) -> ConvertFuture {
            let api_version = api_version.to_owned();
            Box::pin(async move {
                let convert = |mut object: Value| {
                    object["apiVersion"] = api_version.as_str().into();
                    object["spec"]["new"] = object["spec"]["old"].clone();
                    object["metadata"]["uid"] = object["spec"]["uid"].clone();
                    object["metadata"]["finalizers"] = ["lost"].into_iter().collect();
                    object
                };
                Ok(objects.into_iter().map(convert).collect())
            })
        }
    }

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).expect("written in a test")
    }

    fn second() -> ResourceDefinition {
        let crd = tree(
            r#"{"spec":{"group":"example.com","scope":"Cluster","conversion":{"strategy":"Webhook","webhook":{}},
            "versions":[{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
            "properties":{"spec":{"type":"object","properties":{"new":{"type":"string"}}}}}}}]},
            "status":{"acceptedNames":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"}}}"#,
        );
        let scale = Subresource::converted("scale", "Scale");
        crd_definitions(&crd, scale, &NoCelRules)
            .expect("room")
            .expect("a stored version")
            .storage_version
    }

    async fn asked(uid: &str) -> Result<Value, Status> {
        let object = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a","uid":"u"}},
            "spec":{{"old":"x","uid":"{uid}"}}}}"#
        );
        let version = Arc::new(Version { revision: 7, object: tree(&object) });
        let converter: Arc<dyn Converter> = Arc::new(Renames);
        let mut made = converted(Some(&converter), &second(), vec![version]).await?;
        let made = made.pop().expect("one for one");
        assert_eq!(made.revision, 7);
        Ok(made.object.clone())
    }

    #[tokio::test]
    async fn only_what_may_change_has_changed() {
        let made = asked("u").await.expect("converted");
        let right = r#"{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","uid":"u"},
            "spec":{"new":"x"}}"#;
        assert_eq!(made, tree(right));
        let refused = asked("other").await.expect_err("another object");
        assert!(refused.message().ends_with("must have the same UID: u != other"));
    }

    #[test]
    fn labels_and_annotations_of_webhooks_are_validated() {
        let old = tree(
            r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"a":"b"}}}"#,
        );
        let made = |meta: &str| {
            let new =
                r#"{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a",META}}"#;
            validate_converted(&old, tree(&new.replace("META", meta)), &second())
        };
        let refused = |meta: &str, why: &str| {
            let error = made(meta).expect_err(meta);
            assert!(error.contains(why), "{meta}: {error}");
        };
        refused(r#""labels":{"a b":"c"}"#, "metadata.labels: Invalid value: \"a b\"");
        refused(r#""labels":{"a":"\n"}"#, "metadata.labels: Invalid value: \"\\n\"");
        refused(r#""labels":{"a":1}"#, "metadata.labels[a] must be a string");
        refused(r#""labels":["a"]"#, "invalid metadata.labels");
        refused(r#""annotations":{"a/b/c":""}"#, "metadata.annotation: Invalid value");
        let long = format!(r#""annotations":{{"a":"{}"}}"#, "x".repeat(300_000));
        refused(&long, "metadata.annotation: Too long");
        let kept = made(r#""labels":{"c":"d"},"annotations":{"e":"f"}"#).expect("valid");
        assert_eq!(kept.get("metadata").get("labels").get("c").as_str(), Some("d"));
        assert_eq!(kept.get("metadata").get("annotations").get("e").as_str(), Some("f"));
    }
}
