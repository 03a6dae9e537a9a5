//! Selects the objects that the arguments of a command refer to: manifests, `type name…`, `type/name…`, or all
//! objects of a type, with or without selector.

use object::{Value, quote::quote, selector::Selector};

pub(crate) use crate::files::go_io_error;
use crate::{
    error::{CommandError, Result},
    files::{self, is_url},
    invocation::Invocation,
    resources::Resource,
};

/// A selected object.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The manifest it was read from.
    pub(crate) source: String,
    pub(crate) object: Value,
}

/// How the arguments of a command select objects.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct BuilderOptions {
    /// Whether a type alone selects all its objects.
    pub(crate) all_by_default: bool,
    /// Whether objects are fetched from the server.
    pub(crate) fetch: bool,
    /// Whether an object from a manifest without namespace is kept unchanged; it belongs to the current namespace
    /// either way.
    pub(crate) default_namespace: bool,
    /// Whether missing objects are ignored.
    pub(crate) ignore_missing: bool,
    /// Whether errors about manifests that cannot be read are one aggregate, which is printed without `error: `.
    pub(crate) aggregates_unread: bool,
}

/// Types and names, before they are looked up on the server.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Named(Vec<(String, String)>),
    All(Vec<String>),
}

const MISSING: &str = "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'";

impl Info {
    /// The name with its kind: `pod/web`, `deployment.apps/web`.
    pub(crate) fn named(&self) -> String {
        format!("{}/{}", self.resource.kind_name(), self.name)
    }

    pub(crate) fn path(&self) -> String {
        self.resource.path(&self.namespace, &self.name)
    }

    pub(crate) fn of(resource: &Resource, object: Value) -> Self {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        Self {
            resource: resource.clone(),
            namespace: text("namespace"),
            name: text("name"),
            source: String::new(),
            object,
        }
    }
}

/// Parses `words` as types and names.
pub(crate) fn target(words: &[String]) -> Result<Target> {
    let slashes = words.iter().filter(|word| word.contains('/')).count();
    if slashes > 0 && slashes < words.len() {
        return Err(CommandError::error(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'",
        ));
    }
    if slashes > 0 {
        let mut named = Vec::new();
        for word in words.iter().flat_map(|word| word.split(',').filter(|part| !part.is_empty())) {
            let parts: Vec<&str> = word.split('/').collect();
            let [resource, name] = parts[..] else {
                return Err(CommandError::error(if parts.len() > 2 {
                    "arguments in resource/name form may not have more than one slash"
                } else {
                    "arguments in resource/name form must have a single resource and name"
                }));
            };
            if resource.is_empty() || name.is_empty() {
                return Err(CommandError::error(
                    "arguments in resource/name form must have a single resource and name",
                ));
            }
            named.push((resource.to_owned(), name.to_owned()));
        }
        return Ok(Target::Named(named));
    }
    let Some((types, names)) = words.split_first() else { return Ok(Target::All(Vec::new())) };
    let types: Vec<String> =
        types.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(Target::All(types));
    }
    if names.iter().any(String::is_empty) {
        return Err(CommandError::error("resource name may not be empty"));
    }
    if types.len() > 1 {
        return Err(CommandError::error("you may only specify a single resource type"));
    }
    let resource = types.first().cloned().unwrap_or_default();
    Ok(Target::Named(names.iter().map(|name| (resource.clone(), name.clone())).collect()))
}

impl Invocation<'_> {
    /// The objects that manifests and `words` select, and the errors on the way.
    pub(crate) fn select(
        &self,
        words: &[String],
        how: BuilderOptions,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        if self.has_files() {
            if !words.is_empty() {
                let named = self.flags.all("filename").iter();
                for name in named.filter(|name| *name != "-" && !is_url(name)) {
                    files::found(name, false)?;
                }
                return Err(CommandError::error(
                    "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well",
                ));
            }
            return self.read_files(how);
        }
        let labels = self.flags.text("selector");
        let fields = self.flags.text("field-selector");
        // Only `wait` lets a selector narrow --all down.
        let narrows = self.command == "wait";
        if self.flags.is_true("all") && !narrows && !(labels.is_empty() && fields.is_empty()) {
            return Err(CommandError::error(
                "setting 'all' parameter but found a non empty selector. ",
            ));
        }
        let selecting = !labels.is_empty() || !fields.is_empty() || self.flags.is_true("all");
        self.select_words(words, how, selecting)
    }

    /// Like `select`, for commands where `--selector` has another meaning.
    pub(crate) fn select_plain(
        &self,
        words: &[String],
        how: BuilderOptions,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        if self.has_files() { self.read_files(how) } else { self.select_words(words, how, false) }
    }

    /// The objects that `words` select. `selecting`: whether a selector or `--all` is given.
    pub(crate) fn select_words(
        &self,
        words: &[String],
        how: BuilderOptions,
        selecting: bool,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        match target(words)? {
            Target::Named(_) if selecting && words.iter().all(|word| word.contains('/')) => {
                Err(CommandError::error(
                    "selectors and the all flag cannot be used when passing resource/name arguments",
                ))
            }
            Target::Named(_) if selecting => {
                Err(CommandError::error("name cannot be provided when a selector is specified"))
            }
            Target::Named(named) => self.named(&named, how),
            Target::All(types) if types.is_empty() && selecting => Err(CommandError::error(
                "at least one resource must be specified to use a selector",
            )),
            Target::All(types) if types.is_empty() => Err(CommandError::error(MISSING)),
            Target::All(types) => {
                let resources = self.types(&types)?;
                if !selecting && !how.all_by_default {
                    return Err(CommandError::error(
                        "resource(s) were provided, but no name was specified",
                    ));
                }
                Ok(self.lists(&resources, how))
            }
        }
    }

    /// The objects that the words select; fails if one of them fails.
    pub(crate) fn select_all_ok(&self, words: &[String], how: BuilderOptions) -> Result<Vec<Info>> {
        let (infos, fails) = self.select(words, how)?;
        if infos.is_empty() {
            CommandError::collect(fails)?;
            return Ok(infos);
        }
        CommandError::collect(fails)?;
        Ok(infos)
    }

    /// Warns if a short name means resources of several groups.
    pub(crate) fn warn_ambiguous(&self, word: &str) -> Result {
        if let Some(other) = self.resources()?.also_short(word) {
            self.print_err(&format!(
                "Warning: short name {} could also match lower priority resource {}",
                quote(word),
                other.qualified()
            ));
        }
        Ok(())
    }

    /// The resources that words name; a category names several.
    pub(crate) fn types(&self, types: &[String]) -> Result<Vec<Resource>> {
        let known = self.resources()?;
        let mut found: Vec<Resource> = Vec::new();
        for word in types {
            let category = known.category(word);
            let more = if category.is_empty() { vec![known.find(word)?] } else { category };
            self.warn_ambiguous(word)?;
            for resource in more {
                if !found.contains(resource) {
                    found.push(resource.clone());
                }
            }
        }
        Ok(found)
    }

    fn named(
        &self,
        named: &[(String, String)],
        how: BuilderOptions,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        if self.flags.is_true("all-namespaces") {
            return Err(CommandError::error(
                "a resource cannot be retrieved by name across all namespaces",
            ));
        }
        let (mut infos, mut fails) = (Vec::new(), Vec::new());
        for (resource, name) in named {
            self.warn_ambiguous(resource)?;
            let resource = self.resources()?.find(resource)?.clone();
            let namespace = if resource.namespaced { self.namespace()? } else { String::new() };
            let mut info = Info {
                resource,
                namespace,
                name: name.clone(),
                source: String::new(),
                object: Value::Null,
            };
            if how.fetch {
                match self.server()?.get(&info.path()) {
                    Ok(object) => info.object = object,
                    Err(fail) if fail.is_not_found() && how.ignore_missing => continue,
                    Err(fail) => {
                        fails.push(fail);
                        continue;
                    }
                }
            }
            infos.push(info);
        }
        Ok((infos, fails))
    }

    fn lists(&self, resources: &[Resource], how: BuilderOptions) -> (Vec<Info>, Vec<CommandError>) {
        let (mut infos, mut fails) = (Vec::new(), Vec::new());
        for resource in resources {
            match self.list(resource) {
                Ok(list) => infos.extend(items(resource, &list)),
                Err(fail) if fail.is_not_found() && how.ignore_missing => {}
                Err(fail) => fails.push(fail),
            }
        }
        (infos, fails)
    }

    /// Lists the objects of a type that match the selectors.
    pub(crate) fn list(&self, resource: &Resource) -> Result<Value> {
        let namespace =
            if self.flags.is_true("all-namespaces") { String::new() } else { self.namespace()? };
        let path = resource.path(&namespace, "");
        let mut list = self
            .server()?
            .get(&(path.clone() + &self.list_query("")))
            .map_err(|f| self.explain(resource, f))?;
        loop {
            let next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if next.is_empty() {
                return Ok(list);
            }
            let more = self.server()?.get(&(path.clone() + &self.list_query(&next)))?;
            let mut items = list["items"].items().to_vec();
            items.extend(more["items"].items().iter().cloned());
            list = more;
            list["items"] = Value::List(items.into());
        }
    }

    /// Adds the selector to the server's error about it.
    pub(crate) fn explain(&self, resource: &Resource, fail: CommandError) -> CommandError {
        let (labels, fields) = (self.flags.text("selector"), self.flags.text("field-selector"));
        match fail {
            CommandError::Server { mut status, doing }
                if status.has_reason("BadRequest") && !(labels.is_empty() && fields.is_empty()) =>
            {
                let says = format!(
                    "Unable to find {} that match label selector {}, field selector {}: {}",
                    quote(&resource.gvr()),
                    quote(labels),
                    quote(fields),
                    status.message()
                );
                status.set_message(says);
                CommandError::Server { status, doing }
            }
            other => other,
        }
    }

    /// The query parameters for selectors and pagination.
    pub(crate) fn list_query(&self, next: &str) -> String {
        let labels = self.flags.text("selector");
        let labels = match Selector::parse(labels) {
            Ok(selector) => selector.to_string(),
            Err(_) => labels.to_owned(),
        };
        // A watch starts where a whole list ends.
        let whole = self.flags.is_set("sort-by")
            || self.flags.is_true("watch")
            || self.flags.is_true("watch-only");
        let limit = if whole { "0" } else { self.flags.text("chunk-size") };
        let mut query = Vec::new();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() && value != "0" {
                query.push(format!("{name}={}", crate::resources::escape(value)));
            }
        };
        add("continue", next);
        add("fieldSelector", self.flags.text("field-selector"));
        add("labelSelector", &labels);
        add("limit", if limit.is_empty() { "500" } else { limit });
        if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
    }

    /// Whether `-f` or `-k` is given.
    pub(crate) fn has_files(&self) -> bool {
        !self.flags.all("filename").is_empty() || self.flags.is_set("kustomize")
    }

    fn read_files(&self, how: BuilderOptions) -> Result<(Vec<Info>, Vec<CommandError>)> {
        let (mut infos, mut fails, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        let selector = self.selector()?;
        for document in self.documents()? {
            let info = document.and_then(|(source, object)| {
                files::check_metadata(&source, &object)?;
                let labels = object["metadata"]["labels"].clone();
                let info = self.info(&source, object, how)?;
                Ok(selector.matches_with(|key| labels.get(key).as_str()).then_some(info))
            });
            match info {
                Ok(info) => infos.extend(info),
                Err(fail) => unread.push(fail),
            }
        }
        infos.retain(|info| match self.require_namespace(info) {
            Ok(()) => true,
            Err(fail) => {
                fails.push(fail);
                false
            }
        });
        match how.aggregates_unread && !unread.is_empty() {
            true => fails.push(CommandError::Aggregate(unread)),
            false => fails.append(&mut unread),
        }
        if how.fetch {
            let mut found = Vec::new();
            for mut info in infos {
                match self.server()?.get(&info.path()) {
                    Ok(object) => {
                        info.object = object;
                        found.push(info);
                    }
                    Err(fail) if fail.is_not_found() && how.ignore_missing => {}
                    Err(fail) => fails.push(fail),
                }
            }
            infos = found;
        }
        Ok((infos, fails))
    }

    /// Refuses an object of another namespace than the one that was given.
    pub(crate) fn require_namespace(&self, info: &Info) -> Result {
        let namespace = &info.namespace;
        if namespace.is_empty() || !self.namespace_given() || *namespace == self.namespace()? {
            return Ok(());
        }
        Err(CommandError::error(format!(
            "the namespace from the provided object {} does not match the namespace {}. You must pass '--namespace={namespace}' to perform this operation.",
            quote(namespace),
            quote(&self.namespace()?)
        )))
    }

    pub(crate) fn selector(&self) -> Result<Selector> {
        Selector::parse(self.flags.text("selector"))
            .map_err(|error| CommandError::error(error.to_string()))
    }

    /// Builds an `Info` for an object from a manifest, with its resource and namespace.
    pub(crate) fn info(
        &self,
        source: &str,
        mut object: Value,
        how: BuilderOptions,
    ) -> Result<Info> {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let (name, mut namespace) = (text("name"), text("namespace"));
        let (version, kind) = (
            object["apiVersion"].as_str().unwrap_or_default(),
            object["kind"].as_str().unwrap_or_default(),
        );
        let known = if self.flags.is_true("local") {
            Some(Resource::guess_from_kind(version, kind))
        } else {
            self.resources()?.of_kind(version, kind).cloned()
        };
        let Some(resource) = known else {
            return Err(CommandError::error(format!(
                "resource mapping not found for name: {} namespace: {} from {}: no matches for kind {} in version {}\nensure CRDs are installed first",
                quote(&name),
                quote(&namespace),
                quote(source),
                quote(kind),
                quote(version)
            )));
        };
        if resource.namespaced {
            if namespace.is_empty() {
                namespace = self.namespace()?;
                if !how.default_namespace {
                    object["metadata"]["namespace"] = namespace.as_str().into();
                }
            }
        } else {
            namespace.clear();
        }
        Ok(Info { resource, namespace, name, source: source.to_owned(), object })
    }
}

fn items(resource: &Resource, list: &Value) -> Vec<Info> {
    let kind = list["kind"].as_str().unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or(kind);
    let item = |item: &Value| {
        let mut object = item.clone();
        if object["kind"].is_null() {
            object["kind"] = kind.into();
            object["apiVersion"] = list["apiVersion"].clone();
        }
        Info::of(resource, object)
    };
    list["items"].items().iter().map(item).collect()
}
