//! Environment variables of containers.

pub(crate) mod file;

use std::collections::{BTreeMap, HashMap};

use api::core::{Container, EnvVar, ObjectFieldSelector, Pod, ResourceFieldSelector, Service};
use object::{Quantity, quote::quote};

/// Maximum length of an expanded value: the kernel passes no longer argument to a program. Without a limit, variables
/// that each reference the previous one twice would exhaust the node's memory.
const LONGEST: usize = 128 << 10;
/// Maximum total length of an environment or argument list, for the same reason.
const LONGEST_LIST: usize = 2 << 20;

/// The values that environment variables refer to, read beforehand.
#[derive(Clone, Debug, Default)]
pub struct EnvSources {
    /// By name, then by key. `None`: the object does not exist.
    pub config_maps: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
    pub secrets: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
    /// Env files by volume and path. `None`: the file does not exist.
    pub files: BTreeMap<(String, String), Option<EnvFile>>,
    /// The environment variables of services, see `service_env`.
    pub services: BTreeMap<String, String>,
    pub pod_ips: Vec<String>,
    pub host_ips: Vec<String>,
    /// Allocatable cpu and memory of the node: the value of `limits.*` where a container has no limit.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// A file of variables that another container of the pod wrote into an `emptyDir` volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFile {
    /// Path on the host, for error messages.
    pub path: String,
    pub content: Vec<u8>,
}

/// The environment of a container, in order; or why it cannot be built.
pub fn env(
    pod: &Pod,
    container: &Container,
    sources: &EnvSources,
) -> Result<Vec<(String, String)>, String> {
    let mut vars = Vars::default();
    for from in container.env_from().iter() {
        let (all, kind, name, optional) = match (from.config_map_ref(), from.secret_ref()) {
            (Some(map), _) => {
                let name = map.local_object_reference().name();
                (&sources.config_maps, "configmap", name, map.optional())
            }
            (None, Some(secret)) => {
                let name = secret.local_object_reference().name();
                (&sources.secrets, "secret", name, secret.optional())
            }
            (None, None) => continue,
        };
        match all.get(name).and_then(Option::as_ref) {
            Some(data) => {
                for (key, value) in data {
                    let value = String::from_utf8_lossy(value).into_owned();
                    vars.set(&format!("{}{key}", from.prefix()), value)?;
                }
            }
            None if optional == Some(true) => {}
            None => return Err(format!("{kind} {} not found", quote(name))),
        }
    }
    for var in container.env().iter() {
        let value = match var.value_from() {
            None => {
                let known = |name: &str| vars.get(name).or_else(|| sources.services.get(name));
                let expanded = expand(var.value(), |name| known(name).map(String::as_str));
                Some(expanded.map_err(|error| format!("variable {}: {error}", var.name()))?)
            }
            Some(_) => value_from(pod, container, var, sources)?,
        };
        if let Some(value) = value {
            vars.set(var.name(), value)?;
        }
    }
    for (name, value) in &sources.services {
        if vars.get(name).is_none() {
            vars.set(name, value.clone())?;
        }
    }
    Ok(vars.list)
}

/// Expands the variable references in every word of a command.
pub fn expand_all<'a, 'b>(
    words: impl Iterator<Item = &'b str>,
    known: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<String>, String> {
    let mut length = 0_usize;
    let expanded = words.map(|word| {
        let expanded = expand(word, &known)?;
        length = length.saturating_add(expanded.len());
        if length > LONGEST_LIST { Err(too_long(LONGEST_LIST)) } else { Ok(expanded) }
    });
    expanded.collect()
}

fn too_long(limit: usize) -> String {
    format!("longer than {limit} bytes after its references are expanded")
}

/// Expands `$(NAME)` references. Unknown references stay as they are; `$$` is an escaped dollar sign.
pub fn expand<'a>(text: &str, known: impl Fn(&str) -> Option<&'a str>) -> Result<String, String> {
    let limit = LONGEST.max(text.len());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let last_end = text.rfind(')').map_or(0, |at| text.len() - at); // distance from the end
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let can_end = after.len() >= last_end && last_end > 0;
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) =
            after.strip_prefix('(').filter(|_| can_end).and_then(|after| after.split_once(')'))
        {
            if let Some(value) = known(name) {
                if out.len().saturating_add(value.len()) > limit {
                    return Err(too_long(limit));
                }
                out.push_str(value);
            } else {
                out.push_str("$(");
                out.push_str(name);
                out.push(')');
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of a `fieldRef`: a field of the pod as text.
pub fn field_ref_value(
    pod: &Pod,
    selector: &ObjectFieldSelector,
    sources: &EnvSources,
) -> Result<String, String> {
    let (meta, path) = (pod.metadata(), selector.field_path());
    if let Some((map, key)) = path.strip_suffix(']').and_then(|path| path.split_once("['")) {
        let key = key.strip_suffix('\'').unwrap_or(key);
        let value = match map {
            "metadata.labels" => meta.labels().get(key),
            "metadata.annotations" => meta.annotations().get(key),
            _ => return Err(format!("fieldPath {} does not support subscript", quote(map))),
        };
        return Ok(value.unwrap_or_default().to_owned());
    }
    let all = |entries: &object::Map<String>| {
        let lines = entries.iter().map(|(key, value)| format!("{key}={}", quote(value)));
        lines.collect::<Vec<_>>().join("\n")
    };
    Ok(match path {
        "metadata.name" => meta.name().to_owned(),
        "metadata.namespace" => meta.namespace().to_owned(),
        "metadata.uid" => meta.uid().to_owned(),
        "metadata.labels" => all(meta.labels()),
        "metadata.annotations" => all(meta.annotations()),
        "spec.nodeName" => pod.spec().node_name().to_owned(),
        "spec.serviceAccountName" => pod.spec().service_account_name().to_owned(),
        "status.hostIP" => sources.host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => sources.host_ips.join(","),
        "status.podIP" => sources.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => sources.pod_ips.join(","),
        other => return Err(format!("unsupported fieldPath: {other}")),
    })
}

/// The value of a `resourceFieldRef`: a request or limit of a container, divided by the divisor and rounded up.
pub fn resource_field_value(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    sources: &EnvSources,
) -> Result<String, String> {
    let name = selector.container_name();
    let container = match own {
        Some(own) if name.is_empty() || own.name() == name => own,
        _ => pod
            .spec()
            .all_containers()
            .find(|one| one.name() == name)
            .ok_or_else(|| format!("container {name} not found"))?,
    };
    let (which, what) = selector.resource().split_once('.').unwrap_or_default();
    let resources = container.resources();
    let amount = match which {
        "limits" => resources.limits().get(what).or_else(|| sources.allocatable.get(what).cloned()),
        "requests" => resources.requests().get(what),
        _ => return Err(format!("unsupported container resource : {}", selector.resource())),
    };
    let amount = amount.unwrap_or_default();
    let divisor = selector.divisor();
    let (amount, divisor) = if what == "cpu" {
        (amount.milli_value(), if divisor.is_zero() { 1000 } else { divisor.milli_value() })
    } else {
        (amount.value(), if divisor.is_zero() { 1 } else { divisor.value() })
    };
    let divisor = divisor.max(1);
    Ok((amount.saturating_add(divisor.saturating_sub(1)).div_euclid(divisor)).to_string())
}

/// The environment variables that describe services: `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT` and the Docker-link style
/// ones.
pub fn service_env<'a>(all: impl Iterator<Item = &'a Service>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for service in all {
        let (name, address) = (service.metadata().name(), service.spec().cluster_ip());
        if matches!(address, "" | "None") {
            continue;
        }
        let prefix = name.to_uppercase().replace('-', "_");
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        out.insert(format!("{prefix}_SERVICE_HOST"), address.to_owned());
        for (at, port) in service.spec().ports().iter().enumerate() {
            let (number, protocol) = (port.port(), port.protocol());
            let url = format!("{}://{host}:{number}", protocol.to_lowercase());
            if at == 0 {
                out.insert(format!("{prefix}_SERVICE_PORT"), number.to_string());
                out.insert(format!("{prefix}_PORT"), url.clone());
            }
            if !port.name().is_empty() {
                let part = port.name().to_uppercase().replace('-', "_");
                out.insert(format!("{prefix}_SERVICE_PORT_{part}"), number.to_string());
            }
            let link = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
            out.insert(format!("{link}_PROTO"), protocol.to_lowercase());
            out.insert(format!("{link}_PORT"), number.to_string());
            out.insert(format!("{link}_ADDR"), address.to_owned());
            out.insert(link, url);
        }
    }
    out
}

fn value_from(
    pod: &Pod,
    container: &Container,
    var: &EnvVar,
    sources: &EnvSources,
) -> Result<Option<String>, String> {
    let Some(from) = var.value_from() else { return Ok(None) };
    if let Some(selector) = from.field_ref() {
        return field_ref_value(pod, selector, sources).map(Some);
    }
    if let Some(selector) = from.resource_field_ref() {
        return resource_field_value(pod, Some(container), selector, sources).map(Some);
    }
    if let Some(selector) = from.file_key_ref() {
        return file::value(pod, selector, sources);
    }
    let (all, kind, name, key, optional) = match (from.config_map_key_ref(), from.secret_key_ref())
    {
        (Some(map), _) => {
            let name = map.local_object_reference().name();
            (&sources.config_maps, "configmap", name, map.key(), map.optional())
        }
        (None, Some(secret)) => {
            let name = secret.local_object_reference().name();
            (&sources.secrets, "secret", name, secret.key(), secret.optional())
        }
        (None, None) => return Ok(None),
    };
    let Some(data) = all.get(name).and_then(Option::as_ref) else {
        return match optional {
            Some(true) => Ok(None),
            _ => Err(format!("{kind} {} not found", quote(name))),
        };
    };
    match data.get(key) {
        Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        None if optional == Some(true) => Ok(None),
        None => {
            let kind = if kind == "secret" { "Secret" } else { "ConfigMap" };
            let place = format!("{}/{name}", pod.metadata().namespace());
            Err(format!("couldn't find key {key} in {kind} {place}"))
        }
    }
}

/// Variables in the order in which they were first set.
#[derive(Default)]
struct Vars {
    list: Vec<(String, String)>,
    /// Index in `list`, by name.
    places: HashMap<String, usize>,
    length: usize,
}

impl Vars {
    fn get(&self, name: &str) -> Option<&String> {
        self.places.get(name).and_then(|at| self.list.get(*at)).map(|(_, value)| value)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        self.length = self.length.saturating_add(name.len() + value.len());
        if self.length > LONGEST_LIST {
            return Err(format!("the environment is longer than {LONGEST_LIST} bytes"));
        }
        if let Some((_, known)) = self.places.get(name).and_then(|at| self.list.get_mut(*at)) {
            let old = std::mem::replace(known, value);
            self.length -= name.len() + old.len();
        } else {
            self.places.insert(name.to_owned(), self.list.len());
            self.list.push((name.to_owned(), value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
