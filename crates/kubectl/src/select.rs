//! Which objects the arguments of a command mean: files, `type name…`, `type/name…`,
//! or all of a type, with or without selector.

use std::{fs, io::Read as _, path::Path};

use object::{Value, from_json_next, quote::quote, selector::Selector, yaml};

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    resources::Resource,
};

/// An object that is meant, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The file it was read from.
    pub(crate) source: String,
    pub(crate) object: Value,
}

/// How a command reads its arguments.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct BuilderOptions {
    /// A type alone means all its objects.
    pub(crate) all_by_default: bool,
    /// Objects of arguments are fetched.
    pub(crate) fetch: bool,
    /// An object of a file without namespace is still looked for where the command is.
    pub(crate) default_namespace: bool,
    /// Objects that are not there are passed over.
    pub(crate) ignore_missing: bool,
}

/// Types and names, before the server is asked.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Named(Vec<(String, String)>),
    All(Vec<String>),
}

const MISSING: &str = "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'";

impl Info {
    /// `pod/web`, `deployment.apps/web`.
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

/// Reads `words` as types and names.
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
    /// The objects that files and `words` mean. Failures on the way are collected.
    pub(crate) fn select(
        &self,
        words: &[String],
        how: BuilderOptions,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        if self.has_files() {
            if !words.is_empty() {
                let named = self.flags.all("filename").iter();
                for name in named.filter(|name| *name != "-" && !is_url(name)) {
                    files(Path::new(name), false)?;
                }
                return Err(CommandError::error(
                    "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well",
                ));
            }
            return self.read_files(how);
        }
        let labels = self.flags.text("selector");
        let fields = self.flags.text("field-selector");
        if self.flags.is_true("all") && !(labels.is_empty() && fields.is_empty()) {
            return Err(CommandError::error(
                "setting 'all' parameter but found a non empty selector. ",
            ));
        }
        let selecting = !labels.is_empty() || !fields.is_empty() || self.flags.is_true("all");
        self.select_words(words, how, selecting)
    }

    /// The same where `--selector` means something else.
    pub(crate) fn select_plain(
        &self,
        words: &[String],
        how: BuilderOptions,
    ) -> Result<(Vec<Info>, Vec<CommandError>)> {
        if self.has_files() { self.read_files(how) } else { self.select_words(words, how, false) }
    }

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

    /// The one object that the words mean.
    pub(crate) fn select_all_ok(&self, words: &[String], how: BuilderOptions) -> Result<Vec<Info>> {
        let (infos, fails) = self.select(words, how)?;
        if infos.is_empty() {
            CommandError::collect(fails)?;
            return Ok(infos);
        }
        CommandError::collect(fails)?;
        Ok(infos)
    }

    /// The resources that words mean; categories stand for several.
    pub(crate) fn types(&self, types: &[String]) -> Result<Vec<Resource>> {
        let known = self.resources()?;
        let mut found: Vec<Resource> = Vec::new();
        for word in types {
            let category = known.category(word);
            let more = if category.is_empty() { vec![known.find(word)?] } else { category };
            if let Some(other) = known.also_short(word) {
                self.print_err(&format!(
                    "Warning: short name {} could also match lower priority resource {}",
                    quote(word),
                    other.qualified()
                ));
            }
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

    /// Every object of a type that the selectors let through.
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

    /// The server's refusal of a selector, with the selector.
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

    /// Selectors and page as a query.
    pub(crate) fn list_query(&self, next: &str) -> String {
        let labels = self.flags.text("selector");
        let labels = match Selector::parse(labels) {
            Ok(selector) => selector.to_string(),
            Err(_) => labels.to_owned(),
        };
        let limit = if self.flags.is_set("sort-by") { "0" } else { self.flags.text("chunk-size") };
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

    pub(crate) fn has_files(&self) -> bool {
        !self.flags.all("filename").is_empty() || self.flags.is_set("kustomize")
    }

    fn read_files(&self, how: BuilderOptions) -> Result<(Vec<Info>, Vec<CommandError>)> {
        let (mut infos, mut fails) = (Vec::new(), Vec::new());
        let selector = self.selector()?;
        for (source, object) in self.documents()? {
            let labels = object["metadata"]["labels"].clone();
            if !selector.matches_with(|key| labels.get(key).as_str()) {
                continue;
            }
            match self.info(&source, object, how) {
                Ok(info) => infos.push(info),
                Err(fail) => fails.push(fail),
            }
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

    pub(crate) fn selector(&self) -> Result<Selector> {
        Selector::parse(self.flags.text("selector"))
            .map_err(|error| CommandError::error(error.to_string()))
    }

    /// An object of a file, with its resource and the namespace it belongs to.
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
            return Err(CommandError::Raw(format!(
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
            } else if self.namespace_given() && namespace != self.namespace()? {
                return Err(CommandError::error(format!(
                    "the namespace from the provided object {} does not match the namespace {}. You must pass '--namespace={namespace}' to perform this operation.",
                    quote(&namespace),
                    quote(&self.namespace()?)
                )));
            }
        } else {
            namespace.clear();
        }
        Ok(Info { resource, namespace, name, source: source.to_owned(), object })
    }

    /// What `-f` names, document by document; lists taken apart.
    pub(crate) fn documents(&self) -> Result<Vec<(String, Value)>> {
        let mut all = Vec::new();
        if self.flags.is_set("kustomize") {
            if !self.flags.all("filename").is_empty() {
                return Err(CommandError::error("only one of -f or -k can be specified"));
            }
            let folder = self.flags.text("kustomize");
            let built = crate::kustomize::build(folder, &mut |text| self.print_err(text));
            let objects = built.map_err(|fail| match fail {
                CommandError::Error(says) if says.starts_with("unable to find one of") => {
                    CommandError::Raw(says)
                }
                other => other,
            })?;
            return Ok(objects.into_iter().map(|object| (folder.to_owned(), object)).collect());
        }
        for name in self.flags.all("filename") {
            if name == "-" {
                let mut text = String::new();
                std::io::stdin()
                    .lock()
                    .take(1 << 28)
                    .read_to_string(&mut text)
                    .map_err(|e| CommandError::error(e.to_string()))?;
                all.extend(parse_documents("STDIN", &text)?);
            } else if is_url(name) {
                all.extend(parse_documents(name, &crate::fetch::text(name)?)?);
            } else {
                for file in files(Path::new(name), self.flags.is_true("recursive"))? {
                    let text = fs::read_to_string(&file).map_err(|e| {
                        CommandError::error(format!("open {file}: {}", go_io_error(&e)))
                    })?;
                    all.extend(parse_documents(&file, &text)?);
                }
            }
        }
        Ok(all)
    }
}

fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
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

/// An error of the system, in few words and lower case as Go has it.
pub(crate) fn go_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}

fn files(path: &Path, recursive: bool) -> Result<Vec<String>> {
    let shown = path.display().to_string();
    let about = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            CommandError::error(format!("the path {} does not exist", quote(&shown)))
        }
        _ => CommandError::error(format!(
            "the path {} cannot be accessed: {}",
            quote(&shown),
            go_io_error(&error)
        )),
    })?;
    if !about.is_dir() {
        return Ok(vec![shown]);
    }
    let mut found = Vec::new();
    walk(path, recursive, &mut found).map_err(|error| {
        CommandError::error(format!("error reading {}: {error}", quote(&shown)))
    })?;
    if found.is_empty() {
        return Err(CommandError::error(format!(
            "error reading [{shown}]: recognized file extensions are [.json .yaml .yml]"
        )));
    }
    Ok(found)
}

fn walk(folder: &Path, recursive: bool, found: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            if recursive {
                walk(&path, recursive, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml") {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}

/// The documents of a YAML text.
fn documents(text: &str) -> std::result::Result<Vec<Value>, String> {
    let documents = yaml::split_documents(text).map_err(|error| error.to_string())?;
    let objects = documents.into_iter().map(|document| {
        yaml::from_yaml_lenient(document)
            .map_err(|error| format!("error converting YAML to JSON: {error}"))
    });
    objects.collect()
}

/// The objects in a text, YAML or JSON.
pub(crate) fn parse_documents(source: &str, text: &str) -> Result<Vec<(String, Value)>> {
    let wrong = |why: String| CommandError::Raw(format!("error parsing {source}: {why}"));
    let mut objects = Vec::new();
    if text.trim_start().starts_with('{') {
        let mut rest = text;
        while let Some(object) = from_json_next(&mut rest) {
            match object {
                Ok(object) => objects.push(object),
                Err(error) => {
                    // YAML may begin like JSON.
                    objects = documents(text)
                        .ok()
                        .filter(|all| {
                            all.iter().all(|object| object.is_object() || object.is_null())
                        })
                        .ok_or_else(|| wrong(format!("json: {error}")))?;
                    break;
                }
            }
        }
    } else {
        objects = documents(text).map_err(wrong)?;
    }
    let mut all = Vec::new();
    for object in objects.into_iter().filter(|object| !object.is_null()) {
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind.ends_with("List") && matches!(object["items"], Value::List(_)) {
            all.extend(
                object["items"].items().iter().map(|item| (source.to_owned(), item.clone())),
            );
            continue;
        }
        for field in ["apiVersion", "kind"] {
            if object[field].as_str().unwrap_or_default().is_empty() {
                let not = if field == "kind" {
                    "Object 'Kind' is missing in"
                } else {
                    "Object 'apiVersion' is missing in"
                };
                let json = crate::print::json::compact(&object);
                return Err(CommandError::error(format!(
                    "unable to decode {}: {not} '{json}'",
                    quote(source)
                )));
            }
        }
        all.push((source.to_owned(), object));
    }
    Ok(all)
}

#[test]
fn yaml_may_begin_like_json() {
    let read =
        |text: &str| parse_documents("f", text).map(|all| all.len()).map_err(|fail| fail.message());
    assert_eq!(read("{apiVersion: v1, kind: Pod}"), Ok(1));
    assert_eq!(read("{apiVersion: v1, kind: Pod}\n---\napiVersion: v1\nkind: Pod\n"), Ok(2));
    assert_eq!(read(r#"{"apiVersion":"v1","kind":"Pod"} {"apiVersion":"v1","kind":"Pod"}"#), Ok(2));
    assert!(read("{apiVersion").is_err_and(|says| says.starts_with("error parsing f: json: ")));
}
