//! Zero values of Go structs: upstream prints fields without `omitempty` of objects that kubectl itself has created
//! or changed, even if they were never set.

use object::{Value, yaml};

use crate::workload::{items_mut, pod_spec_path};

/// Adds the zero values that objects of this kind always have in upstream's output.
pub(crate) fn fill_zero_values(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let always = match kind.as_str() {
        "Job" => "{spec: {template: {metadata: {}}}, status: {}}",
        "Pod" | "Namespace" | "PersistentVolumeClaim" => "{status: {}}",
        "Deployment" => "{spec: {strategy: {}, template: {metadata: {}}}, status: {}}",
        "DaemonSet" => {
            "{spec: {template: {metadata: {}}, updateStrategy: {}}, status: {currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0}}"
        }
        "StatefulSet" => {
            "{spec: {template: {metadata: {}}, updateStrategy: {}}, status: {availableReplicas: 0, replicas: 0}}"
        }
        "ReplicaSet" | "ReplicationController" => "{status: {replicas: 0}}",
        "CronJob" => {
            "{spec: {jobTemplate: {metadata: {}, spec: {template: {metadata: {}}}}}, status: {}}"
        }
        "Service" => "{status: {loadBalancer: {}}}",
        _ => return,
    };
    fill(object, &yaml::from_yaml(always).expect("written in the code"));
    if kind == "Service" {
        if !object["spec"]["ports"].is_null() {
            for port in items_mut(&mut object["spec"]["ports"]) {
                fill(port, &yaml::from_yaml("{targetPort: 0}").expect("written in the code"));
            }
        }
        return;
    }
    let Some(path) = pod_spec_path(&kind) else { return };
    let spec = path.iter().fold(object, |tree, name| tree.get_mut(name));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        if spec[field].is_null() {
            continue;
        }
        for container in items_mut(&mut spec[field]) {
            if container["resources"].is_null() {
                container["resources"] = Value::object();
            }
        }
    }
}

/// Adds to `tree` the entries of `more` that it lacks.
fn fill(tree: &mut Value, more: &Value) {
    for (name, value) in more.entries() {
        if tree.get(name).is_null() {
            tree[name] = value.clone();
        } else if value.is_object() && tree.get(name).is_object() {
            fill(tree.get_mut(name), value);
        }
    }
}

#[test]
fn completes_a_service() {
    let mut service =
        yaml::from_yaml("{kind: Service, spec: {ports: [{port: 80}]}}").expect("YAML");
    fill_zero_values(&mut service);
    assert_eq!(
        super::json::compact(&service),
        r#"{"kind":"Service","spec":{"ports":[{"port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}"#
    );
}
