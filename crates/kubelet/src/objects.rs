//! API objects that pods refer to: ConfigMaps, Secrets, service account tokens, certificates, trust bundles, claims and
//! runtime classes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use api::{
    certificates::ClusterTrustBundle,
    core::{
        ClusterTrustBundleProjection, ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod,
        Secret, ServiceAccount,
    },
    node::RuntimeClass,
};
use client::{Api, Client, Error, Selectors};
use object::{Bytes, Lens, NamespacedName, Time, Value, selector::Selector};

use crate::certificates::{CertificateKey, CertificateRequest, Credentials, PodCertificates};

pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// Percentage of a token's lifetime after which it is renewed.
const RENEW_PERCENT: i64 = 80;

/// Reads the API objects that pods refer to, and caches tokens and certificates.
#[derive(Debug)]
pub(crate) struct ApiReader {
    /// `None` without an API server.
    client: Option<Client>,
    tokens: Mutex<Tokens>,
    certificates: PodCertificates,
}

/// Token, and the time of day from and until which it is used, by pod uid, volume and path. A clock that was set back
/// behind the request of a token makes the API server reject it, as it does one that has expired.
type Tokens = HashMap<(String, String, String), (String, Range<i64>)>;

/// A `serviceAccountToken` source of a projected volume.
#[derive(Clone, Debug)]
pub(crate) struct TokenProjection<'a> {
    pub(crate) volume: &'a str,
    pub(crate) path: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) seconds: i64,
}

impl ApiReader {
    pub(crate) fn new(client: Option<Client>) -> Self {
        Self { client, tokens: Mutex::default(), certificates: PodCertificates::default() }
    }

    /// The data of a ConfigMap; `None` if it does not exist.
    pub(crate) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Data>, String> {
        let found =
            Api::<ConfigMap>::new(self.client()?).get(&NamespacedName::new(namespace, name)).await;
        Ok(missing(found)?.map(|map| {
            let tree = map.tree();
            let plain = tree["data"].entries();
            let plain = plain.map(|(key, value)| (key.to_owned(), text(value).into_bytes()));
            plain.chain(binary(&tree["binaryData"])).collect()
        }))
    }

    pub(crate) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Data>, String> {
        let found =
            Api::<Secret>::new(self.client()?).get(&NamespacedName::new(namespace, name)).await;
        Ok(missing(found)?.map(|secret| binary(&secret.tree()["data"]).collect()))
    }

    /// A token of the pod's service account, bound to the pod; cached until its renewal is due.
    pub(crate) async fn token(
        &self,
        pod: &Pod,
        wanted: &TokenProjection<'_>,
        now: i64,
    ) -> Result<String, String> {
        let meta = pod.metadata();
        let id = (meta.uid().to_owned(), wanted.volume.to_owned(), wanted.path.to_owned());
        let known = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some((token, used)) = known
            && used.contains(&now)
        {
            return Ok(token);
        }
        let mut body = Value::object();
        (body["apiVersion"], body["kind"]) =
            ("authentication.k8s.io/v1".into(), "TokenRequest".into());
        let spec = &mut body["spec"];
        spec["audiences"] = match wanted.audience {
            "" => Value::from_iter(Vec::<Value>::new()),
            audience => [audience].into_iter().collect(),
        };
        spec["expirationSeconds"] = wanted.seconds.into();
        let bound = &mut spec["boundObjectRef"];
        (bound["apiVersion"], bound["kind"]) = ("v1".into(), "Pod".into());
        (bound["name"], bound["uid"]) = (meta.name().into(), meta.uid().into());
        let account = match pod.spec().service_account_name() {
            "" => "default",
            name => name,
        };
        let key = NamespacedName::new(meta.namespace(), account);
        let api = Api::<ServiceAccount>::new(self.client()?);
        let answer = api
            .create_subresource(&key, "token", &body)
            .await
            .map_err(|error| error.to_string())?;
        let token = text(&answer["status"]["token"]);
        if token.is_empty() {
            return Err(format!("the server gave no token for {key}"));
        }
        let expires = Time::parse_seconds(&text(&answer["status"]["expirationTimestamp"]));
        let lasts = expires.map_or(wanted.seconds, |expires| expires - now);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(
            id,
            (token.clone(), now..now.saturating_add(lasts.saturating_mul(RENEW_PERCENT) / 100)),
        );
        Ok(token)
    }

    /// The pod's certificate and private key for a `podCertificate` source.
    pub(crate) async fn certificate(
        &self,
        slot: &CertificateKey,
        request: &CertificateRequest<'_>,
        now: i64,
    ) -> Result<Credentials, String> {
        self.certificates.get(self.client()?, slot, request, now).await
    }

    /// CA certificates as PEM: of one ClusterTrustBundle, or of all bundles of a signer that match the label selector.
    pub(crate) async fn trust_bundle(
        &self,
        source: &ClusterTrustBundleProjection,
    ) -> Result<String, String> {
        let api = Api::<ClusterTrustBundle>::new(self.client()?);
        let bundles = if let Some(name) = source.name() {
            match api.get(&NamespacedName::new("", name)).await {
                Err(error) if error.is_not_found() && source.optional() == Some(true) => Vec::new(),
                found => vec![found.map_err(|error| error.to_string())?],
            }
        } else {
            let signer = source.signer_name().unwrap_or_default();
            let selection = Selectors::fields(format!("spec.signerName={signer}"));
            let labels = Selector::from_label_selector(source.tree().get("labelSelector"))
                .map_err(|error| error.to_string())?;
            let all = api.list_all(&selection).await.map_err(|error| error.to_string())?;
            let mut all = all.items;
            all.retain(|bundle| labels.matches(bundle.metadata().labels()));
            if all.is_empty() && source.optional() != Some(true) {
                let none = "combination of signerName and labelSelector matched zero \
                            ClusterTrustBundles";
                return Err(none.to_owned());
            }
            all
        };
        let pem: String =
            bundles.iter().flat_map(|one| [one.spec().trust_bundle(), "\n"]).collect();
        if pem.trim().is_empty() {
            return Ok(String::new());
        }
        pki::dedup_certificates(pem.as_bytes()).map_err(|error| error.to_string())
    }

    /// Drops the cached tokens and certificates of a deleted pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.certificates.forget(uid);
        self.tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(pod, ..), _| pod != uid);
    }

    /// The PersistentVolume that a claim is bound to.
    pub(crate) async fn bound_volume(
        &self,
        namespace: &str,
        claim: &str,
    ) -> Result<PersistentVolume, String> {
        let client = self.client()?;
        let key = NamespacedName::new(namespace, claim);
        let claim = Api::<PersistentVolumeClaim>::new(client).get(&key).await;
        let claim = missing(claim)?
            .ok_or_else(|| format!("persistentvolumeclaim \"{}\" not found", key.name))?;
        let name = claim.spec().volume_name();
        if name.is_empty() || claim.status().phase() != "Bound" {
            return Err(format!("PersistentVolumeClaim {} is not bound", key.name));
        }
        let volume = Api::<PersistentVolume>::new(client).get(&NamespacedName::new("", name)).await;
        missing(volume)?.ok_or_else(|| format!("persistentvolume \"{name}\" not found"))
    }

    /// The CRI runtime handler of a RuntimeClass.
    pub(crate) async fn runtime_handler(&self, class: &str) -> Result<String, String> {
        let found =
            Api::<RuntimeClass>::new(self.client()?).get(&NamespacedName::new("", class)).await;
        let found = missing(found)?.ok_or_else(|| format!("RuntimeClass \"{class}\" not found"))?;
        Ok(found.handler().to_owned())
    }

    fn client(&self) -> Result<&Client, String> {
        self.client.as_ref().ok_or_else(|| "this kubelet has no API server".to_owned())
    }
}

fn missing<T>(found: Result<T, Error>) -> Result<Option<T>, String> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn binary(data: &Value) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    data.entries().map(|(key, value)| {
        (key.to_owned(), Bytes::decode(value.as_str().unwrap_or_default()).unwrap_or_default())
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
