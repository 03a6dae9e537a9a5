//! NodeRestriction of TokenRequest: a kubelet gets tokens of its own pods, with the audiences that
//! the pods' volumes request.

use api::authentication::TokenRequest;
use object::{Status, Value, View, quote::quote};

use super::{super::aggregate, KubeletRequest, uid};

/// In-tree volume types that have been migrated to CSI, and their drivers.
const MOVED: &[(&str, &str)] = &[
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl KubeletRequest<'_> {
    /// Checks a TokenRequest: it must be bound to a pod of this node, by name and uid.
    pub(super) async fn token(&self) -> Result<(), Status> {
        let spec = TokenRequest::view(&self.admission.object).spec();
        let bound = spec.bound_object_ref().filter(|own| {
            (own.api_version(), own.kind()) == ("v1", "Pod") && !own.name().is_empty()
        });
        let Some(bound) = bound else {
            return self.refuse("node requested token not bound to a pod");
        };
        if bound.uid().is_empty() {
            return self.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.get("pod", &self.admission.namespace, bound.name())?;
        if bound.uid() != uid(&pod.object) {
            return self.refuse(format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The \
                 object might have been deleted and then recreated",
                bound.uid()
            ));
        }
        let why = "node requested token bound to a pod scheduled on a different node";
        self.require_own_pod(&pod.object, why)?;
        if !self.plugin.gates.is_enabled("ServiceAccountNodeAudienceRestriction") {
            return Ok(());
        }
        let mut audiences = spec.audiences().iter();
        let audience = audiences.next().unwrap_or_default();
        if audiences.next().is_some() {
            return self.refuse("node may only request 0 or 1 audiences");
        }
        self.audience(&pod.object, audience).await
    }

    /// Checks the audience of a token: one that the pod's volumes request, or one that the node is
    /// authorized to request.
    async fn audience(&self, pod: &Value, audience: &str) -> Result<(), Status> {
        let quoted = quote(audience);
        match self.wants(pod, audience) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return self.refuse(format!("error validating audience {quoted}: {why}")),
        }
        let verb = "request-serviceaccounts-token-audience";
        if self.is_authorized(verb, audience, &self.admission.name).await {
            return Ok(());
        }
        let user = &self.admission.user.name;
        self.refuse(format!("{user} is not authorized to request tokens for audience {quoted}"))
    }

    /// Whether a projected volume of the pod, or the CSI driver of a volume, requests this
    /// audience.
    fn wants(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut errors: Vec<String> = Vec::new();
        for volume in pod.get("spec").get("volumes").items() {
            if projects(volume, audience) {
                return Ok(true);
            }
            let asks = self.driver(pod, volume).and_then(|driver| match driver.as_str() {
                "" => Ok(false),
                driver => Ok(asks(&self.get("csidriver", "", driver)?.object, audience)),
            });
            match asks {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => errors.push(why.message().to_owned()),
            }
        }
        aggregate(errors).map_or(Ok(false), Err)
    }

    /// The CSI driver that mounts a volume; empty if none does.
    fn driver(&self, pod: &Value, volume: &Value) -> Result<String, Status> {
        let text =
            |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
        let claim = volume.get("persistentVolumeClaim");
        let claim = if !volume.get("ephemeral").get("volumeClaimTemplate").is_null() {
            format!("{}-{}", text(pod.get("metadata"), "name"), text(volume, "name"))
        } else if !claim.is_null() {
            text(claim, "claimName")
        } else {
            return Ok(mounted_by(volume));
        };
        let claim = self.get("persistentvolumeclaim", &self.admission.namespace, &claim)?;
        let name = text(claim.object.get("spec"), "volumeName");
        let volume = self.get("persistentvolume", "", &name)?;
        Ok(mounted_by(volume.object.get("spec")))
    }
}

/// Whether a projected volume has a service account token for the audience.
fn projects(volume: &Value, audience: &str) -> bool {
    volume.get("projected").get("sources").items().iter().any(|source| {
        let token = source.get("serviceAccountToken");
        !token.is_null() && token.get("audience").as_str().unwrap_or_default() == audience
    })
}

/// Whether the `tokenRequests` of a CSIDriver contain the audience.
fn asks(driver: &Value, audience: &str) -> bool {
    let requests = driver.get("spec").get("tokenRequests").items().iter();
    requests.map(|own| own.get("audience").as_str().unwrap_or_default()).any(|own| own == audience)
}

/// The CSI driver that a volume names, or that its in-tree type was migrated to; empty if none.
fn mounted_by(volume: &Value) -> String {
    let moved = || MOVED.iter().find(|(kind, _)| !volume.get(kind).is_null());
    match volume.get("csi").get("driver").as_str() {
        Some(driver) => driver.to_owned(),
        None => moved().map_or_else(String::new, |(_, driver)| (*driver).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Value {
        object::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn volumes_say_whom_tokens_are_for() {
        let volume = tree(
            r#"{"projected":{"sources":[{"configMap":{}},{"serviceAccountToken":{"audience":"vault"}}]}}"#,
        );
        assert!(projects(&volume, "vault") && !projects(&volume, ""));
        let volume = tree(r#"{"projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}"#);
        assert!(projects(&volume, "") && !projects(&volume, "vault"));
        assert!(!projects(&tree(r#"{"projected":{"sources":[{"configMap":{}}]}}"#), ""));
    }

    #[test]
    fn drivers_say_whom_tokens_are_for() {
        let driver = tree(r#"{"spec":{"tokenRequests":[{"audience":"a"},{"audience":""}]}}"#);
        assert!(asks(&driver, "a") && asks(&driver, "") && !asks(&driver, "b"));
        assert_eq!(mounted_by(&tree(r#"{"csi":{"driver":"d"}}"#)), "d");
        assert_eq!(mounted_by(&tree(r#"{"cinder":{"volumeID":"d"}}"#)), "cinder.csi.openstack.org");
        assert_eq!(mounted_by(&tree(r#"{"emptyDir":{}}"#)), "");
    }
}
