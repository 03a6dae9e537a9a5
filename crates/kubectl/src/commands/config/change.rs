//! The `config` commands that change kubeconfig files.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::{Value, quote::quote};

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    kubeconfig::{KubeconfigFiles, LISTS, entry, put_entry},
    select::go_io_error,
};

fn one_word<'a>(call: &'a Invocation<'_>) -> Result<&'a str> {
    match call.args() {
        [word] => Ok(word),
        words => Err(call.usage(format!("unexpected args: {words:?}"))),
    }
}

/// Changes an entry with `how`, in the file that contains it.
fn update(
    files: &KubeconfigFiles,
    list: &str,
    of: &str,
    name: &str,
    how: impl FnOnce(&mut Value),
) -> Result {
    let (path, mut tree) = files.file_of_entry(list, name);
    let mut value = entry(&tree, list, of, name).cloned().unwrap_or_else(Value::object);
    how(&mut value);
    put_entry(&mut tree, list, of, name, value);
    KubeconfigFiles::save(&path, tree)
}

/// The file that sets the current context.
fn current_file(files: &KubeconfigFiles) -> (PathBuf, Value) {
    let has = |tree: &Value| !tree["current-context"].as_str().unwrap_or_default().is_empty();
    let found = files.files.iter().find(|file| has(&file.1)).or(files.files.first());
    found.cloned().unwrap_or((files.default.clone(), Value::object()))
}

pub(super) fn use_context(call: &Invocation<'_>) -> Result {
    let name = one_word(call)?;
    let files = call.files()?;
    if entry(&files.merged(false), "contexts", "context", name).is_none() {
        return Err(CommandError::error(format!(
            "no context exists with the name: {}",
            quote(name)
        )));
    }
    let (path, mut tree) = current_file(&files);
    tree["current-context"] = name.into();
    KubeconfigFiles::save(&path, tree)?;
    call.print(&format!("Switched to context {}.\n", quote(name)));
    Ok(())
}

pub(super) fn set_context(call: &Invocation<'_>) -> Result {
    let files = call.files()?;
    let current = call.flags.is_true("current");
    let name = match call.args() {
        [] if current => {
            files.merged(false)["current-context"].as_str().unwrap_or_default().to_owned()
        }
        [_] if current => {
            return Err(CommandError::error(
                "you cannot specify both a context name and --current",
            ));
        }
        [name] if !name.is_empty() => name.clone(),
        [] | [_] => {
            return Err(CommandError::error(
                "you must specify a non-empty context name or --current",
            ));
        }
        words => return Err(call.usage(format!("unexpected args: {words:?}"))),
    };
    if name.is_empty() {
        return Err(CommandError::error("no current context is set"));
    }
    let there = entry(&files.merged(false), "contexts", "context", &name).is_some();
    update(&files, "contexts", "context", &name, |context| {
        for flag in ["cluster", "user", "namespace"] {
            if call.flags.is_set(flag) {
                context[flag] = call.flags.text(flag).into();
            }
        }
        for flag in ["cluster", "user"] {
            if context[flag].is_null() {
                context[flag] = "".into();
            }
        }
    })?;
    let done = if there { "modified" } else { "created" };
    call.print(&format!("Context {} {done}.\n", quote(&name)));
    Ok(())
}

/// Embeds the content of a file into the kubeconfig, or sets its absolute path.
fn take_file(call: &Invocation<'_>, tree: &mut Value, flag: &str) -> Result {
    if !call.flags.is_set(flag) {
        return Ok(());
    }
    let (file, data) = (call.flags.text(flag), format!("{flag}-data"));
    if call.flags.is_true("embed-certs") {
        let bytes = std::fs::read(file).map_err(|error| {
            CommandError::error(format!(
                "could not stat {flag} file {file}: stat {file}: {}",
                go_io_error(&error)
            ))
        })?;
        tree[data.as_str()] = BASE64_STANDARD.encode(bytes).as_str().into();
        tree.remove(flag);
        return Ok(());
    }
    let full = std::path::absolute(file).unwrap_or_else(|_| file.into());
    let folder = call.files()?.default.parent().map(std::path::Path::to_owned).unwrap_or_default();
    let short = full.strip_prefix(&folder).unwrap_or(&full).display().to_string();
    tree[flag] = short.as_str().into();
    tree.remove(&data);
    Ok(())
}

pub(super) fn set_cluster(call: &Invocation<'_>) -> Result {
    let name = one_word(call)?;
    if call.flags.is_true("embed-certs") && !call.flags.is_set("certificate-authority") {
        return Err(CommandError::error("you must specify a --certificate-authority to embed"));
    }
    let files = call.files()?;
    let mut failed = Ok(());
    let (_, before) = files.file_of_entry("clusters", name);
    let mut check =
        entry(&before, "clusters", "cluster", name).cloned().unwrap_or_else(Value::object);
    take_file(call, &mut check, "certificate-authority")?;
    update(&files, "clusters", "cluster", name, |cluster| {
        for flag in ["server", "tls-server-name", "proxy-url"] {
            if call.flags.is_set(flag) {
                cluster[flag] = call.flags.text(flag).into();
            }
        }
        if call.flags.is_set("insecure-skip-tls-verify") {
            cluster.set("insecure-skip-tls-verify", call.flags.is_true("insecure-skip-tls-verify"));
            if call.flags.is_true("insecure-skip-tls-verify") {
                cluster.remove("certificate-authority");
                cluster.remove("certificate-authority-data");
            }
        }
        failed = take_file(call, cluster, "certificate-authority");
        if call.flags.is_set("certificate-authority") {
            cluster.remove("insecure-skip-tls-verify");
        }
        if cluster["server"].is_null() {
            cluster["server"] = "".into();
        }
    })?;
    failed?;
    call.print(&format!("Cluster {} set.\n", quote(name)));
    Ok(())
}

pub(super) fn set_credentials(call: &Invocation<'_>) -> Result {
    let name = one_word(call)?;
    let flags = &call.flags;
    let mut methods = Vec::new();
    if flags.is_set("token") {
        methods.push("--token");
    }
    if flags.is_set("username") || flags.is_set("password") {
        methods.push("--username/--password");
    }
    if methods.len() > 1 {
        return Err(CommandError::error(format!(
            "you cannot specify more than one authentication method at the same time: {}",
            methods.join(", ")
        )));
    }
    let files = call.files()?;
    let mut failed = Ok(());
    update(&files, "users", "user", name, |user| {
        for flag in ["token", "username", "password"] {
            if flags.is_set(flag) {
                user[flag] = flags.text(flag).into();
            }
        }
        if flags.is_set("token") {
            user.remove("username");
            user.remove("password");
            user.remove("tokenFile");
        }
        if flags.is_set("username") || flags.is_set("password") {
            user.remove("token");
            user.remove("tokenFile");
        }
        for flag in ["client-certificate", "client-key"] {
            if failed.is_ok() {
                failed = take_file(call, user, flag);
            }
        }
        if flags.is_set("exec-command") {
            let exec = &mut user["exec"];
            exec["command"] = flags.text("exec-command").into();
        }
        if !user["exec"].is_null() {
            let exec = &mut user["exec"];
            if flags.is_set("exec-api-version") || exec["apiVersion"].is_null() {
                exec["apiVersion"] = flags.text("exec-api-version").into();
            }
            if !flags.all("exec-arg").is_empty() {
                exec["args"] = Value::List(
                    flags.all("exec-arg").iter().map(|arg| arg.as_str().into()).collect(),
                );
            } else if exec["args"].is_null() {
                *exec.get_mut("args") = Value::Null;
            }
            let mut env = exec["env"].items().to_vec();
            for pair in flags.all("exec-env") {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                env.retain(|entry| entry["name"].as_str() != Some(name));
                let mut made = Value::object();
                made["name"] = name.into();
                made["value"] = value.into();
                env.push(made);
            }
            *exec.get_mut("env") =
                if env.is_empty() { Value::Null } else { Value::List(env.into()) };
            if flags.is_set("exec-interactive-mode") {
                exec["interactiveMode"] = flags.text("exec-interactive-mode").into();
            } else if exec["interactiveMode"].is_null() {
                exec["interactiveMode"] = "IfAvailable".into();
            }
            exec.set("provideClusterInfo", flags.is_true("exec-provide-cluster-info"));
        }
    })?;
    failed?;
    call.print(&format!("User {} set.\n", quote(name)));
    Ok(())
}

pub(super) fn rename_context(call: &Invocation<'_>) -> Result {
    let [old, new] = call.args() else {
        return Err(call.usage(format!("unexpected args: {:?}", call.args())));
    };
    let files = call.files()?;
    let all = files.merged(false);
    let (path, mut tree) = files.file_of_entry("contexts", old);
    let Some(context) = entry(&all, "contexts", "context", old).cloned() else {
        return Err(CommandError::error(format!(
            "cannot rename the context {}, it's not in {}",
            quote(old),
            path.display()
        )));
    };
    if entry(&all, "contexts", "context", new).is_some() {
        return Err(CommandError::error(format!(
            "cannot rename the context {}, the context {} already exists in {}",
            quote(old),
            quote(new),
            path.display()
        )));
    }
    drop_entry(&mut tree, "contexts", old);
    put_entry(&mut tree, "contexts", "context", new, context);
    if tree["current-context"].as_str() == Some(old) {
        tree["current-context"] = new.as_str().into();
    }
    KubeconfigFiles::save(&path, tree)?;
    call.print(&format!("Context {} renamed to {}.\n", quote(old), quote(new)));
    Ok(())
}

fn drop_entry(tree: &mut Value, list: &str, name: &str) {
    let kept =
        tree[list].items().iter().filter(|entry| entry["name"].as_str() != Some(name)).cloned();
    let kept = Value::List(kept.collect());
    tree[list] = kept;
}

pub(super) fn delete(call: &Invocation<'_>, list: &str, of: &str) -> Result {
    let name = one_word(call)?;
    let files = call.files()?;
    let (path, mut tree) = files.file_of_entry(list, name);
    if entry(&files.merged(false), list, of, name).is_none() {
        return Err(CommandError::error(format!(
            "cannot delete {of} {name}, not in {}",
            path.display()
        )));
    }
    if list == "contexts" && files.merged(false)["current-context"].as_str() == Some(name) {
        call.print_err("warning: this removed your active context, use \"kubectl config use-context\" to select a different one");
    }
    drop_entry(&mut tree, list, name);
    KubeconfigFiles::save(&path, tree)?;
    call.print(&format!("deleted {of} {name} from {}\n", path.display()));
    Ok(())
}

/// Parses the path of a property: `clusters.NAME.server`, or `current-context`.
fn property(
    call: &Invocation<'_>,
    path: &str,
) -> Result<Option<(&'static str, &'static str, String, String)>> {
    if !path.contains('.') {
        return Ok(None);
    }
    let (list, rest) = path.split_once('.').unwrap_or_default();
    let Some((list, of)) = LISTS.iter().find(|(name, _)| *name == list) else {
        return Err(CommandError::error(format!("unable to locate path {}", quote(path))));
    };
    let tree = call.files()?.merged(false);
    // A name may contain dots: the longest existing name matches.
    let known = tree[*list].items().iter().filter_map(|entry| entry["name"].as_str());
    let name = known
        .filter(|name| rest == *name || rest.starts_with(&format!("{name}.")))
        .max_by_key(|name| name.len());
    let name =
        name.map_or_else(|| rest.split('.').next().unwrap_or_default().to_owned(), str::to_owned);
    let field = rest.get(name.len() + 1..).unwrap_or_default().to_owned();
    Ok(Some((list, of, name, field)))
}

pub(super) fn set(call: &Invocation<'_>) -> Result {
    let [path, value] = call.args() else {
        return Err(call.usage("unexpected args"));
    };
    let files = call.files()?;
    match property(call, path)? {
        None if path == "current-context" => {
            let (file, mut tree) = current_file(&files);
            tree["current-context"] = value.as_str().into();
            KubeconfigFiles::save(&file, tree)?;
        }
        None => {
            return Err(CommandError::error(format!("{path} is not a property that can be set")));
        }
        Some((list, of, name, field)) => {
            let made: Value = match field.as_str() {
                "insecure-skip-tls-verify" | "disable-compression" => (value == "true").into(),
                data if data.ends_with("-data") && call.flags.is_true("set-raw-bytes") => {
                    BASE64_STANDARD.encode(value).as_str().into()
                }
                _ => value.as_str().into(),
            };
            update(&files, list, of, &name, |tree| *tree.get_mut(&field) = made)?;
        }
    }
    call.print(&format!("Property {} set.\n", quote(path)));
    Ok(())
}

pub(super) fn unset(call: &Invocation<'_>) -> Result {
    let path = one_word(call)?;
    let files = call.files()?;
    match property(call, path)? {
        None if path == "current-context" => {
            let (file, mut tree) = current_file(&files);
            tree["current-context"] = "".into();
            KubeconfigFiles::save(&file, tree)?;
        }
        None => return Err(CommandError::error(format!("current map key `{path}` is invalid"))),
        Some((list, of, name, field)) => {
            if field.is_empty() {
                let (file, mut tree) = files.file_of_entry(list, &name);
                drop_entry(&mut tree, list, &name);
                KubeconfigFiles::save(&file, tree)?;
            } else {
                update(&files, list, of, &name, |tree| tree.remove(&field))?;
            }
        }
    }
    call.print(&format!("Property {} unset.\n", quote(path)));
    Ok(())
}

/// Sets a boolean; false is omitted.
trait SetFlag {
    fn set(&mut self, name: &str, on: bool);
}

impl SetFlag for Value {
    fn set(&mut self, name: &str, on: bool) {
        if on || name == "provideClusterInfo" {
            *self.get_mut(name) = on.into();
        } else {
            self.remove(name);
        }
    }
}
