//! The TaintNodesByCondition admission plugin: taints a new node as not ready, so that no pod is
//! scheduled to it before it is.

use api::core::{Node, Taint};
use object::View;
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        if admission.is_resource("", "nodes") && admission.operation == Operation::Create {
            let is = |taint: &Taint| taint.key() == NOT_READY && taint.effect() == "NoSchedule";
            if Node::view(&admission.object).spec().taints().find(is).is_none() {
                let taint = Taint::new().with_key(NOT_READY).with_effect("NoSchedule");
                let node = Node::ref_cast_mut(&mut admission.object);
                node.spec_mut().taints_mut().push(taint);
            }
        }
        Box::pin(async { Ok(()) })
    }
}
