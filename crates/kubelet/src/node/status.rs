//! The status of the Node object: addresses, capacity, conditions, images and runtime features.

use container::cri::Image;
use object::{Time, Value};

use crate::{KubeletContext, eviction::Pressure};

/// Maximum number of images in the node status.
const MOST_IMAGES: usize = 50;

/// Computes the node status.
pub(crate) async fn of(host: &KubeletContext, port: u16) -> Value {
    let config = &host.config;
    let mut status = Value::object();
    let mut addresses = Vec::new();
    for ip in &config.node_ips {
        addresses.push(pair("InternalIP", &ip.to_string()));
    }
    addresses.push(pair("Hostname", &config.node_name));
    status["addresses"] = addresses.into_iter().collect();
    for (name, amount) in host.machine.resources() {
        status["capacity"][name.as_str()] = amount.to_string().into();
    }
    for (name, amount) in host.allocatable() {
        status["allocatable"][name.as_str()] = amount.to_string().into();
    }
    for list in ["capacity", "allocatable"] {
        status[list]["pods"] = config.max_pods.to_string().into();
    }
    status["daemonEndpoints"]["kubeletEndpoint"]["Port"] = i32::from(port).into();
    let machine = &host.machine;
    let info = &mut status["nodeInfo"];
    for (name, value) in [
        ("machineID", &*machine.machine_id),
        ("systemUUID", &machine.system_uuid),
        ("bootID", &machine.boot_id),
        ("kernelVersion", &machine.kernel),
        ("osImage", &machine.os),
        ("kubeletVersion", &config.version),
        ("kubeProxyVersion", ""),
        ("operatingSystem", "linux"),
        ("architecture", architecture()),
    ] {
        info[name] = value.into();
    }
    info["containerRuntimeVersion"] =
        format!("{}://{}", host.runtime.name, host.runtime.version).into();
    if let Some(images) = images(host).await {
        status["images"] = images;
    }
    let ready = match host.runtime.status().await {
        Ok(answer) => {
            let handlers = answer.runtime_handlers.iter().map(|handler| {
                let mut entry = Value::object();
                entry["name"] = (&*handler.name).into();
                if let Some(features) = &handler.features {
                    entry["features"]["recursiveReadOnlyMounts"] =
                        features.recursive_read_only_mounts.into();
                    entry["features"]["userNamespaces"] = features.user_namespaces.into();
                }
                entry
            });
            status["runtimeHandlers"] = handlers.collect();
            if let Some(features) = answer.features {
                status["features"]["supplementalGroupsPolicy"] =
                    features.supplemental_groups_policy.into();
            }
            readiness(&answer.status.map(|status| status.conditions).unwrap_or_default())
        }
        Err(error) => Err(format!("container runtime is down: {}", error.message())),
    };
    status["conditions"] = conditions(host, ready);
    status
}

pub(crate) fn is_ready(status: &Value) -> bool {
    status["conditions"]
        .items()
        .iter()
        .any(|one| one["type"].as_str() == Some("Ready") && one["status"].as_str() == Some("True"))
}

/// The status without the condition timestamps, to detect whether anything else has changed.
pub(crate) fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status["conditions"].items().to_vec();
    let plain = conditions.into_iter().map(|mut one| {
        one.remove("lastHeartbeatTime");
        one.remove("lastTransitionTime");
        one
    });
    status["conditions"] = plain.collect();
    status
}

pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Why the node is not ready, according to the conditions of the runtime.
fn readiness(conditions: &[container::cri::RuntimeCondition]) -> Result<(), String> {
    let find = |name: &str| conditions.iter().find(|one| one.r#type == name);
    match find("RuntimeReady") {
        Some(one) if one.status => {}
        Some(one) => {
            return Err(format!(
                "container runtime not ready: RuntimeReady=false reason:{} message:{}",
                one.reason, one.message
            ));
        }
        None => return Err("container runtime status check may not have completed yet".into()),
    }
    match find("NetworkReady") {
        Some(one) if !one.status => Err(format!(
            "container runtime network not ready: NetworkReady=false reason:{} message:{}",
            one.reason, one.message
        )),
        _ => Ok(()),
    }
}

fn conditions(host: &KubeletContext, ready: Result<(), String>) -> Value {
    let now = Time::format(host.now());
    let entry = |name: &str, is: bool, reason: &str, message: &str| {
        let mut out = Value::object();
        out["type"] = name.into();
        out["status"] = if is { "True" } else { "False" }.into();
        (out["lastHeartbeatTime"], out["lastTransitionTime"]) =
            (now.clone().into(), now.clone().into());
        (out["reason"], out["message"]) = (reason.into(), message.into());
        out
    };
    let pressure = host.pressure();
    let memory = if pressure.contains(&Pressure::Memory) {
        entry(
            "MemoryPressure",
            true,
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        )
    } else {
        entry(
            "MemoryPressure",
            false,
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        )
    };
    let disk = if pressure.contains(&Pressure::Disk) {
        entry("DiskPressure", true, "KubeletHasDiskPressure", "kubelet has disk pressure")
    } else {
        entry("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
    };
    let pids = if pressure.contains(&Pressure::Processes) {
        entry(
            "PIDPressure",
            true,
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
        )
    } else {
        entry(
            "PIDPressure",
            false,
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        )
    };
    let ready = match ready {
        Ok(()) => entry("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        Err(why) => entry("Ready", false, "KubeletNotReady", &why),
    };
    [memory, disk, pids, ready].into_iter().collect()
}

async fn images(host: &KubeletContext) -> Option<Value> {
    Some(to_container_images(host.runtime.images().await.ok()?))
}

/// The largest images, as the node's status lists them.
fn to_container_images(mut images: Vec<Image>) -> Value {
    images.sort_by(|a, b| b.size.cmp(&a.size).then(a.id.cmp(&b.id)));
    let shown = images.into_iter().take(MOST_IMAGES).map(|image| {
        let names = image.repo_digests.iter().chain(&image.repo_tags).take(5);
        let mut out = Value::object();
        out["names"] = names.map(|name| Value::from(&**name)).collect();
        // An API server takes no larger number, and would refuse the whole status.
        out["sizeBytes"] = i64::try_from(image.size).unwrap_or(i64::MAX).into();
        out
    });
    shown.collect()
}

fn pair(kind: &str, address: &str) -> Value {
    let mut out = Value::object();
    (out["type"], out["address"]) = (kind.into(), address.into());
    out
}

#[test]
fn a_node_is_ready_when_its_runtime_and_network_are() {
    let one = |kind: &str, status: bool| container::cri::RuntimeCondition {
        r#type: kind.into(),
        status,
        reason: "R".into(),
        message: "m".into(),
    };
    assert_eq!(readiness(&[one("RuntimeReady", true), one("NetworkReady", true)]), Ok(()));
    assert!(readiness(&[]).is_err());
    let why = readiness(&[one("RuntimeReady", true), one("NetworkReady", false)]).unwrap_err();
    assert_eq!(why, "container runtime network not ready: NetworkReady=false reason:R message:m");
}

/// A runtime may report any size; the API has signed numbers.
#[test]
fn sizes_of_images_fit_into_the_status() {
    let image = |id: &str, size| Image { id: id.into(), size, ..Image::default() };
    let shown = to_container_images(vec![image("a", 5), image("b", u64::MAX)]);
    let sizes: Vec<_> = shown.items().iter().map(|one| one["sizeBytes"].as_i64()).collect();
    assert_eq!(sizes, [Some(i64::MAX), Some(5)]);
}
