//! An operation of a path: parameters, request body and responses.

use object::Value;

use super::schemas::{kind_value, object, reference};
use crate::QueryParameter;

pub(super) const JSON: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAM: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
pub(super) const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

pub(super) const PRETTY: QueryParameter =
    ("pretty", "string", "Whether the answer is printed for people.");
pub(super) const WRITE: &[QueryParameter] = &[
    ("dryRun", "string", "All: everything is checked, nothing is kept."),
    ("fieldManager", "string", "Who is noted as the manager of the fields that this sets."),
    ("fieldValidation", "string", "What is done about unknown fields: Ignore, Warn or Strict."),
];
pub(super) const FORCE: QueryParameter =
    ("force", "boolean", "Takes fields from other managers, when applying.");
pub(super) const DELETE: &[QueryParameter] = &[
    ("dryRun", "string", "All: everything is checked, nothing is kept."),
    ("gracePeriodSeconds", "integer", "How many seconds the object is given to end."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Deletes also what can no longer be read from the store.",
    ),
    ("orphanDependents", "boolean", "Whether dependents stay; older than propagationPolicy."),
    (
        "propagationPolicy",
        "string",
        "What happens to dependents: Orphan, Background or Foreground.",
    ),
];
pub(super) const SELECT: &[QueryParameter] = &[
    ("continue", "string", "Where the last page of the list ended."),
    ("fieldSelector", "string", "Only objects with these fields."),
    ("labelSelector", "string", "Only objects with these labels."),
    ("limit", "integer", "How many objects a page has at most."),
    ("resourceVersion", "string", "The version that is read or watched from."),
    ("resourceVersionMatch", "string", "How exactly resourceVersion is meant."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with all that is there."),
    ("shardSelector", "string", "Only objects of these shards."),
    ("timeoutSeconds", "integer", "How long the call may take."),
];
pub(super) const WATCH: &[QueryParameter] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch may tell how far it is."),
    ("watch", "boolean", "Whether changes follow the list."),
];

/// Builder of an operation.
#[derive(Debug)]
pub(super) struct Operation(Value);

impl Operation {
    pub(super) fn new(id: String, tag: &str, description: &str) -> Self {
        let mut operation = Value::object();
        operation["operationId"] = id.into();
        operation["description"] = description.into();
        operation["tags"] = [tag].into_iter().collect();
        operation["responses"]["401"]["description"] = "Unauthorized".into();
        Self(operation)
    }

    pub(super) fn action(
        mut self,
        action: &str,
        (group, version, kind): (&str, &str, &str),
    ) -> Self {
        self.0["x-kubernetes-action"] = action.into();
        self.0["x-kubernetes-group-version-kind"] = kind_value(group, version, kind);
        self
    }

    pub(super) fn with(mut self, parameters: impl IntoIterator<Item = QueryParameter>) -> Self {
        self.0["parameters"] = sorted(parameters.into_iter().map(query));
        self
    }

    /// Sets the request body to an object of this schema.
    pub(super) fn request_body(mut self, schema: &str, required: bool) -> Self {
        self.0["requestBody"]["content"] = contents(&["*/*"], schema);
        if required {
            self.0["requestBody"]["required"] = true.into();
        }
        self
    }

    /// Sets the request body to a patch; strategic merge patches only for `typed` kinds.
    pub(super) fn patch_body(mut self, schema: &str, typed: bool) -> Self {
        let forms = PATCHES.iter().filter(|form| typed || !form.contains("strategic"));
        let forms: Vec<_> = forms.copied().collect();
        self.0["requestBody"]["content"] = contents(&forms, schema);
        self.0["requestBody"]["required"] = true.into();
        self
    }

    /// Adds responses with these codes, whose body has this schema.
    pub(super) fn responses(mut self, codes: &[(&str, &str)], schema: &str) -> Self {
        for (code, description) in codes {
            self.0["responses"][*code]["description"] = (*description).into();
            self.0["responses"][*code]["content"] = contents(JSON, schema);
        }
        self
    }

    /// Adds a response with an object or a stream of watch events.
    pub(super) fn watch_response(self, schema: &str) -> Self {
        let mut this = self.responses(&[("200", "OK")], schema);
        this.0["responses"]["200"]["content"] = contents(&[JSON, STREAM].concat(), schema);
        this
    }

    /// Adds a text response for all media types.
    pub(super) fn gives_text(mut self) -> Self {
        let ok = &mut self.0["responses"]["200"];
        ok["description"] = "OK".into();
        for media in JSON.iter().chain(&["text/plain"]) {
            ok["content"][*media]["schema"]["type"] = "string".into();
        }
        self
    }

    /// Adds a text response of this media type.
    pub(super) fn gives_plain(mut self, media: &str) -> Self {
        let ok = &mut self.0["responses"]["200"];
        ok["description"] = "OK".into();
        ok["content"][media]["schema"]["type"] = "string".into();
        self
    }

    /// Adds a response of this schema, as JSON only.
    pub(super) fn gives_json(mut self, schema: &str) -> Self {
        let ok = &mut self.0["responses"]["200"];
        ok["description"] = "OK".into();
        ok["content"] = contents(&JSON[..1], schema);
        self
    }

    /// Adds a response of any type, for connections.
    pub(super) fn connect_response(mut self) -> Self {
        self.0["responses"]["200"]["description"] = "OK".into();
        self.0["responses"]["200"]["content"]["*/*"]["schema"]["type"] = "string".into();
        self
    }

    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

/// The parameters of a whole path: those in the path, and query parameters.
pub(super) fn shared(path: &str, queries: impl IntoIterator<Item = QueryParameter>) -> Value {
    let known = [
        ("{name}", "name", "The object's name."),
        ("{namespace}", "namespace", "The object's namespace."),
        ("{path}", "path", "The path that the call goes on to."),
    ];
    let in_path = known.iter().filter(|(part, ..)| path.contains(part)).map(|(_, name, doc)| {
        let mut parameter = query((name, "string", doc));
        parameter["in"] = "path".into();
        parameter["required"] = true.into();
        parameter
    });
    sorted(in_path.collect::<Vec<_>>().into_iter().chain(queries.into_iter().map(query)))
}

fn query((name, ty, doc): QueryParameter) -> Value {
    let mut parameter = Value::object();
    parameter["name"] = name.into();
    parameter["in"] = "query".into();
    parameter["description"] = doc.into();
    parameter["schema"]["type"] = ty.into();
    parameter["schema"]["uniqueItems"] = true.into();
    parameter
}

pub(super) fn sorted(parameters: impl Iterator<Item = Value>) -> Value {
    let mut parameters: Vec<_> = parameters.collect();
    parameters.sort_by(|a, b| a.get("name").as_str().cmp(&b.get("name").as_str()));
    parameters.into_iter().collect()
}

fn contents(types: &[&str], schema: &str) -> Value {
    let content = || object([("schema".to_owned(), reference(schema))]);
    object(types.iter().map(|media| ((*media).to_owned(), content())))
}
