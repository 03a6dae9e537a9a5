//! Volume expand controller. No in-tree plugin can expand volumes here, so claims that request more
//! than their volume has are left to an external controller, and an event says so.

use api::core::{PersistentVolume, PersistentVolumeClaim};
use client::Error;
use object::{Lens, NamespacedName, Quantity, Value};
use runtime::{CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue};

use crate::Config;

pub(crate) fn start(cx: &Context, _: &Config) {
    let expander = Expander {
        volumes: cx.cached_api(),
        events: EventRecorder::start(cx, "volume_expand", ""),
    };
    Controller::new("volume-expander", cx, expander).queue_named("volume_expand").start();
}

/// Reconciler of claims that request an expansion.
#[derive(Debug)]
struct Expander {
    volumes: CachedApi<PersistentVolume>,
    events: EventRecorder,
}

impl Reconcile for Expander {
    type Kind = PersistentVolumeClaim;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        claim: Option<PersistentVolumeClaim>,
    ) -> Result<Requeue, Error> {
        let Some(claim) = claim.filter(wants_more) else { return Ok(Requeue::OnChange) };
        if self.volumes.get(&NamespacedName::new("", claim.spec().volume_name())).is_none() {
            return Ok(Requeue::OnChange);
        }
        let said = "Ignoring the PVC: didn't find a plugin capable of expanding the volume; \
                    waiting for an external controller to process this PVC.";
        self.events.normal(&claim, "ExternalExpanding", said);
        Ok(Requeue::OnChange)
    }
}

/// Whether a bound claim requests more than its capacity.
fn wants_more(claim: &PersistentVolumeClaim) -> bool {
    let tree = claim.tree();
    let size =
        |of: &Value| of.get("storage").as_str().and_then(|text| text.parse::<Quantity>().ok());
    let wanted = size(tree.get("spec").get("resources").get("requests"));
    let has = size(tree.get("status").get("capacity"));
    let bound = tree.get("status").get("phase").as_str() == Some("Bound");
    bound && matches!((wanted, has), (Some(wanted), Some(has)) if wanted > has)
}

#[test]
fn only_bound_claims_grow() {
    let of = |phase: &str, wanted: &str| {
        let text = format!(
            r#"{{"spec":{{"resources":{{"requests":{{"storage":"{wanted}"}}}}}},
            "status":{{"phase":"{phase}","capacity":{{"storage":"1Gi"}}}}}}"#
        );
        wants_more(&PersistentVolumeClaim::from(object::from_json(text.as_bytes()).unwrap()))
    };
    assert!(of("Bound", "2Gi"));
    assert!(!of("Bound", "1024Mi") && !of("Pending", "2Gi"));
}
