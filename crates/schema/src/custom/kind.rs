//! Resource definitions of a CRD, one for each version.

use std::sync::Arc;

use jsonpath::Template;
use object::{Lens, Object, ObjectMeta, Text, Value, View, depth, from_json, to_json};
use ref_cast::RefCast;

use super::{
    check::SchemaValidator,
    columns::{MOST, PrinterColumn, columns},
    default::apply_defaults,
    intern::{self, InternBudgetExceeded},
    lists::validate_list_types,
    meta::{check_embedded, coerce_embedded, coerce_metadata},
    prune::{drop_nulls, prune},
    publish,
    rules::{CelRuleCompiler, CelRules},
    schema::{JsonSchema, get_entry},
    shape::to_type_schema,
};
use crate::{
    Columns, Conversion, ErrorList, ErrorType, FieldError, FieldPath, Origin, Preparation,
    ResourceDefinition, ResourceNames, Scope, StorageConfig, Subresource, UnknownFields,
    Validation, WarningList, name_validation, normalize, patch, validate_name, verbs,
};

/// The versions of one CRD.
#[derive(Debug)]
pub struct CrdDefinitions {
    /// The storage version.
    pub storage_version: ResourceDefinition,
    /// All versions; `served` tells which are served.
    pub versions: Vec<ResourceDefinition>,
}

/// The paths of the replicas and the selector in an object, for the scale subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: Text,
    pub status_replicas: Text,
    pub selector: Option<Text>,
}

/// What only custom resources have: schema, rules, columns and conversion.
#[derive(Debug)]
pub struct CustomResource {
    schema: Option<JsonSchema>,
    checker: SchemaValidator,
    rules: Option<Arc<dyn CelRules>>,
    status: bool,
    pub scale: Option<ScalePaths>,
    pub list_kind: Text,
    /// The deprecation warning of the version.
    pub deprecated: Option<String>,
    /// The webhook that converts objects between versions, if there is one.
    pub conversion: Option<Value>,
    printer_columns: Vec<PrinterColumn>,
    selectable: Vec<(Text, Template)>,
    pruning: bool,
    openapi_schema: Value,
}

/// The definitions of a CRD whose names have been accepted; `None` if it has no storage version.
/// `scale` is the subresource of versions that can be scaled.
pub fn crd_definitions(
    crd: &Value,
    scale: Subresource,
    compile: &dyn CelRuleCompiler,
) -> Result<Option<CrdDefinitions>, InternBudgetExceeded> {
    let versions = crd.get("spec").get("versions").items();
    let mut hub = None;
    let mut all = Vec::new();
    for version in versions {
        let definition = definition(crd, version, scale, compile)?;
        if is(version, "storage") {
            hub = Some(definition.clone());
        }
        all.push(definition);
    }
    Ok(hub.map(|hub| CrdDefinitions { storage_version: hub, versions: all }))
}

fn is(version: &Value, what: &str) -> bool {
    version.get(what).as_bool() == Some(true)
}

fn definition(
    crd: &Value,
    version: &Value,
    scale: Subresource,
    compile: &dyn CelRuleCompiler,
) -> Result<ResourceDefinition, InternBudgetExceeded> {
    let spec = crd.get("spec");
    let names = accepted_names(crd, version)?;
    let stored = spec.get("versions").items().iter().find(|version| is(version, "storage"));
    let stored = stored.and_then(|stored| stored.get("name").as_str()).unwrap_or_default();
    let (columns, cells) = columns(version);
    let custom = CustomResource::new(crd, version, &names, cells, compile);
    let shape = to_type_schema(names.kind, custom.schema.as_ref())?;
    let custom = Arc::new(custom);
    let prefix = intern::text(&format!("{}/{}", names.group, names.plural))?;
    Ok(ResourceDefinition {
        scope: match spec.get("scope").as_str() {
            Some("Namespaced") => Scope::Namespaced,
            _ => Scope::Cluster,
        },
        verbs: verbs::CUSTOM,
        storage: StorageConfig::json(prefix, intern::text(stored)?),
        served: is(version, "served"),
        tracks_generation: true,
        reset_fields: if custom.status { &[&["status"]] } else { &[] },
        subresources: intern::subresources(custom.subresources(names.kind, scale))?,
        columns: columns.into(),
        strategy: custom.clone(),
        origin: Origin::Custom(custom),
        ..ResourceDefinition::minimal(names, shape)
    })
}

fn accepted_names(crd: &Value, version: &Value) -> Result<ResourceNames, InternBudgetExceeded> {
    let accepted = crd.get("status").get("acceptedNames");
    let text = |tree: &Value, name: &str| intern::text(tree.get(name).as_str().unwrap_or_default());
    let list =
        |name: &str| intern::texts(accepted.get(name).items().iter().filter_map(Value::as_str));
    Ok(ResourceNames {
        group: text(crd.get("spec"), "group")?,
        version: text(version, "name")?,
        kind: text(accepted, "kind")?,
        plural: text(accepted, "plural")?,
        singular: text(accepted, "singular")?,
        short_names: list("shortNames")?,
        categories: list("categories")?,
    })
}

impl CustomResource {
    fn new(
        crd: &Value,
        version: &Value,
        names: &ResourceNames,
        cells: Vec<PrinterColumn>,
        compile: &dyn CelRuleCompiler,
    ) -> Self {
        let spec = crd.get("spec");
        let schema = version.get("schema").get("openAPIV3Schema");
        let schema = schema.is_object().then(|| JsonSchema::from(schema.clone()));
        let subresources = version.get("subresources");
        let scale = subresources.get("scale");
        let text =
            |tree: &Value, name: &str| Text::from(tree.get(name).as_str().unwrap_or_default());
        let selectable = version.get("selectableFields").items().iter().filter_map(|field| {
            let path = field.get("jsonPath").as_str()?;
            let template = Template::parse(&format!("{{{path}}}")).ok()?;
            Some((path.trim_start_matches('.').into(), template))
        });
        let conversion = spec.get("conversion");
        let webhook = conversion.get("strategy").as_str() == Some("Webhook");
        let prunes = spec.get("preserveUnknownFields").as_bool() != Some(true);
        Self {
            checker: schema.as_ref().map(SchemaValidator::new).unwrap_or_default(),
            rules: schema.as_ref().and_then(|schema| compile.compile(schema)),
            status: subresources.get("status").is_object(),
            scale: scale
                .is_object()
                .then(|| ScalePaths::read(scale))
                .filter(ScalePaths::is_shallow),
            list_kind: text(crd.get("status").get("acceptedNames"), "listKind"),
            deprecated: deprecation(spec, version, names),
            conversion: webhook.then(|| conversion.get("webhook").clone()),
            printer_columns: cells,
            selectable: selectable.collect(),
            pruning: prunes,
            openapi_schema: publish::kind(schema.as_ref(), version, names),
            schema,
        }
    }

    /// The schema of the CRD version.
    pub fn schema(&self) -> Option<&JsonSchema> {
        self.schema.as_ref()
    }

    /// The OpenAPI v3 schema of the kind.
    pub fn published(&self) -> &Value {
        &self.openapi_schema
    }

    /// Coerces an object: metadata gets its types, and unknown fields are pruned.
    pub(crate) fn conform(
        &self,
        object: &mut Value,
        unknown: &mut UnknownFields,
    ) -> Result<(), String> {
        let mut odd = UnknownFields::new();
        if let Some(read) = widen_large_integers(object) {
            *object = read;
        }
        coerce_metadata(object, "", &mut odd)?;
        if self.pruning {
            let nothing = JsonSchema::default();
            let mut dropped = UnknownFields::new();
            prune(object, self.schema.as_ref().unwrap_or(&nothing), true, &mut dropped);
            drop_nulls(object, self.schema.as_ref());
            odd.extend(dropped);
        }
        if let Some(schema) = &self.schema {
            // The root has been done already.
            let mut failed = Ok(());
            object.retain(|name, value| {
                if let (Ok(()), Some(inner)) = (&failed, schema.property(name)) {
                    failed = coerce_embedded(value, Some(inner), name, &mut odd);
                }
                true
            });
            failed?;
        }
        unknown.append(&mut odd);
        Ok(())
    }

    pub(crate) fn normalize(object: &mut Value) {
        if object.get("metadata").is_object() {
            normalize(ObjectMeta::SHAPE, object.get_mut("metadata"));
        }
    }

    /// Converts whole floats to the integers they are read back as: `1.0` is written as `1`.
    pub(crate) fn normalize_numbers(value: &Value) -> Option<Value> {
        match value {
            Value::Float(n) if n.fract() == 0.0 => {
                from_json(&to_json(value)).ok().filter(|kept| matches!(kept, Value::Int(_)))
            }
            value => value.map_children(Self::normalize_numbers),
        }
    }

    fn subresources(&self, kind: &'static str, scale: Subresource) -> Vec<Subresource> {
        let status = self.status.then(|| Subresource::status(kind));
        let scale = self.scale.is_some().then_some(scale);
        status.into_iter().chain(scale).collect()
    }

    fn check_scale(&self, object: &Value, spec: bool, errs: &mut ErrorList) {
        let Some(scale) = &self.scale else { return };
        let mut paths = vec![&scale.status_replicas];
        paths.extend(spec.then_some(&scale.spec_replicas));
        for path in paths {
            let mut wrong = |bad: Value, detail: String| {
                let (path, shown) = (path.to_string(), None);
                errs.0.push(FieldError {
                    error_type: ErrorType::Invalid,
                    path,
                    bad_value: bad,
                    formatted_value: shown,
                    detail,
                });
            };
            match replicas(object, path) {
                Err(why) => wrong(0.into(), why),
                Ok(Some(n)) if n < 0 => {
                    wrong(n.into(), "should be a non-negative integer".to_owned());
                }
                Ok(Some(n)) if n > i64::from(i32::MAX) => {
                    wrong(n.into(), format!("should be less than or equal to {}", i32::MAX));
                }
                Ok(_) => {}
            }
        }
    }

    fn check_rules(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        let Some(rules) = &self.rules else { return };
        let blocks = |error: &FieldError| {
            matches!(
                error.error_type,
                ErrorType::NotSupported
                    | ErrorType::Required
                    | ErrorType::TooLong
                    | ErrorType::TooMany
                    | ErrorType::TypeInvalid
            )
        };
        if errs.0.iter().any(blocks) {
            errs.0.push(FieldError {
                error_type: ErrorType::Invalid,
                path: "<nil>".to_owned(),
                bad_value: Value::Null,
                formatted_value: None,
                detail: "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation"
                    .to_owned(),
            });
        } else {
            rules.check(object, old, errs);
        }
    }

    fn check_all(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        let Some(schema) = &self.schema else { return };
        validate_embedded_resources(schema, object, errs);
        let mut before = ErrorList::default();
        if let Some(old) = old {
            validate_list_types(old, schema, &FieldPath::Root, &mut before);
        }
        if before.is_empty() {
            validate_list_types(object, schema, &FieldPath::Root, errs);
        }
        self.check_rules(object, old, errs);
    }
}

/// Converts integers above the int64 range to floats, as upstream decodes them.
fn widen_large_integers(value: &Value) -> Option<Value> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "so does Go")]
        Value::UInt(n) => Some(Value::Float(*n as f64)),
        value => value.map_children(widen_large_integers),
    }
}

/// The integer at a path of field names, such as `.spec.replicas`.
pub(super) fn replicas(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let misfit = |at: &str, value: &Value, wanted: &str| {
        let ty = if value.is_null() { "<nil>" } else { patch::go_type(value) };
        let shown = patch::printed(value);
        Err(format!("{at} accessor error: {shown} is of the type {ty}, expected {wanted}"))
    };
    let (mut found, mut at) = (object, String::new());
    for name in path.trim_start_matches('.').split('.') {
        at = format!("{at}.{name}");
        if !found.is_object() && !found.is_null() {
            return misfit(&at, found, "map[string]interface{}");
        }
        let Some(inner) = get_entry(found, name) else { return Ok(None) };
        found = inner;
    }
    found.as_i64().map_or_else(|| misfit(path, found, "int64"), |number| Ok(Some(number)))
}

/// The value at a path of field names.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |at, name| get_entry(at, name))
}

impl ScalePaths {
    /// The desired and the current number of replicas.
    pub fn replicas(&self, object: &Value) -> Result<(Option<i64>, i64), String> {
        let status = replicas(object, &self.status_replicas)?.unwrap_or_default();
        Ok((replicas(object, &self.spec_replicas)?, status))
    }

    /// The label selector.
    pub fn selector<'a>(&self, object: &'a Value) -> &'a str {
        let found = self.selector.as_ref().and_then(|path| at(object, path));
        found.and_then(Value::as_str).unwrap_or_default()
    }

    fn read(scale: &Value) -> Self {
        let text = |name: &str| Text::from(scale.get(name).as_str().unwrap_or_default());
        Self {
            spec_replicas: text("specReplicasPath"),
            status_replicas: text("statusReplicasPath"),
            selector: scale.get("labelSelectorPath").as_str().map(Text::from),
        }
    }

    /// Whether the paths are no deeper than objects can nest.
    fn is_shallow(&self) -> bool {
        let paths =
            [Some(&self.spec_replicas), Some(&self.status_replicas), self.selector.as_ref()];
        paths.into_iter().flatten().all(|path| path.matches('.').count() <= depth::MAX)
    }

    /// Sets the desired number of replicas.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) {
        let path = self.spec_replicas.trim_start_matches('.');
        let slot = path.split('.').fold(object, |at, name| at.get_mut(name));
        *slot = replicas.into();
    }
}

/// Size in bytes up to which all rules and patterns of an object are checked in a fraction of a
/// millisecond.
const LARGE: usize = 16 << 10;

/// Whether an object is larger than `left`, by a rough count of bytes.
fn is_larger(value: &Value, left: &mut usize) -> bool {
    let size = 8 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(size) else { return true };
    *left = rest;
    value.items().iter().any(|item| is_larger(item, left))
        || value.entries().any(|(_, value)| is_larger(value, left))
}

/// Validates embedded resources. The root itself is validated like every object.
fn validate_embedded_resources(schema: &JsonSchema, object: &Value, errs: &mut ErrorList) {
    for (name, value) in object.entries() {
        FieldPath::Root
            .if_present(name, schema.property(name), |it, at| check_embedded(value, it, at, errs));
    }
}

fn deprecation(spec: &Value, version: &Value, names: &ResourceNames) -> Option<String> {
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(told) = version.get("deprecationWarning").as_str() {
        return Some(told.to_owned());
    }
    let ResourceNames { group, version, kind, .. } = names;
    let told = format!("{group}/{version} {kind} is deprecated");
    let mut better: Vec<&str> = spec
        .get("versions")
        .items()
        .iter()
        .filter(|other| is(other, "served") && !is(other, "deprecated"))
        .filter_map(|other| other.get("name").as_str())
        .filter(|other| object::compare_versions(other, version).is_gt())
        .collect();
    better.sort_by(|a, b| object::compare_versions(b, a));
    Some(match better.first() {
        Some(best) => format!("{told}; use {group}/{best} {kind}"),
        None => told,
    })
}

impl Preparation for CustomResource {
    fn default_fields(&self, object: &mut Value) {
        apply_defaults(object, self.schema.as_ref());
    }

    fn prepare_for_create(&self, object: &mut Value) {
        if self.status {
            object.remove("status");
        }
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        let managed = Object::view(object).metadata().managed_fields().clone();
        let meta = Object::view(old).metadata().clone();
        Object::ref_cast_mut(object).set_metadata(meta.with_managed_fields(managed));
    }
}

impl Validation for CustomResource {
    fn validate(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        if old.is_none() {
            validate_name(name_validation::dns_subdomain, Object::view(object).metadata(), errs);
        }
        if let Some(schema) = &self.schema {
            self.checker.validate(schema, (object, old), "", errs);
        }
        self.check_scale(object, true, errs);
        self.check_all(object, old, errs);
    }

    fn is_expensive(&self, object: &Value) -> bool {
        is_larger(object, &mut { LARGE })
    }

    fn validate_status(&self, object: &Value, old: &Value, errs: &mut ErrorList) {
        let status = self.schema.as_ref().and_then(|schema| schema.property("status"));
        if let (Some(schema), Some(value)) = (status, get_entry(object, "status")) {
            self.checker.validate(schema, (value, get_entry(old, "status")), "status", errs);
        }
        self.check_scale(object, false, errs);
        let Some(schema) = &self.schema else { return };
        let (mut new, mut before) = (ErrorList::default(), ErrorList::default());
        validate_list_types(object, schema, &FieldPath::Root, &mut new);
        validate_list_types(old, schema, &FieldPath::Root, &mut before);
        if before.is_empty() {
            errs.0.append(&mut new.0);
        }
        self.check_rules(object, Some(old), errs);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>, warnings: &mut WarningList) {
        let finalizers = |object: &Value| -> Vec<Text> {
            Object::view(object).metadata().finalizers().iter().map(Text::from).collect()
        };
        let before = old.map(finalizers).unwrap_or_default();
        let mut new = finalizers(object);
        new.retain(|name| !before.contains(name));
        new.sort_unstable();
        new.iter().for_each(|name| warn_finalizer(name, warnings));
    }
}

impl Columns for CustomResource {
    fn table_cells(&self, object: &Value, now: i64) -> Vec<Value> {
        self.printer_columns.iter().map(|cell| cell.cell(object, now)).collect()
    }

    fn selectable_fields(&self) -> Vec<&str> {
        self.selectable.iter().map(|(name, _)| &**name).collect()
    }

    fn selectable_field_value(&self, object: &Value, name: &str) -> Option<Text> {
        let (_, path) = self.selectable.iter().find(|(own, _)| own == name)?;
        let found = path.find_within(object, MOST).ok()?.into_iter().next()?.into_iter().next();
        Some(match found {
            None | Some(Value::Null) => Text::default(),
            Some(value) => jsonpath::format_value(&value).into(),
        })
    }
}

impl Conversion for CustomResource {}

fn warn_finalizer(name: &str, warnings: &mut WarningList) {
    let mut say = |why: &str| warnings.push(format!("metadata.finalizers: {name:?}: {why}"));
    object::names::qualified_name(name).iter().for_each(|why| say(why));
    let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&name);
    if !name.contains('/') && !standard {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        say(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        custom::NoCelRules,
        sample::{SCALE, tree},
    };

    fn declared() -> CrdDefinitions {
        let crd = tree(
            r#"{"spec":{"group":"kit.example.com","scope":"Namespaced","versions":[
                {"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
                 "schema":{"openAPIV3Schema":{"type":"object","properties":{
                    "spec":{"type":"object","properties":{"n":{"type":"integer","minimum":1,"default":2},"c":{"type":"string"}}},
                    "status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},
                 "selectableFields":[{"jsonPath":".spec.c"}],
                 "additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"}]},
                {"name":"v1beta1","served":false,"storage":false,"schema":{}}]},
              "status":{"acceptedNames":{"plural":"things","singular":"thing","kind":"Thing","listKind":"Things"}}}"#,
        );
        crd_definitions(&crd, SCALE, &NoCelRules)
            .expect("room for names")
            .expect("a stored version")
    }

    #[test]
    fn a_version_becomes_a_kind_like_any_other() {
        let CrdDefinitions { storage_version: hub, versions } = declared();
        assert_eq!(versions.iter().map(|one| one.served).collect::<Vec<_>>(), [true, false]);
        assert_eq!((hub.names.kind, &*hub.list_kind()), ("Thing", "Things"));
        assert_eq!(hub.storage, StorageConfig::json("kit.example.com/things", "v1"));
        assert!(hub.is_namespaced() && hub.subresource("status").is_some());
        let mut object = tree(
            r#"{"apiVersion":"kit.example.com/v1","kind":"Thing","metadata":{"name":"a","zed":1},
                "spec":{"c":"red","zed":1},"status":{"x":1}}"#,
        );
        let mut unknown = UnknownFields::new();
        hub.coerce(&mut object, &mut unknown).expect("metadata is right");
        assert_eq!(unknown, ["metadata.zed", "spec.zed"]);
        hub.strategy.default_fields(&mut object);
        hub.strategy.prepare_for_create(&mut object);
        assert_eq!(object.get("spec"), &tree(r#"{"c":"red","n":2}"#));
        assert!(object.get("status").is_null());
        assert_eq!(hub.strategy.table_cells(&object, 0), [Value::from("a"), 2.into()]);
        assert_eq!(hub.strategy.selectable_field_value(&object, "spec.c"), Some("red".into()));
        let mut errs = ErrorList::default();
        hub.strategy.validate(&object, None, &mut errs);
        assert!(errs.is_empty(), "{errs:?}");
        object["spec"]["n"] = 0.into();
        hub.strategy.validate(&object, None, &mut errs);
        assert_eq!(errs.0.len(), 1);
    }
}
