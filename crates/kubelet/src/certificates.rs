//! Pod certificates: `podCertificate` sources of projected volumes. The kubelet generates a key, creates a
//! `PodCertificateRequest` that a signer of the cluster answers, and writes key and certificate chain into the volume.
//! A certificate is renewed before it expires and stays in use until its successor is issued.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use api::{
    certificates::{PodCertificateRequest, PodCertificateRequestSpec},
    core::{Pod, PodCertificateProjection, ServiceAccount},
};
use client::{Api, Client, Selectors, WatchEvent, WatchStart};
use object::{Bytes, NamespacedName, ObjectMeta, OwnerReference, Time};
use tokio::time::timeout;

/// How long one sync of a pod without a certificate waits for the signer.
const SIGNER_TIMEOUT: Duration = Duration::from_secs(10);
/// Renewals of certificates that were issued at the same moment are spread over this many seconds.
const RENEWAL_JITTER_SECONDS: i64 = 300;

/// Private key and certificate chain of a pod, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) key: String,
    pub(crate) chain: String,
    refresh_at: i64,
}

/// Identifies a certificate: the pod's uid, the volume, and the index of the source in the projected volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CertificateKey {
    pub(crate) pod: String,
    pub(crate) volume: String,
    pub(crate) source: usize,
}

/// What to request a certificate for: the pod, the projection and the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CertificateRequest<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) source: &'a PodCertificateProjection,
    /// The node's name and uid.
    pub(crate) node: (&'a str, &'a str),
}

/// The pod certificates of this node, and the requests for those that are not issued yet.
#[derive(Debug, Default)]
pub(crate) struct PodCertificates(Mutex<HashMap<CertificateKey, State>>);

/// State of one certificate slot.
#[derive(Clone, Default)]
struct State {
    issued: Option<Credentials>,
    pending: Option<PendingRequest>,
    /// The signer denied or failed the request: why no certificate will be issued.
    denied: Option<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("refused", &self.denied).finish_non_exhaustive()
    }
}

/// A `PodCertificateRequest` that the signer has not answered yet, and the private key it is for.
#[derive(Clone)]
struct PendingRequest {
    request: NamespacedName,
    key: String,
}

/// State of a `PodCertificateRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestState {
    Pending,
    Gone,
    Issued { chain: String, refresh_at: i64 },
    Refused(String),
}

impl PodCertificates {
    /// Returns the certificate of a slot; requests one if there is none or its renewal is due.
    pub(crate) async fn get(
        &self,
        client: &Client,
        slot: &CertificateKey,
        request: &CertificateRequest<'_>,
        now: i64,
    ) -> Result<Credentials, String> {
        let mut state = self.all().get(slot).cloned().unwrap_or_default();
        if let Some(why) = state.denied {
            return Err(why);
        }
        let pending = match (state.pending, &state.issued) {
            (Some(pending), _) => pending,
            (None, Some(issued)) if now < issued.refresh_at => return Ok(issued.clone()),
            (None, _) => request.submit(client).await?,
        };
        state.pending = Some(pending.clone());
        self.all().insert(slot.clone(), state.clone());
        let patience = if state.issued.is_some() { Duration::ZERO } else { SIGNER_TIMEOUT };
        let name = pending.request.name.clone();
        match wait_for_request(client, &pending.request, request.node.0, patience).await? {
            RequestState::Pending => {}
            RequestState::Gone => {
                state.pending = None;
                self.all().insert(slot.clone(), state);
                return Err(format!(
                    "PodCertificateRequest \"{name}\" appears to have been deleted"
                ));
            }
            RequestState::Refused(why) => state = State { denied: Some(why), ..State::default() },
            RequestState::Issued { chain, refresh_at } => {
                let chain = pki::dedup_certificates(chain.as_bytes()).map_err(said)?;
                let refresh_at = refresh_at + renewal_jitter(&slot.pod);
                let issued = Some(Credentials { key: pending.key, chain, refresh_at });
                state = State { issued, ..State::default() };
            }
        }
        self.all().insert(slot.clone(), state.clone());
        match (state.denied, state.issued) {
            (Some(why), _) => Err(why),
            (None, Some(issued)) => Ok(issued),
            (None, None) => Err(format!("PodCertificateRequest \"{name}\" is not issued yet")),
        }
    }

    /// Drops the certificates of a deleted pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.all().retain(|slot, _| slot.pod != uid);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<CertificateKey, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertificateRequest<'_> {
    async fn submit(&self, client: &Client) -> Result<PendingRequest, String> {
        let (meta, spec) = (self.pod.metadata(), self.pod.spec());
        let account = NamespacedName::new(meta.namespace(), spec.service_account_name());
        let account = Api::<ServiceAccount>::new(client).get(&account).await.map_err(said)?;
        let key = pki::PrivateKey::generate_named(self.source.key_type()).map_err(said)?;
        let stub = pki::CertificateRequest::stub_der(&key).map_err(said)?;
        let mut wanted = PodCertificateRequestSpec::new()
            .with_signer_name(self.source.signer_name())
            .with_pod_name(meta.name())
            .with_pod_uid(meta.uid())
            .with_service_account_name(account.metadata().name())
            .with_service_account_uid(account.metadata().uid())
            .with_node_name(self.node.0)
            .with_node_uid(self.node.1)
            .with_stub_pkcs10_request(Bytes::encode(&stub))
            .with_unverified_user_annotations(self.source.user_annotations().clone());
        if let Some(seconds) = self.source.max_expiration_seconds() {
            wanted.set_max_expiration_seconds(seconds);
        }
        let owner = OwnerReference::new()
            .with_api_version("v1")
            .with_kind("Pod")
            .with_name(meta.name())
            .with_uid(meta.uid());
        let named = ObjectMeta::new()
            .with_namespace(meta.namespace())
            .with_generate_name("req-")
            .with_owner_references([owner]);
        let request = PodCertificateRequest::new().with_metadata(named).with_spec(wanted);
        let request =
            Api::<PodCertificateRequest>::new(client).create(request).await.map_err(said)?;
        Ok(PendingRequest {
            request: NamespacedName::from_meta(request.metadata()),
            key: key.to_pem(),
        })
    }
}

/// Reads the state of a request; while it is pending, watches it for up to `patience`.
async fn wait_for_request(
    client: &Client,
    key: &NamespacedName,
    node: &str,
    patience: Duration,
) -> Result<RequestState, String> {
    let api = Api::<PodCertificateRequest>::new(client).namespaced(&key.namespace);
    let first = match api.get(key).await {
        Ok(request) => request_state(&request),
        Err(error) if error.is_not_found() => RequestState::Gone,
        Err(error) => return Err(error.to_string()),
    };
    if first != RequestState::Pending || patience.is_zero() {
        return Ok(first);
    }
    // the node authorizer permits this watch only with a field selector for the node's own objects
    let own = Selectors::fields(format!("metadata.name={},spec.nodeName={node}", key.name));
    let waiting = async {
        let mut watch = api.watch(&own, WatchStart::List).await.map_err(said)?;
        while let Some(notice) = watch.next().await.map_err(said)? {
            let now = match notice {
                WatchEvent::Added(request) | WatchEvent::Modified(request) => {
                    request_state(&request)
                }
                WatchEvent::Deleted(_) => RequestState::Gone,
                WatchEvent::Bookmark { .. } => RequestState::Pending,
            };
            if now != RequestState::Pending {
                return Ok(now);
            }
        }
        Ok(RequestState::Pending)
    };
    timeout(patience, waiting).await.unwrap_or(Ok(RequestState::Pending))
}

fn request_state(request: &PodCertificateRequest) -> RequestState {
    let status = request.status();
    for condition in status.conditions().iter() {
        let how = match condition.type_() {
            "Issued" => {
                let chain = status.certificate_chain().to_owned();
                let refresh_at =
                    status.begin_refresh_at().map_or(0, |at| Time::parse_seconds(at).unwrap_or(0));
                return RequestState::Issued { chain, refresh_at };
            }
            "Denied" => "denied",
            "Failed" => "failed",
            _ => continue,
        };
        return RequestState::Refused(format!(
            "PodCertificateRequest was permanently {how}: reason={:?} message={:?}",
            condition.reason(),
            condition.message()
        ));
    }
    RequestState::Pending
}

/// Number of seconds to delay the renewal by, derived from the pod's uid.
fn renewal_jitter(uid: &str) -> i64 {
    uid.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % RENEWAL_JITTER_SECONDS)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    fn request(status: &str) -> PodCertificateRequest {
        from_json(format!(r#"{{"status":{status}}}"#).as_bytes())
            .expect("the test writes JSON")
            .into()
    }

    #[test]
    fn a_request_is_pending_until_somebody_decides() {
        assert_eq!(request_state(&request("{}")), RequestState::Pending);
        let issued = request(
            r#"{"conditions":[{"type":"Issued","status":"True"}],"certificateChain":"c",
            "beginRefreshAt":"1970-01-01T00:01:00Z"}"#,
        );
        let wanted = RequestState::Issued { chain: "c".into(), refresh_at: 60 };
        assert_eq!(request_state(&issued), wanted);
        let denied = request(
            r#"{"conditions":[{"type":"Denied","status":"True","reason":"No","message":"never"}]}"#,
        );
        let RequestState::Refused(why) = request_state(&denied) else { panic!("it was denied") };
        assert_eq!(
            why,
            "PodCertificateRequest was permanently denied: reason=\"No\" message=\"never\""
        );
    }

    #[test]
    fn renewals_are_spread() {
        assert_ne!(renewal_jitter("11111111-2222"), renewal_jitter("11111111-2223"));
        assert!(
            (0..RENEWAL_JITTER_SECONDS)
                .contains(&renewal_jitter("ffffffff-ffff-ffff-ffff-ffffffffffff"))
        );
    }
}
