//! The pages `/statusz` and `/flagz` of a component: its state and its flags, as text, and as an
//! object if the client accepts one.

use std::{collections::BTreeMap, fmt::Write as _};

use object::{Status, Time, Value, to_json, yaml::to_yaml};

const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const UNSTABLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                        formatting compatibility guarantees and is for debugging purposes only.";

/// The state of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessState<'a> {
    /// Start time, in seconds since 1970.
    pub since: i64,
    pub now: i64,
    /// The version of the executable, such as `v1.37.1`.
    pub version: &'a str,
    /// The paths for debugging that the component serves.
    pub paths: &'a [&'a str],
}

/// A page and its headers.
#[derive(Debug, PartialEq)]
pub struct Zpage {
    pub content_type: String,
    /// The value of the Warning header, for deprecated versions.
    pub warning: Option<String>,
    pub body: String,
}

/// `/statusz` in the format that the Accept header asks for.
pub fn statusz(component: &str, accept: &str, process: &ProcessState<'_>) -> Result<Zpage, Status> {
    let up = process.now - process.since;
    let version = process.version.trim_start_matches('v');
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let Some(form) = ZpageFormat::asked(accept, "Statusz")? else {
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        return Ok(Zpage::text(format!(
            "\n{component} statusz\n{UNSTABLE}\n\nStarted= {}\n\
             Up= {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version= {version}\nEmulation version= {minor}\nPaths= {}\n",
            Time::format(process.since),
            process.paths.join(" ")
        )));
    };
    let mut status = form.object(component, "Statusz");
    status["startTime"] = Time::format(process.since).into();
    status["uptimeSeconds"] = up.into();
    status["binaryVersion"] = version.into();
    status["emulationVersion"] = minor.into();
    status["paths"] = process.paths.iter().copied().collect();
    Ok(form.page(&status, "Statusz"))
}

/// `/flagz` in the format that the Accept header asks for.
pub fn flagz(
    component: &str,
    accept: &str,
    flags: &BTreeMap<String, String>,
) -> Result<Zpage, Status> {
    let Some(form) = ZpageFormat::asked(accept, "Flagz")? else {
        let mut text = format!("\n{component} flagz\n{UNSTABLE}\n");
        for (name, value) in flags {
            let _ = writeln!(text, "{name}: {value}");
        }
        return Ok(Zpage::text(text));
    };
    let mut object = form.object(component, "Flagz");
    for (name, value) in flags {
        object["flags"][name.as_str()] = value.as_str().into();
    }
    Ok(form.page(&object, "Flagz"))
}

impl Zpage {
    fn text(text: String) -> Self {
        let content_type = "text/plain; charset=utf-8".to_owned();
        Self { content_type, warning: None, body: text }
    }
}

/// The encoding and version of the response object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZpageFormat {
    yaml: bool,
    version: &'static str,
}

impl ZpageFormat {
    /// The format that the Accept header asks for; `None` means text.
    fn asked(accept: &str, kind: &str) -> Result<Option<Self>, Status> {
        if accept.trim().is_empty() {
            return Ok(None);
        }
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if matches!(media_type, "text/plain" | "text/*" | "*/*") {
                return Ok(None);
            }
            let said: Vec<&str> = parts.collect();
            let has = |part: &str| said.contains(&part);
            let fits = has(&format!("as={kind}")) && has(&format!("g={GROUP}"));
            let version = VERSIONS.into_iter().find(|version| has(&format!("v={version}")));
            match (media_type, version) {
                ("application/json" | "application/yaml", Some(version)) if fits => {
                    return Ok(Some(Self { yaml: media_type == "application/yaml", version }));
                }
                _ => {}
            }
        }
        let only = "only the following media types are accepted: application/json, \
                    application/yaml, text/plain";
        Err(Status::failure(406, "NotAcceptable", only))
    }

    fn object(self, component: &str, kind: &str) -> Value {
        let mut object = Value::object();
        object["kind"] = kind.into();
        object["apiVersion"] = format!("{GROUP}/{}", self.version).into();
        object["metadata"]["name"] = component.into();
        object
    }

    fn page(self, object: &Value, kind: &str) -> Zpage {
        let (body, form) = match self.yaml {
            true => (to_yaml(object), "yaml"),
            false => (String::from_utf8_lossy(&to_json(object)).into_owned() + "\n", "json"),
        };
        let warning = (self.version == "v1alpha1").then(|| {
            format!(
                "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                kind.to_lowercase()
            )
        });
        let content_type = format!("application/{form};g={GROUP};v={};as={kind}", self.version);
        Zpage { content_type, warning, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_unless_an_object_is_asked_for() {
        let asked =
            |accept: &str| ZpageFormat::asked(accept, "Flagz").map_err(|status| status.code());
        assert_eq!(asked(""), Ok(None));
        assert_eq!(asked("*/*"), Ok(None));
        assert_eq!(asked("text/plain"), Ok(None));
        let form = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
        assert_eq!(asked(form), Ok(Some(ZpageFormat { yaml: false, version: "v1beta1" })));
        assert_eq!(asked("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"), Err(406));
        assert_eq!(asked("application/json"), Err(406));
    }
}
