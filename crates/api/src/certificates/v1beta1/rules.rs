//! The rules for certificates of pods.

use object::{Bytes, Condition, Time};
use schema::{ErrorList, FieldPath};
use x509_parser::{
    certificate::X509Certificate, certification_request::X509CertificationRequest,
    extensions::GeneralName, prelude::FromDer, public_key::PublicKey, x509::SubjectPublicKeyInfo,
};

use super::{PodCertificateRequest, PodCertificateRequestSpec};
use crate::{
    certificates::{PodCertificateRequestStatus, pem},
    core::volume::projected::{check_signer, check_user_annotations},
    possession,
    rules::ValidateField,
};

const MAX_UID: usize = 128;
const MAX_KEY: usize = 10 * 1024;
const MAX_CHAIN: usize = 100 * 1024;
/// How long a certificate may last, in seconds.
const SHORTEST: i32 = 3600;
const LONGEST: i32 = 91 * 86_400;
const LONGEST_OF_OURS: i32 = 86_400;

pub(super) fn check_spec(spec: &PodCertificateRequestSpec, errs: &mut ErrorList) {
    check_signer(&FieldPath::SPEC.field("signerName"), spec.signer_name(), errs);
    let at = FieldPath::SPEC.field("unverifiedUserAnnotations");
    check_user_annotations(spec.unverified_user_annotations(), &at, errs);
    for (name, text) in [
        ("podName", spec.pod_name()),
        ("serviceAccountName", spec.service_account_name()),
        ("nodeName", spec.node_name()),
    ] {
        errs.subdomain(&FieldPath::SPEC.field(name), text);
    }
    for (name, uid) in [
        ("podUID", spec.pod_uid()),
        ("serviceAccountUID", spec.service_account_uid()),
        ("nodeUID", spec.node_uid()),
    ] {
        if uid.is_empty() {
            errs.invalid(&FieldPath::SPEC.field(name), uid, "must not be empty");
        } else if uid.len() > MAX_UID {
            errs.too_long(&FieldPath::SPEC.field(name), MAX_UID);
        }
    }
    let host = spec.signer_name().split('/').next().unwrap_or_default();
    let ours = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
    let longest = if ours { LONGEST_OF_OURS } else { LONGEST };
    let seconds = spec.max_expiration_seconds();
    if !(SHORTEST..=longest).contains(&seconds) {
        let why = format!("must be in the range [{SHORTEST}, {longest}]");
        errs.invalid(&FieldPath::SPEC.field("maxExpirationSeconds"), seconds, why);
    }
    let has = |bytes: &str| !bytes.is_empty();
    let (stub, key, proof) =
        (spec.stub_pkcs10_request(), spec.pkix_public_key(), spec.proof_of_possession());
    match (has(stub), has(key), has(proof)) {
        (true, false, false) => validate_stub_csr(stub, errs),
        (false, true, true) => check_key(spec, errs),
        _ => {
            let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) \
                       must be set";
            errs.invalid_without_value(&FieldPath::SPEC, why);
        }
    }
}

fn validate_stub_csr(stub: &str, errs: &mut ErrorList) {
    let at = FieldPath::SPEC.field("stubPKCS10Request");
    let stub = Bytes::decode(stub).unwrap_or_default();
    if stub.len() > MAX_KEY {
        return errs.too_long(&at, MAX_KEY);
    }
    let Ok((_, request)) = X509CertificationRequest::from_der(&stub) else {
        return errs.invalid_without_value(&at, "must be a valid PKCS#10 CSR");
    };
    let key = &request.certification_request_info.subject_pki;
    if !check_kind(key, &at, "elliptic public keys must use curve P256, P384, or P521", errs) {
        return;
    }
    let info = &request.certification_request_info;
    let bits = match request.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.10045.4.3.4" => 512, // ecdsa-with-SHA512
        "1.2.840.10045.4.3.3" => 384,
        _ => 256,
    };
    let (message, signature) = (info.raw, &*request.signature_value.data);
    if request.verify_signature().is_err()
        && possession::verify_signature(key.raw, bits, message, signature) != Some(true)
    {
        errs.invalid_without_value(&at, "invalid signature");
    }
}

fn check_key(spec: &PodCertificateRequestSpec, errs: &mut ErrorList) {
    let at = FieldPath::SPEC.field("pkixPublicKey");
    let bytes = |text: &str| Bytes::decode(text).unwrap_or_default();
    let (key, proof) = (bytes(spec.pkix_public_key()), bytes(spec.proof_of_possession()));
    if key.len() > MAX_KEY {
        return errs.too_long(&at, MAX_KEY);
    }
    if proof.len() > MAX_KEY {
        return errs.too_long(&FieldPath::SPEC.field("proofOfPossession"), MAX_KEY);
    }
    let parsed = SubjectPublicKeyInfo::from_der(&key).ok().map(|(_, key)| key);
    let Some(parsed) = parsed.filter(|key| key.parsed().is_ok()) else {
        let why = "must be a valid PKIX-serialized public key";
        return errs.invalid(&at, spec.pkix_public_key(), why);
    };
    let known = check_kind(&parsed, &at, "elliptic public keys must use curve P256 or P384", errs);
    let shown = possession::verify_signature(&key, 256, spec.pod_uid().as_bytes(), &proof);
    if known && shown == Some(false) {
        let why = "could not verify proof-of-possession signature";
        errs.invalid_without_value(&FieldPath::SPEC.field("proofOfPossession"), why);
    }
}

/// Whether a key is of a kind that is taken.
fn check_kind(
    key: &SubjectPublicKeyInfo,
    at: &FieldPath,
    curves: &str,
    errs: &mut ErrorList,
) -> bool {
    const ED25519: &str = "1.3.101.112";
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let bits = rsa.key_size();
            if !matches!(bits, 3072 | 4096) {
                let why = "RSA keys must have modulus size 3072 or 4096";
                errs.invalid(at, format!("{bits}-bit modulus"), why);
            }
            matches!(bits, 3072 | 4096)
        }
        Ok(PublicKey::EC(point)) => {
            // P-224 is the only other curve that has a name there.
            let fits = matches!(point.key_size(), 256 | 384 | 521 | 528);
            if !fits {
                errs.invalid(at, "curve P-224", curves);
            }
            fits
        }
        _ if key.algorithm.algorithm.to_id_string() == ED25519 => true,
        _ => {
            let why = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
            errs.invalid_without_value(at, why);
            false
        }
    }
}

pub(super) fn check_status(
    new: &PodCertificateRequest,
    old: &PodCertificateRequest,
    errs: &mut ErrorList,
) {
    if errs.is_empty() {
        check_conditions(new.status(), errs);
    }
    if !errs.is_empty() {
        return; // of the metadata or of the conditions, which decide about the rest
    }
    let (is, was) = (new.status().decision(), old.status().decision());
    let kept = new.status() == old.status();
    if was.is_some() {
        if !kept {
            let why = "immutable after PodCertificateRequest is issued, denied, or failed";
            errs.invalid_without_value(&FieldPath::STATUS, why);
        }
        return;
    }
    match is {
        Some("Issued") => check_issued(new, errs),
        Some(_) => {
            let conditions = new.status().conditions().clone();
            if *new.status() != PodCertificateRequestStatus::new().with_conditions(conditions) {
                let why = "non-condition status fields must be empty when denying or failing the \
                           PodCertificateRequest";
                errs.invalid_without_value(&FieldPath::STATUS, why);
            }
        }
        None if !kept => {
            let why =
                "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
            errs.invalid_without_value(&FieldPath::STATUS, why);
        }
        None => {}
    }
}

impl PodCertificateRequestStatus {
    /// What holds, if anything was decided.
    fn decision(&self) -> Option<&str> {
        let decided = |condition: &&Condition| {
            matches!(condition.type_(), "Issued" | "Denied" | "Failed")
                && condition.status() == "True"
        };
        self.conditions().iter().find(decided).map(Condition::type_)
    }
}

fn check_conditions(status: &PodCertificateRequestStatus, errs: &mut ErrorList) {
    let (all, mut known) = (FieldPath::STATUS.field("conditions"), 0);
    for (i, condition) in status.conditions().iter().enumerate() {
        // Upstream has a dot before the index.
        let index = format!("[{i}]");
        let at = all.field(&index);
        match condition.type_() {
            "Issued" | "Denied" | "Failed" => {
                known += 1;
                if known > 1 {
                    let why = "There may be at most one condition with type \"Issued\", \
                               \"Denied\", or \"Failed\"";
                    errs.invalid(&at.field("type"), condition.type_(), why);
                }
                errs.one_of(&at.field("status"), condition.status(), &["True"]);
            }
            other => {
                let types = ["Issued", "Denied", "Failed"];
                errs.not_supported(&at.field("type"), other, &types);
            }
        }
    }
    errs.conditions(&all, status.conditions());
}

fn check_issued(request: &PodCertificateRequest, errs: &mut ErrorList) {
    let (status, at) = (request.status(), FieldPath::STATUS.field("certificateChain"));
    let chain = status.certificate_chain();
    if chain.len() > MAX_CHAIN {
        return errs.too_long(&at, MAX_CHAIN);
    }
    let mut blocks = pem::blocks(chain);
    let Some(leaf) = blocks.next() else {
        let why = "issued certificate chain must contain at least one certificate";
        return errs.invalid(&at, chain, why);
    };
    if leaf.label != "CERTIFICATE" {
        let why = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errs.invalid(&at, chain, why);
    }
    let Ok((_, leaf)) = x509_parser::parse_x509_certificate(&leaf.content) else {
        let why = "leaf certificate does not parse as valid X.509";
        return errs.invalid(&at, chain, why);
    };
    check_names(&leaf, &at, errs);
    if !is_for(&leaf, request.spec()) {
        let why = "leaf certificate was not issued to the requested public key";
        return errs.invalid(&at, chain, why);
    }
    if !check_times(&leaf, request, errs) {
        return;
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            let why = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return errs.invalid(&at, chain, why);
        } else if x509_parser::parse_x509_certificate(&block.content).is_err() {
            let why = "intermediate certificate does not parse as valid X.509";
            return errs.invalid(&at, chain, why);
        }
    }
}

fn check_names(leaf: &X509Certificate, at: &FieldPath, errs: &mut ErrorList) {
    let Ok(Some(names)) = leaf.subject_alternative_name() else { return };
    for name in &names.value.general_names {
        match name {
            GeneralName::DNSName(name) => {
                if name.is_empty() {
                    let why = "leaf certificate should not contain empty DNSName";
                    errs.invalid(at, *name, why);
                }
                if name.contains("..") {
                    let why = "leaf certificate's DNSName should not contain '..'";
                    errs.invalid(at, *name, why);
                }
                if name.starts_with('.') || name.ends_with('.') {
                    let why = "leaf certificate's DNSName should not start or end with '.'";
                    errs.invalid(at, *name, why);
                }
            }
            GeneralName::RFC822Name(name) if !name.contains('@') => {
                let why = "leaf certificate should not contain invalid EmailAddress";
                errs.invalid(at, *name, why);
            }
            _ => {}
        }
    }
}

/// Whether the certificate is for the key that was asked for.
fn is_for(leaf: &X509Certificate, spec: &PodCertificateRequestSpec) -> bool {
    let stub = Bytes::decode(spec.stub_pkcs10_request()).unwrap_or_default();
    if let Ok((_, request)) = X509CertificationRequest::from_der(&stub) {
        return request.certification_request_info.subject_pki.raw == leaf.public_key().raw;
    }
    Bytes::decode(spec.pkix_public_key()).unwrap_or_default() == leaf.public_key().raw
}

/// Whether the times of the status are those of the certificate.
fn check_times(
    leaf: &X509Certificate,
    request: &PodCertificateRequest,
    errs: &mut ErrorList,
) -> bool {
    let status = request.status();
    let (before, after) = (status.not_before(), status.not_after());
    let (Some(before), Some(after), Some(refresh)) = (before, after, status.begin_refresh_at())
    else {
        let consistent = "must be present and consistent with the issued certificate";
        let range = "must be present and in the range [notbefore+10min, notafter-10min]";
        for (name, time, why) in [
            ("notBefore", before, consistent),
            ("notAfter", after, consistent),
            ("beginRefreshAt", status.begin_refresh_at(), range),
        ] {
            if time.is_none() {
                errs.required(&FieldPath::STATUS.field(name), why);
            }
        }
        return false;
    };
    let seconds = |time: &str| Time::parse_seconds(time).unwrap_or_default();
    let validity = leaf.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let lifetime = until - from;
    let most = i64::from(request.spec().max_expiration_seconds());
    let wrong = if seconds(before) != from {
        ("notBefore", before, "must be set to the NotBefore time encoded in the leaf certificate")
    } else if seconds(after) != until {
        ("notAfter", after, "must be set to the NotAfter time encoded in the leaf certificate")
    } else if lifetime < i64::from(SHORTEST) {
        let why = "leaf certificate lifetime must be >= 1 hour";
        errs.invalid(
            &FieldPath::STATUS.field("certificateChain"),
            lifetime.saturating_mul(1_000_000_000),
            why,
        );
        return false;
    } else if lifetime > most {
        let why =
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})");
        errs.invalid(
            &FieldPath::STATUS.field("certificateChain"),
            lifetime.saturating_mul(1_000_000_000),
            why,
        );
        return false;
    } else if seconds(refresh) < from + 600 {
        ("beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore")
    } else if seconds(refresh) > until - 600 {
        ("beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter")
    } else {
        return true;
    };
    errs.invalid(&FieldPath::STATUS.field(wrong.0), wrong.1, wrong.2);
    false
}
