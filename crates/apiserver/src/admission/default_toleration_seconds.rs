//! The DefaultTolerationSeconds admission plugin: pods tolerate the taints of a not-ready or
//! unreachable node for a limited time, by default 300 seconds.

use api::core::{Pod, Toleration};
use object::View;
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The toleration seconds for each of `TAINTS`.
#[derive(Debug)]
pub(super) struct DefaultTolerationSeconds(pub(super) [i64; 2]);

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        if admission.is_resource("", "pods") && admission.operation != Operation::Delete {
            tolerate(&mut admission.object, self.0);
        }
        Box::pin(async { Ok(()) })
    }
}

fn tolerate(pod: &mut object::Value, seconds: [i64; 2]) {
    for (taint, seconds) in TAINTS.into_iter().zip(seconds) {
        let tolerations = Pod::view(pod).spec().tolerations();
        let tolerated = tolerations.iter().any(|own| {
            (own.key() == taint || own.key().is_empty())
                && (own.effect() == "NoExecute" || own.effect().is_empty())
        });
        if !tolerated {
            let toleration = Toleration::new()
                .with_key(taint)
                .with_operator("Exists")
                .with_effect("NoExecute")
                .with_toleration_seconds(seconds);
            Pod::ref_cast_mut(pod).spec_mut().tolerations_mut().push(toleration);
        }
    }
}
