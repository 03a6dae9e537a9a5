//! Publishes the CA bundle of the API server as a ClusterTrustBundle, and deletes the bundles of
//! earlier CAs.

use std::fmt::Write;

use api::{certificates::ClusterTrustBundle, core::Namespace};
use client::Error;
use object::{Lens, NamespacedName, ObjectMeta};
use ring::digest::{SHA256, digest};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, metrics::Family};
use schema::Kind;

use crate::{
    Config,
    publisher_metrics::{PublisherMetrics, SYNC_SECONDS},
    service_account::ignore_race,
};

const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Namespace whose appearance triggers the first publication.
const NAMESPACE: &str = "kube-system";

const SYNCS: Family = Family::counter(
    "clustertrustbundle_publisher_sync_total",
    "[ALPHA] Number of syncs that occurred in cluster trust bundle publisher.",
    &["code"],
);
const SYNC_DURATION: Family = Family::histogram(
    "clustertrustbundle_publisher_sync_duration_seconds",
    "[ALPHA] The time it took to sync a cluster trust bundle.",
    &["code"],
    &SYNC_SECONDS,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    if config.root_ca.is_empty() {
        return;
    }
    let name = bundle_name(&config.root_ca);
    let own = NamespacedName::new("", &name);
    let publisher = Publisher {
        bundles: cx.cached_api(),
        own: own.clone(),
        root_ca: config.root_ca.clone(),
        metrics: PublisherMetrics::new(cx, SYNCS, SYNC_DURATION),
    };
    Controller::new("kube-apiserver-serving-clustertrustbundle-publisher", cx, publisher)
        .queue_named("ca_cert_publisher_cluster_trust_bundles")
        .watches::<Namespace>(move |namespace| match namespace.metadata().name() {
            NAMESPACE => vec![own.clone()],
            _ => Vec::new(),
        })
        .start();
}

/// Reconciler of the ClusterTrustBundles of the signer.
#[derive(Debug)]
struct Publisher {
    bundles: CachedApi<ClusterTrustBundle>,
    own: NamespacedName,
    root_ca: String,
    metrics: PublisherMetrics,
}

impl Reconcile for Publisher {
    type Kind = ClusterTrustBundle;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        bundle: Option<ClusterTrustBundle>,
    ) -> Result<Requeue, Error> {
        self.metrics.measure(self.publish(key, bundle)).await?;
        Ok(Requeue::OnChange)
    }
}

impl Publisher {
    async fn publish(
        &self,
        key: &NamespacedName,
        bundle: Option<ClusterTrustBundle>,
    ) -> Result<(), Error> {
        match bundle {
            None if *key == self.own => {
                let meta = ObjectMeta::new().with_name(&*key.name);
                let bundle = ClusterTrustBundle::new().with_metadata(meta);
                ignore_race(self.bundles.create(self.fill(&bundle)).await)?;
            }
            Some(bundle) if *key == self.own => {
                let filled = self.fill(&bundle);
                if filled != bundle {
                    let because = bundle.write_cause("the bundle has changed");
                    self.bundles.with_cause(&because).update(filled).await?;
                }
            }
            Some(bundle) if bundle.spec().signer_name() == SIGNER && !bundle.is_terminating() => {
                let because = bundle.write_cause("there are other certificates now");
                self.bundles.with_cause(&because).delete(&bundle).await?;
            }
            _ => {}
        }
        Ok(())
    }

    fn fill(&self, bundle: &ClusterTrustBundle) -> ClusterTrustBundle {
        let mut tree = bundle.tree().clone();
        tree["spec"]["signerName"] = SIGNER.into();
        tree["spec"]["trustBundle"] = self.root_ca.as_str().into();
        ClusterTrustBundle::from(tree)
    }
}

/// The bundle's name: the signer, and a hash of the content.
fn bundle_name(bundle: &str) -> String {
    let mut name = SIGNER.replace('/', ":");
    name.push(':');
    for byte in &digest(&SHA256, bundle.as_bytes()).as_ref()[..12] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[test]
fn a_bundle_is_named_after_what_is_in_it() {
    let name = bundle_name("a");
    assert_eq!(name, "kubernetes.io:kube-apiserver-serving:ca978112ca1bbdcafac231b3");
}
