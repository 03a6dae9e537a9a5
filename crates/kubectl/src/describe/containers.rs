//! Describes the containers and volumes of pods and pod templates.

use object::{Value, quantity::Quantity, quote::quote};

use super::{describe_writer::DescribeWriter, either, format_time, number, storage, text, volumes};

/// Describes containers, with their state if `statuses` are given.
pub(super) fn containers(
    title: &str,
    list: &Value,
    statuses: Option<&Value>,
    pod: &Value,
    sheet: &mut DescribeWriter,
) {
    let template = statuses.is_none();
    let indent = if template { "  " } else { "" };
    let none = if list.items().is_empty() { " <none>" } else { "" };
    sheet.line(0, &format!("{indent}{title}:{none}"));
    for container in list.items() {
        let status = statuses
            .and_then(|all| all.items().iter().find(|status| status["name"] == container["name"]));
        let space = if template { " " } else { "" };
        sheet.line(1, &format!("{space}{}:", text(&container["name"])));
        if let Some(status) = status {
            sheet.line(2, &format!("Container ID:\t{}", text(&status["containerID"])));
        }
        sheet.line(2, &format!("Image:\t{}", text(&container["image"])));
        if let Some(status) = status {
            sheet.line(2, &format!("Image ID:\t{}", text(&status["imageID"])));
        }
        ports("Port", "containerPort", &container["ports"], sheet);
        ports("Host Port", "hostPort", &container["ports"], sheet);
        let profile = &container["securityContext"]["seccompProfile"];
        if !profile.is_null() {
            sheet.line(2, &format!("SeccompProfile:\t{}", text(&profile["type"])));
            if text(&profile["type"]) == "Localhost" {
                let file = text(&profile["localhostProfile"]);
                sheet.line(3, &format!("LocalhostProfile:\t{file}"));
            }
        }
        for (field, title) in [("command", "Command:"), ("args", "Args:")] {
            if !container[field].items().is_empty() {
                sheet.line(2, title);
            }
            for line in container[field].items().iter().flat_map(|word| text(word).split('\n')) {
                sheet.line(3, line);
            }
        }
        if let Some(status) = status {
            state("State", &status["state"], sheet);
            if !status["lastState"]["terminated"].is_null() {
                state("Last State", &status["lastState"], sheet);
            }
            sheet.line(
                2,
                &format!(
                    "Ready:\t{}",
                    if status["ready"].as_bool() == Some(true) { "True" } else { "False" }
                ),
            );
            sheet.line(2, &format!("Restart Count:\t{}", number(&status["restartCount"])));
        }
        resources(&container["resources"], 2, sheet);
        for (field, title) in [
            ("livenessProbe", "Liveness"),
            ("readinessProbe", "Readiness"),
            ("startupProbe", "Startup"),
        ] {
            if !container[field].is_null() {
                sheet.line(2, &format!("{title}:\t{}", probe(&container[field])));
            }
        }
        environment(container, pod, sheet);
        mounts(container, sheet);
    }
}

fn ports(title: &str, field: &str, ports: &Value, sheet: &mut DescribeWriter) {
    let all: Vec<String> = ports
        .items()
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            let base = format!("{}/{protocol}", number(&port[field]));
            match text(&port["name"]) {
                "" => base,
                name => format!("{base} ({name})"),
            }
        })
        .collect();
    let joined = all.join(", ");
    match all.len() {
        0 => sheet.line(2, &format!("{title}:\t<none>")),
        1 => sheet.line(2, &format!("{title}:\t{joined}")),
        _ => sheet.line(2, &format!("{title}s:\t{joined}")),
    }
}

pub(super) fn resources(resources: &Value, level: usize, sheet: &mut DescribeWriter) {
    for (field, title) in [("limits", "Limits:"), ("requests", "Requests:")] {
        if resources[field].entries().len() > 0 {
            sheet.line(level, title);
        }
        for (name, value) in resources[field].entries() {
            sheet.line(level + 1, &format!("{name}:\t{}", either(value)));
        }
    }
}

fn state(title: &str, state: &Value, sheet: &mut DescribeWriter) {
    if !state["running"].is_null() {
        sheet.line(2, &format!("{title}:\tRunning"));
        sheet.line(3, &format!("Started:\t{}", format_time(&state["running"]["startedAt"])));
    } else if !state["terminated"].is_null() {
        let ended = &state["terminated"];
        sheet.line(2, &format!("{title}:\tTerminated"));
        for (field, title) in [("reason", "Reason"), ("message", "Message")] {
            if !text(&ended[field]).is_empty() {
                sheet.line(3, &format!("{title}:\t{}", text(&ended[field])));
            }
        }
        sheet.line(3, &format!("Exit Code:\t{}", number(&ended["exitCode"])));
        if number(&ended["signal"]) > 0 {
            sheet.line(3, &format!("Signal:\t{}", number(&ended["signal"])));
        }
        sheet.line(3, &format!("Started:\t{}", format_time(&ended["startedAt"])));
        sheet.line(3, &format!("Finished:\t{}", format_time(&ended["finishedAt"])));
    } else {
        sheet.line(2, &format!("{title}:\tWaiting"));
        if !text(&state["waiting"]["reason"]).is_empty() {
            sheet.line(3, &format!("Reason:\t{}", text(&state["waiting"]["reason"])));
        }
    }
}

/// Escapes a path as Go's `url.URL` does.
fn escape_path(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
}

fn probe(probe: &Value) -> String {
    let attributes = format!(
        "delay={}s timeout={}s period={}s successThreshold={} failureThreshold={}",
        number(&probe["initialDelaySeconds"]),
        number(&probe["timeoutSeconds"]),
        number(&probe["periodSeconds"]),
        number(&probe["successThreshold"]),
        number(&probe["failureThreshold"])
    );
    if !probe["exec"].is_null() {
        let command: Vec<&str> = probe["exec"]["command"].items().iter().map(text).collect();
        format!("exec [{}] {attributes}", command.join(" "))
    } else if !probe["httpGet"].is_null() {
        let get = &probe["httpGet"];
        let scheme = text(&get["scheme"]).to_lowercase();
        format!(
            "http-get {scheme}://{}:{}{} {attributes}",
            text(&get["host"]),
            either(&get["port"]),
            escape_path(text(&get["path"]))
        )
    } else if !probe["tcpSocket"].is_null() {
        format!(
            "tcp-socket {}:{} {attributes}",
            text(&probe["tcpSocket"]["host"]),
            either(&probe["tcpSocket"]["port"])
        )
    } else if !probe["grpc"].is_null() {
        format!(
            "grpc <pod>:{} {} {attributes}",
            number(&probe["grpc"]["port"]),
            text(&probe["grpc"]["service"])
        )
    } else {
        format!("unknown {attributes}")
    }
}

fn environment(container: &Value, pod: &Value, sheet: &mut DescribeWriter) {
    let optional = |reference: &Value| reference["optional"].as_bool() == Some(true);
    if !container["envFrom"].items().is_empty() {
        sheet.line(2, "Environment Variables from:");
    }
    for source in container["envFrom"].items() {
        let (kind, reference) = if source["configMapRef"].is_null() {
            ("Secret", &source["secretRef"])
        } else {
            ("ConfigMap", &source["configMapRef"])
        };
        let with = match text(&source["prefix"]) {
            "" => String::new(),
            prefix => format!(" with prefix '{prefix}'"),
        };
        sheet.line(
            3,
            &format!(
                "{}\t{kind}{with}\tOptional: {}",
                text(&reference["name"]),
                optional(reference)
            ),
        );
    }
    let none = if container["env"].items().is_empty() { "\t<none>" } else { "" };
    sheet.line(2, &format!("Environment:{none}"));
    for variable in container["env"].items() {
        let (name, from) = (text(&variable["name"]), &variable["valueFrom"]);
        if from.is_null() {
            for (at, line) in text(&variable["value"]).split('\n').enumerate() {
                sheet.line(
                    3,
                    &if at == 0 { format!("{name}:\t{line}") } else { format!("\t{line}") },
                );
            }
        } else if !from["fieldRef"].is_null() {
            let path = text(&from["fieldRef"]["fieldPath"]);
            let value = if pod.is_null() { String::new() } else { field_of(pod, path) };
            sheet.line(
                3,
                &format!("{name}:\t{value} ({}:{path})", text(&from["fieldRef"]["apiVersion"])),
            );
        } else if !from["resourceFieldRef"].is_null() {
            let resource = text(&from["resourceFieldRef"]["resource"]);
            let value = amount(container, &from["resourceFieldRef"]);
            sheet.line(3, &format!("{name}:\t{value} ({resource})"));
        } else if !from["secretKeyRef"].is_null() {
            let key = &from["secretKeyRef"];
            sheet.line(
                3,
                &format!(
                    "{name}:\t<set to the key '{}' in secret '{}'>\tOptional: {}",
                    text(&key["key"]),
                    text(&key["name"]),
                    optional(key)
                ),
            );
        } else if !from["configMapKeyRef"].is_null() {
            let key = &from["configMapKeyRef"];
            sheet.line(
                3,
                &format!(
                    "{name}:\t<set to the key '{}' of config map '{}'>\tOptional: {}",
                    text(&key["key"]),
                    text(&key["name"]),
                    optional(key)
                ),
            );
        }
    }
}

/// A request or limit of the container in units of the divisor, for a resourceFieldRef.
fn amount(container: &Value, reference: &Value) -> String {
    let resource = text(&reference["resource"]);
    let (kind, what) = resource.split_once('.').unwrap_or((resource, ""));
    let milli = |value: &Value| either(value).parse::<Quantity>().map_or(0, |q| q.milli_value());
    let unit = match milli(&reference["divisor"]) {
        0 => 1000,
        divisor => divisor,
    };
    let all = milli(&container["resources"][kind][what]);
    match all / unit + i64::from(all % unit > 0) {
        0 if matches!(resource, "limits.cpu" | "limits.memory") => "node allocatable".to_owned(),
        amount => amount.to_string(),
    }
}

/// The value of a fieldRef, for the few fields whose value is printed.
fn field_of(pod: &Value, path: &str) -> String {
    match path {
        "metadata.name" | "metadata.namespace" | "metadata.uid" => {
            text(&pod["metadata"][&path["metadata.".len()..]]).to_owned()
        }
        _ => String::new(),
    }
}

fn mounts(container: &Value, sheet: &mut DescribeWriter) {
    let mut all = container["volumeMounts"].items().to_vec();
    all.sort_by(|a, b| text(&a["mountPath"]).cmp(text(&b["mountPath"])));
    sheet.line(2, if all.is_empty() { "Mounts:\t<none>" } else { "Mounts:" });
    for mount in &all {
        let mut flags =
            if mount["readOnly"].as_bool() == Some(true) { "ro" } else { "rw" }.to_owned();
        if !text(&mount["subPath"]).is_empty() {
            flags += &format!(",path={}", quote(text(&mount["subPath"])));
        }
        sheet.line(
            3,
            &format!("{} from {} ({flags})", text(&mount["mountPath"]), text(&mount["name"])),
        );
    }
    let devices = container["volumeDevices"].items();
    if !devices.is_empty() {
        sheet.line(2, "Devices:");
    }
    for device in devices {
        sheet.line(3, &format!("{} from {}", text(&device["devicePath"]), text(&device["name"])));
    }
}

/// Describes volumes by their source.
pub(super) fn volumes(volumes: &Value, indent: &str, sheet: &mut DescribeWriter) {
    if volumes.items().is_empty() {
        sheet.line(0, &format!("{indent}Volumes:\t<none>"));
        return;
    }
    sheet.line(0, &format!("{indent}Volumes:"));
    let space = if indent.is_empty() { "" } else { " " };
    for volume in volumes.items() {
        sheet.line(1, &format!("{space}{}:", text(&volume["name"])));
        source(volume, sheet);
    }
}

fn source(volume: &Value, sheet: &mut DescribeWriter) {
    let bool_of = |value: &Value| value.as_bool().unwrap_or(false).to_string();
    if volumes::describe_source(volume, false, sheet) {
        return;
    }
    let mut say = |name: &str, value: &str| sheet.line(2, &format!("{name}:\t{value}"));
    if let Some(claim) = volume.some_field("ephemeral") {
        storage::inline_claim(&claim["volumeClaimTemplate"], sheet);
    } else if let Some(dir) = volume.some_field("emptyDir") {
        say("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
        say("Medium", text(&dir["medium"]));
        say(
            "SizeLimit",
            &match either(&dir["sizeLimit"]).as_str() {
                "" => "<unset>".to_owned(),
                limit => limit.to_owned(),
            },
        );
    } else if let Some(secret) = volume.some_field("secret") {
        say("Type", "Secret (a volume populated by a Secret)");
        say("SecretName", text(&secret["secretName"]));
        say("Optional", &bool_of(&secret["optional"]));
    } else if let Some(map) = volume.some_field("configMap") {
        say("Type", "ConfigMap (a volume populated by a ConfigMap)");
        say("Name", text(&map["name"]));
        say("Optional", &bool_of(&map["optional"]));
    } else if let Some(claim) = volume.some_field("persistentVolumeClaim") {
        say(
            "Type",
            "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        );
        say("ClaimName", text(&claim["claimName"]));
        say("ReadOnly", &bool_of(&claim["readOnly"]));
    } else if let Some(api) = volume.some_field("downwardAPI") {
        say("Type", "DownwardAPI (a volume populated by information about the pod)");
        sheet.line(2, "Items:");
        downward(api, sheet);
    } else if let Some(projected) = volume.some_field("projected") {
        say("Type", "Projected (a volume that contains injected data from multiple sources)");
        for source in projected["sources"].items() {
            if let Some(secret) = source.some_field("secret") {
                sheet.line(2, &format!("SecretName:\t{}", text(&secret["name"])));
                sheet.line(2, &format!("Optional:\t{}", bool_of(&secret["optional"])));
            } else if let Some(map) = source.some_field("configMap") {
                sheet.line(2, &format!("ConfigMapName:\t{}", text(&map["name"])));
                sheet.line(2, &format!("Optional:\t{}", bool_of(&map["optional"])));
            } else if source.some_field("downwardAPI").is_some() {
                sheet.line(2, "DownwardAPI:\ttrue");
            } else if let Some(token) = source.some_field("serviceAccountToken") {
                sheet.line(
                    2,
                    &format!("TokenExpirationSeconds:\t{}", number(&token["expirationSeconds"])),
                );
            }
        }
    } else if let Some(csi) = volume.some_field("csi") {
        say("Type", "CSI (a Container Storage Interface (CSI) volume source)");
        say("Driver", text(&csi["driver"]));
        say("FSType", text(&csi["fsType"]));
        say("ReadOnly", &bool_of(&csi["readOnly"]));
        storage::attributes(&csi["volumeAttributes"], sheet);
    } else if let Some(image) = volume.some_field("image") {
        say("Type", "Image (a container image or OCI artifact)");
        say("Reference", text(&image["reference"]));
        say("PullPolicy", text(&image["pullPolicy"]));
    } else {
        sheet.line(1, "<unknown>");
    }
}

fn downward(api: &Value, sheet: &mut DescribeWriter) {
    for item in api["items"].items() {
        if !item["fieldRef"].is_null() {
            sheet.line(
                3,
                &format!("{} -> {}", text(&item["fieldRef"]["fieldPath"]), text(&item["path"])),
            );
        }
        if !item["resourceFieldRef"].is_null() {
            sheet.line(
                3,
                &format!(
                    "{} -> {}",
                    text(&item["resourceFieldRef"]["resource"]),
                    text(&item["path"])
                ),
            );
        }
    }
}

/// Reads a field that may be absent.
trait Fields {
    fn some_field(&self, name: &str) -> Option<&Value>;
}

impl Fields for Value {
    fn some_field(&self, name: &str) -> Option<&Value> {
        Some(self.get(name)).filter(|value| !value.is_null())
    }
}

/// Formats each toleration as `key=value:Effect op=…`.
pub(super) fn tolerations(list: &Value) -> Vec<String> {
    let mut sorted = list.items().to_vec();
    sorted.sort_by(|a, b| text(&a["key"]).cmp(text(&b["key"])));
    sorted
        .iter()
        .map(|toleration| {
            let (key, value, effect) =
                (text(&toleration["key"]), text(&toleration["value"]), text(&toleration["effect"]));
            let mut line = key.to_owned();
            if !value.is_empty() {
                line += &format!("={value}");
            }
            if !effect.is_empty() {
                line += &format!(":{effect}");
            }
            if text(&toleration["operator"]) == "Exists" && value.is_empty() {
                line +=
                    if key.is_empty() && effect.is_empty() { "op=Exists" } else { " op=Exists" };
            }
            if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
                line += &format!(" for {seconds}s");
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_are_sorted_by_key_only() {
        let list = object::yaml::from_yaml(
            "[{key: b, operator: Exists, effect: NoSchedule}, {operator: Exists}, {key: a, value: c, effect: NoExecute, tolerationSeconds: 0}]",
        )
        .expect("YAML");
        assert_eq!(
            tolerations(&list),
            ["op=Exists", "a=c:NoExecute for 0s", "b:NoSchedule op=Exists"]
        );
    }

    #[test]
    fn paths_of_probes_are_escaped_as_in_urls() {
        for (path, shown) in
            [("/healthz", "/healthz"), ("/a?b=c", "/a%3Fb=c"), ("/a b#ü", "/a%20b%23%C3%BC")]
        {
            assert_eq!(escape_path(path), shown);
        }
    }
}
