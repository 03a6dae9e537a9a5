//! The controller that gives this host's node the role `control-plane`, which `kubectl get nodes` prints. A kubelet
//! may not set its own role: the control plane does.

use std::sync::{Mutex, PoisonError};

use api::core::Node;
use client::{Client, Error, Patch, Selectors};
use object::{NamespacedName, Value};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};

const LABEL: &str = "node-role.kubernetes.io/control-plane";

/// Labels the node as soon as it is registered. It sets no taint: pods run on this node too.
pub(super) fn start(client: &Client, node: &str) -> Context {
    let cx = Context::new(client);
    let selection = Selectors::fields(format!("metadata.name={node}"));
    let role =
        ControlPlaneRole { nodes: cx.cached_api_selected(&selection), labelled: Mutex::default() };
    Controller::with_selectors("control-plane-role", &cx, &selection, role).start();
    cx
}

/// The controller.
#[derive(Debug)]
struct ControlPlaneRole {
    nodes: CachedApi<Node>,
    /// Uid of the node that was labelled: a label that the administrator removes stays removed until the
    /// next start.
    labelled: Mutex<String>,
}

impl Reconcile for ControlPlaneRole {
    type Kind = Node;

    async fn reconcile(&self, key: &NamespacedName, node: Option<Node>) -> Result<Requeue, Error> {
        let Some(node) = node else { return Ok(Requeue::OnChange) };
        let uid = node.metadata().uid().to_owned();
        if *self.labelled.lock().unwrap_or_else(PoisonError::into_inner) == uid {
            return Ok(Requeue::OnChange);
        }
        if node.metadata().labels().get(LABEL).is_none() {
            let mut patch = Value::object();
            patch["metadata"]["labels"][LABEL] = "".into();
            patch["metadata"]["uid"] = uid.as_str().into(); // not on a recreated node of the same name
            match self.nodes.patch(key, &Patch::Merge(patch)).await {
                Err(error) if error.is_not_found() || error.is_conflict() => {
                    return Ok(Requeue::OnChange);
                }
                done => drop(done?),
            }
        }
        *self.labelled.lock().unwrap_or_else(PoisonError::into_inner) = uid;
        Ok(Requeue::OnChange)
    }
}
