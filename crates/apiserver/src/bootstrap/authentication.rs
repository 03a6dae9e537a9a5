//! The ConfigMap `extension-apiserver-authentication`, from which extension API servers learn the
//! CAs and header names that this server trusts. It is merged with the data of other API servers,
//! since any of them may proxy a request.

use object::{Status, Value, from_json, to_json};
use server::Registry;
use tracing::warn;

use super::{create_if_missing, internal_context};
use crate::Flags;

const MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// Entries that contain certificates; all others are lists of names.
const CERTIFICATES: [&str; 2] = ["client-ca-file", "requestheader-client-ca-file"];

/// The CA bundles that this server trusts, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct CaBundles {
    pub(crate) clients: String,
    pub(crate) proxies: String,
}

/// Publishes the CAs and header names that this server trusts.
pub(crate) async fn publish_ca_bundles(
    registry: &Registry,
    flags: &Flags,
    authorities: &CaBundles,
) -> Result<(), Status> {
    let (own, now) = (own(flags, authorities), registry.clock().now());
    let mut map = Value::object();
    map["apiVersion"] = "v1".into();
    map["kind"] = "ConfigMap".into();
    (map["metadata"]["namespace"], map["metadata"]["name"]) = (MAP.0.into(), MAP.1.into());
    map["data"] = own.clone();
    let served = registry.kind("", "configmaps")?;
    let Ok(old) = registry.get(&served, MAP.0, MAP.1) else {
        return create_if_missing(registry, map).await;
    };
    if combined(old.object.get("data"), &own, now) == *old.object.get("data") {
        return Ok(());
    }
    let change = |old: &store::Version<Value>| {
        let mut new = old.object.clone();
        new["data"] = combined(old.object.get("data"), &own, now);
        Ok(new)
    };
    match registry.guaranteed_update(&mut internal_context(), &served, MAP, "", change).await {
        // Merged with the data of other servers it is too large. The running ones will add their
        // data again.
        Err(status) if matches!(status.code(), 413 | 422) => {
            warn!(
                message = status.message(),
                "extension-apiserver-authentication is too large; writing only the data of this server"
            );
            let anew = |old: &store::Version<Value>| {
                let mut new = old.object.clone();
                new["data"] = own.clone();
                Ok(new)
            };
            registry
                .guaranteed_update(&mut internal_context(), &served, MAP, "", anew)
                .await
                .map(drop)
        }
        done => done.map(drop),
    }
}

/// The data of this server alone.
fn own(flags: &Flags, authorities: &CaBundles) -> Value {
    let mut data = Value::object();
    data["client-ca-file"] = authorities.clients.as_str().into();
    data["requestheader-client-ca-file"] = authorities.proxies.as_str().into();
    let proxy = ["front-proxy-client".to_owned()];
    let given = flags.requestheader_client_ca_file.is_some();
    let allowed = if given { &*flags.requestheader_allowed_names } else { &proxy };
    for (name, values) in [
        ("allowed-names", allowed),
        ("username-headers", &flags.requestheader_username_headers),
        ("uid-headers", &flags.requestheader_uid_headers),
        ("group-headers", &flags.requestheader_group_headers),
        ("extra-headers-prefix", &flags.requestheader_extra_headers_prefix),
    ] {
        data[format!("requestheader-{name}").as_str()] =
            written(&values.iter().map(String::as_str).collect());
    }
    data
}

/// Merges the existing data and this server's own without duplicates; drops expired certificates.
fn combined(there: &Value, own: &Value, now: i64) -> Value {
    let mut data = own.clone();
    let text = |data: &Value, name: &str| data.get(name).as_str().unwrap_or_default().to_owned();
    for (name, _) in own.entries() {
        let (old, new) = (text(there, name), text(own, name));
        data[name] = if CERTIFICATES.contains(&name) {
            let both = pki::unexpired_certificates(format!("{old}\n{new}").as_bytes(), now);
            both.unwrap_or(new).into()
        } else {
            let mut both = listed(&old);
            let new = listed(&new).into_iter();
            let new: Vec<_> = new.filter(|one| !both.contains(one)).collect();
            both.extend(new);
            written(&both.iter().map(String::as_str).collect())
        };
    }
    data
}

fn listed(text: &str) -> Vec<String> {
    let list = from_json(text.as_bytes()).unwrap_or_default();
    list.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn written(list: &Value) -> Value {
    String::from_utf8_lossy(&to_json(list)).into_owned().into()
}

#[cfg(test)]
mod tests {
    use pki::CertificateAuthority;

    use super::*;

    #[test]
    fn what_others_said_stays() {
        let now = 1_794_787_200;
        let pem = |at| CertificateAuthority::create("ca", at).expect("a key").certificate_pem();
        let (old, ours, ended) = (pem(now), pem(now), pem(now - 100 * 365 * 86_400));
        let data = |pem: &str, names: &str| {
            let mut data = Value::object();
            data["client-ca-file"] = pem.into();
            data["requestheader-allowed-names"] = names.into();
            data
        };
        let there = data(&format!("{old}{ended}"), r#"["a","b"]"#);
        let both = combined(&there, &data(&ours, r#"["b","c"]"#), now);
        assert_eq!(both, data(&format!("{old}{ours}"), r#"["a","b","c"]"#));
        assert_eq!(combined(&both, &data(&ours, r#"["c"]"#), now), both, "nothing new");
        let broken = data("?", "{");
        assert_eq!(combined(&broken, &data(&ours, "[]"), now), data(&ours, "[]"));
    }
}
