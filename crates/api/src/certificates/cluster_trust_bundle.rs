//! certificates/v1 and v1beta1: ClusterTrustBundle.

use std::collections::BTreeMap;

use macros::api;
use object::{Lens, ObjectMeta};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, SelectableField, StorageConfig, TableColumn,
    ValidateName, name_validation::dns_subdomain,
};

use super::pem;
use crate::{columns, core::volume::projected::check_signer};

/// Certificates that pods may trust.
#[api]
pub struct ClusterTrustBundle {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The certificates, and whose they are.
    spec: Must<ClusterTrustBundleSpec>,
}

#[api]
pub struct ClusterTrustBundleSpec {
    /// The signer that the certificates belong to, if any. It never changes.
    signer_name: String,
    /// The certificates, as PEM.
    trust_bundle: Must<String>,
}

impl Kind for ClusterTrustBundle {
    const NAMES: ResourceNames = ResourceNames::new(
        "certificates.k8s.io",
        "v1",
        "ClusterTrustBundle",
        "clustertrustbundles",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["certificates.k8s.io/v1alpha1", "certificates.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = StorageConfig::new("clustertrustbundles", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const GATE: Option<&str> = Some("ClusterTrustBundle");
    const NAME: ValidateName = |_, _| Vec::new(); // it depends on the signer
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("SignerName", |bundle, _| {
            columns::text_or_none(bundle.spec().signer_name())
        }),
    ];
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::with_watch_topic("spec.signerName", |bundle| {
            bundle.spec().signer_name().into()
        })];

    fn validate(&self, errs: &mut ErrorList) {
        self.check_names(errs);
        self.check_signer(errs);
        self.spec().check_anchors(errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check_names(errs);
        self.check_signer(errs);
        if self.spec().trust_bundle() != old.spec().trust_bundle() {
            self.spec().check_anchors(errs);
        }
        let signer = |this: &Self| this.spec().tree().get("signerName").clone();
        if signer(self) != signer(old) {
            let bad = self.spec().signer_name();
            errs.invalid(&FieldPath::SPEC.field("signerName"), bad, "field is immutable");
        }
    }
}

const MAX_SIZE: usize = 1024 * 1024;
const OMITTED: &str = "<value omitted>";

impl ClusterTrustBundle {
    fn check_names(&self, errs: &mut ErrorList) {
        let signer = self.spec().signer_name();
        let meta = self.metadata();
        if !meta.generate_name().is_empty() {
            let wrong = wrong_name(meta.generate_name(), signer, true);
            errs.invalid_each(
                &FieldPath::METADATA.field("generateName"),
                meta.generate_name(),
                wrong,
            );
        }
        if !meta.name().is_empty() {
            let wrong = wrong_name(meta.name(), signer, false);
            errs.invalid_each(&FieldPath::METADATA.field("name"), meta.name(), wrong);
        }
    }

    fn check_signer(&self, errs: &mut ErrorList) {
        if !self.spec().signer_name().is_empty() {
            check_signer(&FieldPath::SPEC.field("signerName"), self.spec().signer_name(), errs);
        }
    }
}

fn wrong_name(name: &str, signer: &str, prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec![
                "ClusterTrustBundle without signer name must not have \":\" in its name".to_owned(),
            ],
            false => dns_subdomain(name, prefix),
        };
    }
    let start = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&start) {
        Some(rest) => dns_subdomain(rest, prefix),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {start}"
        )],
    }
}

impl ClusterTrustBundleSpec {
    fn check_anchors(&self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("trustBundle");
        if self.trust_bundle().len() > MAX_SIZE {
            return errs.too_long(&at, MAX_SIZE);
        }
        let count = errs.0.len();
        let mut anchors: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
        for (i, block) in pem::blocks(self.trust_bundle()).enumerate() {
            match wrong_anchor(&block) {
                Some(why) => errs.invalid(&at, OMITTED, format!("entry {i} {why}")),
                None => anchors.entry(block.content).or_default().push(i.to_string()),
            }
        }
        if errs.0.len() > count {
            return;
        }
        if anchors.is_empty() {
            errs.invalid(&at, OMITTED, "at least one trust anchor must be provided");
        }
        for places in anchors.values().filter(|places| places.len() > 1) {
            let why = format!("duplicate trust anchor (indices [{}])", places.join(" "));
            errs.invalid(&at, OMITTED, why);
        }
    }
}

fn wrong_anchor(block: &pem::Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    } else if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match x509_parser::parse_x509_certificate(&block.content) {
        Ok((_, certificate)) if certificate.is_ca() => None,
        Ok(_) => Some("does not have the CA bit set".to_owned()),
        Err(_) => Some("does not parse as X.509".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_the_signer() {
        assert!(wrong_name("example.com:s:x", "example.com/s", false).is_empty());
        assert!(wrong_name("x", "", false).is_empty());
        assert_eq!(wrong_name("a:b", "", false).len(), 1);
        assert_eq!(wrong_name("x", "example.com/s", false).len(), 1);
    }
}
