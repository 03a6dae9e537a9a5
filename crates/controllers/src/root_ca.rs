//! Root CA publisher: writes the ConfigMap `kube-root-ca.crt`, with which pods verify the API
//! server, into every namespace.

use api::core::{ConfigMap, Namespace};
use client::Error;
use object::{NamespacedName, ObjectMeta};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, metrics::Family};
use schema::Kind;

use crate::{
    Config,
    publisher_metrics::{PublisherMetrics, SYNC_SECONDS},
    service_account::ignore_race,
};

const NAME: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";
const NOTE: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
     endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
     guaranteed across distributions of Kubernetes clusters.",
);

const SYNCS: Family = Family::counter(
    "root_ca_cert_publisher_sync_total",
    "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
    &["code"],
);
const SYNC_DURATION: Family = Family::histogram(
    "root_ca_cert_publisher_sync_duration_seconds",
    "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
    &["code"],
    &SYNC_SECONDS,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    if config.root_ca.is_empty() {
        return;
    }
    let publisher = RootCa {
        maps: cx.cached_api(),
        root_ca: config.root_ca.clone(),
        metrics: PublisherMetrics::new(cx, SYNCS, SYNC_DURATION),
    };
    Controller::new("root-ca-certificate-publisher", cx, publisher)
        .queue_named("root_ca_cert_publisher")
        .watches::<ConfigMap>(|map| {
            let meta = map.metadata();
            let ours = (meta.name() == NAME).then(|| NamespacedName::new("", meta.namespace()));
            ours.into_iter().collect()
        })
        .start();
}

/// Reconciler of the ConfigMap in each namespace.
#[derive(Debug)]
struct RootCa {
    maps: CachedApi<ConfigMap>,
    root_ca: String,
    metrics: PublisherMetrics,
}

impl Reconcile for RootCa {
    type Kind = Namespace;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        namespace: Option<Namespace>,
    ) -> Result<Requeue, Error> {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_closing()) else {
            return Ok(Requeue::OnChange);
        };
        self.metrics.measure(self.publish(key, &namespace)).await?;
        Ok(Requeue::OnChange)
    }
}

impl RootCa {
    async fn publish(&self, key: &NamespacedName, namespace: &Namespace) -> Result<(), Error> {
        let maps =
            self.maps.with_cause(&namespace.write_cause("a namespace has the root certificates"));
        match self.maps.get(&NamespacedName::new(&key.name, NAME)) {
            None => {
                let meta = ObjectMeta::new().with_name(NAME).with_namespace(&*key.name);
                let map = self.fill(ConfigMap::new().with_metadata(meta));
                ignore_race(maps.create(map).await)?;
            }
            Some(map) if self.fill(map.clone()) != map => {
                maps.update(self.fill(map)).await?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn fill(&self, mut map: ConfigMap) -> ConfigMap {
        map.set_data([(FILE, &*self.root_ca)]);
        map.metadata_mut().annotations_mut().insert(NOTE.0, NOTE.1);
        map
    }
}
