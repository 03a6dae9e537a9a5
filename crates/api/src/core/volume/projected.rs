//! The rules for a volume that shows several things in one place.

use std::collections::BTreeSet;

use object::{List, Map, names};
use schema::{ErrorList, FieldPath};

use super::{
    ClusterTrustBundleProjection, KeyToPath, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};
use crate::{rules::ValidateField, shown::format_go};

const KEY_TYPES: [&str; 6] =
    ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// How long a certificate may last: 91 days, of Kubernetes' own signers one day.
const MAX_SECONDS: i32 = 91 * 86_400;
const MAX_KUBERNETES_SECONDS: i32 = 86_400;

pub(super) fn check(volume: &ProjectedVolumeSource, at: &FieldPath, errs: &mut ErrorList) {
    errs.file_mode(&at.field("defaultMode"), Some(volume.default_mode()));
    errs.user_or_group_id(&at.field("defaultUser"), volume.default_user());
    let mut paths = Paths { seen: BTreeSet::new(), at };
    at.field("sources")
        .for_each_item(volume.sources().iter(), |it, at| paths.check_source(it, at, errs));
}

/// No two files have the same path.
struct Paths<'a> {
    seen: BTreeSet<String>,
    at: &'a FieldPath<'a>,
}

impl Paths<'_> {
    fn take(&mut self, path: &str, shown: &str, errs: &mut ErrorList) {
        if !self.seen.insert(path.to_owned()) {
            errs.invalid(self.at, shown, "conflicting duplicate paths");
        }
    }

    fn check_source(&mut self, source: &VolumeProjection, at: &FieldPath, errs: &mut ErrorList) {
        let mut count = 0;
        if let Some(secret) = source.secret() {
            count += 1;
            let name = secret.local_object_reference().name();
            self.check_items(name, secret.items(), &at.field("secret"), errs);
        }
        if let Some(map) = source.config_map() {
            count += 1;
            let name = map.local_object_reference().name();
            self.check_items(name, map.items(), &at.field("configMap"), errs);
        }
        if let Some(downward) = source.downward_api() {
            count += 1;
            for file in downward.items().iter() {
                file.check(&at.field("downwardAPI"), errs);
                if !file.path().is_empty() {
                    self.take(file.path(), file.path(), errs);
                }
            }
        }
        if let Some(token) = source.service_account_token() {
            count += 1;
            check_token(token, self.at, &at.field("serviceAccountToken"), errs);
        }
        if let Some(bundle) = source.cluster_trust_bundle() {
            count += 1;
            check_bundle(bundle, &at.field("clusterTrustBundle"), errs);
            self.take(bundle.path(), bundle.path(), errs);
        }
        if let Some(certificate) = source.pod_certificate() {
            count += 1;
            self.check_certificate(certificate, &at.field("podCertificate"), errs);
        }
        if count > 1 {
            errs.forbidden(at, "may not specify more than 1 volume type per source");
        }
    }

    fn check_items(
        &mut self,
        name: &str,
        items: &List<KeyToPath>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        errs.required_field(at, "name", name);
        for (i, item) in items.iter().enumerate() {
            item.check(&at.field("items").index(i), errs);
            if !item.path().is_empty() {
                self.take(item.path(), name, errs);
            }
        }
    }

    fn check_certificate(
        &mut self,
        it: &PodCertificateProjection,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        check_signer(&at.field("signerName"), it.signer_name(), errs);
        errs.user_or_group_id(&at.field("user"), it.user());
        check_user_annotations(it.user_annotations(), &at.field("userAnnotations"), errs);
        errs.one_of(&at.field("keyType"), it.key_type(), &KEY_TYPES);
        let own = it.signer_name().split('/').next().unwrap_or_default();
        let own = own == "kubernetes.io" || own.ends_with(".kubernetes.io");
        let most = if own { MAX_KUBERNETES_SECONDS } else { MAX_SECONDS };
        if let Some(seconds) = it.max_expiration_seconds() {
            let at = at.field("maxExpirationSeconds");
            if seconds < 3600 {
                errs.invalid(&at, seconds, "if provided, maxExpirationSeconds must be >= 3600");
            }
            if seconds > most {
                let why = format!("if provided, maxExpirationSeconds must be <= {most}");
                errs.invalid(&at, seconds, why);
            }
        }
        let files = [
            ("credentialBundlePath", it.credential_bundle_path()),
            ("keyPath", it.key_path()),
            ("certificateChainPath", it.certificate_chain_path()),
        ];
        for (name, path) in files.iter().filter(|(_, path)| !path.is_empty()) {
            errs.local_non_reserved_path(&at.field(name), path);
            self.take(path, path, errs);
        }
        if files.iter().all(|(_, path)| path.is_empty()) {
            let why = "specify at least one of credentialBundlePath, keyPath, and \
                       certificateChainPath";
            errs.required(at, why);
        }
    }
}

/// What a pod tells a signer, which is for the signer to read.
pub(crate) fn check_user_annotations(given: &Map<String>, at: &FieldPath, errs: &mut ErrorList) {
    let mut size = 0;
    for (name, value) in given.iter() {
        size += name.len() + value.len();
        let name = name.to_lowercase();
        if name.is_empty() {
            errs.required(at, "");
            continue;
        }
        let wrong = names::qualified_name(&name);
        let fits = wrong.is_empty();
        errs.invalid_each(at, &name, wrong);
        if fits && !name.contains('/') {
            errs.invalid(at, name, "must be a domain-prefixed key (such as \"acme.io/foo\")");
        }
    }
    if size > MAX_ANNOTATIONS {
        errs.too_long(at, MAX_ANNOTATIONS);
    }
}

fn check_token(
    token: &ServiceAccountTokenProjection,
    volume: &FieldPath,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let (seconds, at_seconds) = (token.expiration_seconds(), at.field("expirationSeconds"));
    if seconds < 600 {
        errs.invalid(&at_seconds, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errs.invalid(&at_seconds, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    errs.required_field(volume, "path", token.path());
    if !token.path().is_empty() {
        errs.local_non_reserved_path(&volume.field("path"), token.path());
    }
    errs.user_or_group_id(&at.field("user"), token.user());
}

fn check_bundle(bundle: &ClusterTrustBundleProjection, at: &FieldPath, errs: &mut ErrorList) {
    match (bundle.name(), bundle.signer_name()) {
        (Some(_), Some(_)) => {
            let why = "only one of name and signerName may be used";
            errs.invalid_formatted(at, format_go(bundle), why);
        }
        (Some(name), None) => check_bundle_name(bundle, name, at, errs),
        (None, Some(signer)) => {
            if signer.is_empty() {
                errs.required(&at.field("signerName"), "must be a valid signer name");
            }
            check_signer(&at.field("signerName"), signer, errs);
            errs.selector(&at.field("labelSelector"), bundle.label_selector());
        }
        (None, None) => errs.required(at, "either name or signerName must be specified"),
    }
    errs.required_field(at, "path", bundle.path());
    errs.user_or_group_id(&at.field("user"), bundle.user());
    errs.local_non_reserved_path(&at.field("path"), bundle.path());
}

fn check_bundle_name(
    bundle: &ClusterTrustBundleProjection,
    name: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if name.is_empty() {
        errs.required(&at.field("name"), "must be a valid object name");
    }
    let last = name.rsplit(':').next().unwrap_or_default();
    for wrong in names::dns1123_subdomain(last) {
        let wrong = format!("not a valid clustertrustbundlename: {wrong}");
        errs.invalid(&at.field("name"), name, wrong);
    }
    if let Some(selector) = bundle.label_selector() {
        let why = "labelSelector must be unset if name is specified";
        errs.invalid_formatted(&at.field("labelSelector"), format_go(selector), why);
    }
}

/// `example.com/signer`.
pub(crate) fn check_signer(at: &FieldPath, signer: &str, errs: &mut ErrorList) {
    if signer.is_empty() {
        return errs.required(at, "");
    }
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/'))
    else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errs.invalid(at, signer, why);
    };
    errs.max_bytes(at, domain, MAX_DOMAIN);
    check_labels_of(domain, names::dns1123_label, at, errs);
    if !domain.contains('.') {
        errs.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    check_labels_of(path, names::dns1123_subdomain, at, errs);
    let most = MAX_DOMAIN + 1 + MAX_DOMAIN + 1 + 63;
    errs.max_bytes(at, signer, most);
}

const MAX_DOMAIN: usize = 253;

/// Says what is wrong with the first part between dots that does not keep the rule.
fn check_labels_of(
    text: &str,
    rule: fn(&str) -> Vec<String>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let wrong = text.split('.').map(|label| (label, rule(label)));
    let first = wrong.into_iter().find(|(_, wrong)| !wrong.is_empty());
    for (label, wrong) in
        first.into_iter().flat_map(|(label, all)| all.into_iter().map(move |it| (label, it)))
    {
        errs.invalid(at, text, format!("validating label {label:?}: {wrong}"));
    }
}
