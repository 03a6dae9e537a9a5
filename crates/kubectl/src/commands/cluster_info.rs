//! `cluster-info`: prints the address of the control plane.

mod dump;

use super::Command;
use crate::{error::Result, invocation::Invocation};

pub(crate) const COMMAND: Command = Command::new("cluster-info", &[], run).inner(&[dump::COMMAND]);

fn run(call: &Invocation<'_>) -> Result {
    // The hint is printed even if the services cannot be read.
    let print_hint = || {
        call.print(
            "\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.\n",
        );
    };
    let services = call.server()?.get("/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue").inspect_err(|_| print_hint())?;
    let address = call.address()?;
    let mut text = format!("Kubernetes control plane is running at {address}\n");
    for service in services["items"].items() {
        let meta = &service["metadata"];
        let name = meta["name"].as_str().unwrap_or_default();
        let label = meta["labels"]["kubernetes.io/name"].as_str().unwrap_or(name);
        let ports = service["spec"]["ports"].items();
        let port = ports
            .first()
            .and_then(|port| port["name"].as_str())
            .map_or(String::new(), |port| format!(":{port}"));
        text += &format!(
            "{label} is running at {address}/api/v1/namespaces/kube-system/services/{name}{port}/proxy\n"
        );
    }
    call.print(&text);
    print_hint();
    Ok(())
}
