//! Replacements: copies values from one object into others.

use object::Value;

use super::{Resource, patch::Target, read, read::Kustomization};
use crate::{
    error::{CommandError, Result},
    print::jsonpath,
    workload::items_mut,
};

/// Applies the replacements of a kustomization.
pub(super) fn run(kustomization: &Kustomization, all: &mut [Resource]) -> Result {
    for entry in kustomization.tree["replacements"].items() {
        let entries = match entry["path"].as_str() {
            None => vec![entry.clone()],
            Some(path) => {
                let text = read::inside(&kustomization.root, path).map_err(CommandError::error)?;
                let tree = object::yaml::from_yaml(&text)
                    .map_err(|error| CommandError::error(format!("{path}: {error}")))?;
                match tree {
                    Value::List(items) => items.iter().cloned().collect(),
                    one => vec![one],
                }
            }
        };
        for entry in entries {
            one(&entry, all)?;
        }
    }
    Ok(())
}

fn one(entry: &Value, all: &mut [Resource]) -> Result {
    let value = if entry["sourceValue"].is_null() {
        source(&entry["source"], all)?
    } else {
        entry["sourceValue"].clone()
    };
    for target in entry["targets"].items() {
        if target["select"].is_null() {
            return Err(CommandError::error("target must specify resources to select"));
        }
        let select = Target::of(&target["select"])?;
        let mut reject = Vec::new();
        for one in target["reject"].items() {
            reject.push(Target::of(one)?);
        }
        let usual = vec!["metadata.name".to_owned()];
        let paths: Vec<String> = match target["fieldPaths"].items() {
            [] => usual,
            paths => paths.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        for resource in all.iter_mut() {
            if !select.fits(resource) || reject.iter().any(|one| one.fits(resource)) {
                continue;
            }
            for path in &paths {
                let parts = parts(path);
                let create = target["options"]["create"].as_bool() == Some(true);
                let mut fail = None;
                let found = at(&mut resource.object, &parts, create, &mut |old| match put(
                    old,
                    &value,
                    &target["options"],
                ) {
                    Ok(new) => *old = new,
                    Err(why) => fail = Some(why),
                });
                if let Some(why) = fail {
                    return Err(CommandError::error(why));
                }
                if found == 0 {
                    return Err(CommandError::error(format!(
                        "unable to find field {} in replacement target",
                        object::quote::quote(path)
                    )));
                }
            }
        }
    }
    Ok(())
}

fn source(source: &Value, all: &mut [Resource]) -> Result<Value> {
    let wanted = Target::of(source)?;
    let mut found = all.iter_mut().filter(|resource| wanted.fits(resource));
    let Some(resource) = found.next() else {
        return Err(CommandError::error(format!("nothing selected by {}", wanted.words())));
    };
    if found.next().is_some() {
        return Err(CommandError::error(format!(
            "multiple matches for selector {}",
            wanted.words()
        )));
    }
    let path = source["fieldPath"].as_str().unwrap_or("metadata.name");
    let mut value = Value::Null;
    if at(&mut resource.object, &parts(path), false, &mut |there| value = there.clone()) == 0 {
        return Err(CommandError::error(format!(
            "fieldPath `{path}` is missing for replacement source {}",
            wanted.words()
        )));
    }
    let options = &source["options"];
    if let (Some(delimiter), Some(text)) = (options["delimiter"].as_str(), value.as_str()) {
        let at = options["index"].as_i64().unwrap_or(0);
        let part = usize::try_from(at).ok().and_then(|at| text.split(delimiter).nth(at));
        let part = part.ok_or_else(|| {
            CommandError::error(format!("options.index {at} is out of bounds for value {text}"))
        })?;
        value = part.into();
    }
    Ok(value)
}

/// The new value of a field: the whole value, or one part between delimiters.
fn put(old: &Value, value: &Value, options: &Value) -> std::result::Result<Value, String> {
    let Some(delimiter) = options["delimiter"].as_str().filter(|text| !text.is_empty()) else {
        // A string stays a string.
        return Ok(match (old, value) {
            (Value::Text(_), Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                jsonpath::format_value(value).into()
            }
            _ => value.clone(),
        });
    };
    let text = old.as_str().ok_or("delimiter option can only be used with scalar nodes")?;
    let with = jsonpath::format_value(value);
    let mut pieces: Vec<&str> = text.split(delimiter).collect();
    let at = options["index"].as_i64().unwrap_or(0);
    match usize::try_from(at) {
        Ok(at) if at < pieces.len() => pieces[at] = &with,
        Ok(_) => pieces.push(&with),
        Err(_) => pieces.insert(0, &with),
    }
    Ok(pieces.join(delimiter).into())
}

/// Splits a field path, such as `spec.containers.[name=a].image`; a dot may be escaped.
fn parts(path: &str) -> Vec<String> {
    let (mut parts, mut part, mut bracket) = (Vec::new(), String::new(), false);
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'.') => part.extend(chars.next()),
            '.' if !bracket => parts.push(std::mem::take(&mut part)),
            c => {
                bracket = match c {
                    '[' => true,
                    ']' => false,
                    _ => bracket,
                };
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Calls `change` with every value at a path; returns how many there were.
fn at(
    tree: &mut Value,
    path: &[String],
    create: bool,
    change: &mut dyn FnMut(&mut Value),
) -> usize {
    let Some((part, rest)) = path.split_first() else {
        change(tree);
        return 1;
    };
    if let Value::List(_) = tree {
        let inner = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
        let chosen = |index: usize, item: &Value| match inner.and_then(|i| i.split_once('=')) {
            Some((name, value)) => {
                let there = name.split('.').fold(item, |tree, name| tree.get(name));
                there.as_str() == Some(value)
            }
            None => part == "*" || part.parse::<usize>().is_ok_and(|wanted| wanted == index),
        };
        let mut count = 0;
        for (index, item) in items_mut(tree).iter_mut().enumerate() {
            if chosen(index, item) {
                count += at(item, rest, create, change);
            }
        }
        return count;
    }
    if tree.is_object() && part == "*" {
        let names: Vec<String> = tree.entries().map(|(name, _)| name.to_owned()).collect();
        return names.iter().map(|name| at(tree.get_mut(name), rest, create, change)).sum();
    }
    if !tree.get(part).is_null() || create && (tree.is_object() || tree.is_null()) {
        return at(tree.get_mut(part), rest, create, change);
    }
    0
}
