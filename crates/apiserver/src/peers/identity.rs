//! Identity leases of API servers in kube-system: one for each, with a name that stays the same
//! over restarts.

use object::{MicroTime, Object, Status, Value, View, from_json};
use ring::digest::{SHA256, digest};
use server::{DeleteRequest, ListOptions, Registry, Selection};

use crate::bootstrap::internal_context;

const GROUP: &str = "coordination.k8s.io";
const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
/// Lease duration in seconds, after which a server that has not renewed counts as gone.
const LASTS: i64 = 3600;

/// The identity of an API server: its host, the name of its Lease, and the holder of this run.
#[derive(Clone, Debug)]
pub(crate) struct ServerIdentity {
    host: String,
    name: String,
    holder: String,
}

impl ServerIdentity {
    /// The identity of the server on this host; `more` distinguishes several servers on one host.
    pub(crate) fn new(host: &str, more: &str) -> Self {
        let name = format!("apiserver-{}", hash(&format!("{host}{more}")));
        let holder = format!("{name}_{}", server::uid());
        Self { host: host.to_owned(), name, holder }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates or renews the Lease.
    pub(super) async fn renew(&self, registry: &Registry) -> Result<(), Status> {
        let kind = registry.kind(GROUP, "leases")?;
        let now = MicroTime::format(registry.clock().now_micros());
        let mut spec = Value::object();
        spec["holderIdentity"] = self.holder.as_str().into();
        spec["leaseDurationSeconds"] = LASTS.into();
        spec["renewTime"] = now.into();
        let call = &mut internal_context();
        if registry.get(&kind, NAMESPACE, &self.name).is_ok() {
            let change = |old: &store::Version<Value>| {
                let mut lease = old.object.clone();
                lease["spec"] = spec.clone();
                Ok(lease)
            };
            let key = (NAMESPACE, self.name.as_str());
            return registry.guaranteed_update(call, &kind, key, "", change).await.map(drop);
        }
        let mut lease = from_json(
            br#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system"}}"#,
        )
        .expect("written here");
        lease["metadata"]["name"] = self.name.as_str().into();
        lease["metadata"]["labels"][LABEL] = "kube-apiserver".into();
        lease["metadata"]["labels"]["kubernetes.io/hostname"] = self.host.as_str().into();
        lease["spec"] = spec;
        registry.create(call, &kind, NAMESPACE, lease).await.map(drop)
    }

    /// Deletes the expired Leases of API servers.
    pub(super) async fn delete_expired(&self, registry: &Registry) -> Result<(), Status> {
        let kind = registry.kind(GROUP, "leases")?;
        let list =
            registry.list(&kind, &Selection::namespace(NAMESPACE), &ListOptions::default())?;
        for version in &list.items {
            let meta = Object::view(&version.object).metadata();
            let ours = meta.labels().get(LABEL) == Some("kube-apiserver");
            if ours && is_over(version.object.get("spec"), registry.clock().now_micros()) {
                let key = (NAMESPACE, meta.name());
                let gone = registry
                    .delete(&mut internal_context(), &kind, key, &DeleteRequest::default())
                    .await;
                match gone {
                    Err(status) if status.code() != 404 => return Err(status),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn is_over(spec: &Value, now: i64) -> bool {
    let renewed = spec.get("renewTime").as_str().and_then(MicroTime::parse_micros);
    let lasts = spec.get("leaseDurationSeconds").as_i64().unwrap_or_default();
    renewed.is_none_or(|renewed| renewed + lasts * 1_000_000 < now)
}

/// Upstream's hash of the host name and the component.
fn hash(host: &str) -> String {
    let mut data = Vec::new();
    for part in [host, "kube-apiserver"] {
        data.extend(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        data.extend(part.as_bytes());
    }
    base32(&digest(&SHA256, &data).as_ref()[..16])
}

/// Base32 of RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut text, mut bits, mut count) = (String::new(), 0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(LETTERS[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(char::from(LETTERS[(bits << (5 - count) & 31) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_name_that_upstream_gives_it() {
        assert_eq!(ServerIdentity::new("vm", "").name, "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
    }

    #[test]
    fn a_server_is_forgotten_after_an_hour() {
        let mut spec = Value::object();
        spec["renewTime"] = MicroTime::format(0).into();
        spec["leaseDurationSeconds"] = LASTS.into();
        assert!(!is_over(&spec, 3_599_000_000));
        assert!(is_over(&spec, 3_601_000_000));
        assert!(is_over(&Value::object(), 0));
    }
}
