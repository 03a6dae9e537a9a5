//! certificates/v1: CertificateSigningRequest.

use std::collections::BTreeSet;

use macros::api;
use object::{Bytes, Lens, List, Map, ObjectMeta, Text, Time};
use schema::{
    ErrorList, FieldPath, FieldPaths, Kind, ResourceNames, Scope, SelectableField, Subresource,
    SubresourceField, TableColumn, ValidateName, WriteContext, human_duration, name_validation,
};
use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer};

use super::pem;
use crate::{columns, core::volume::projected::check_signer};

/// A request for a certificate, and its result.
#[api]
pub struct CertificateSigningRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The request and its requester. Immutable.
    spec: Must<CertificateSigningRequestSpec>,
    /// Whether the request is approved or denied, and the issued certificate.
    status: CertificateSigningRequestStatus,
}

#[api]
pub struct CertificateSigningRequestSpec {
    /// The request itself, as PEM.
    request: Must<Bytes>,
    /// Who is to sign: `example.com/signer`.
    #[api(tag = 7)]
    signer_name: Must<String>,
    /// How long the certificate shall be valid.
    expiration_seconds: Option<i32>,
    /// What the certificate shall be used for.
    #[api(tag = 5, go_type = "[]v1.KeyUsage", enum_values = &USAGES)]
    usages: List<String>,
    /// The user who asks. The server writes it down.
    #[api(tag = 2)]
    username: String,
    /// The user's number. The server writes it down.
    uid: String,
    /// The user's groups. The server writes them down.
    groups: List<String>,
    /// What else is known of the user. The server writes it down.
    #[api(tag = 6, go_type = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
}

#[api]
pub struct CertificateSigningRequestStatus {
    /// What was decided: Approved, Denied, Failed.
    #[api(keys("type"))]
    conditions: List<CertificateSigningRequestCondition>,
    /// The certificate, as PEM.
    certificate: Bytes,
}

#[api]
pub struct CertificateSigningRequestCondition {
    /// What was decided: Approved, Denied, Failed, or something else.
    #[api(go_type = "v1.RequestConditionType")]
    type_: Must<String>,
    /// Whether it holds: True, False, Unknown.
    #[api(tag = 6, go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// Why, in a word.
    #[api(tag = 2)]
    reason: String,
    /// Why, for people.
    message: String,
    /// When it was last looked at.
    last_update_time: Time,
    /// When it last changed.
    last_transition_time: Time,
}

impl Kind for CertificateSigningRequest {
    const NAMES: ResourceNames = ResourceNames::new(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
    )
    .short(&["csr"]);
    const RESET_FIELDS: FieldPaths = &[&["spec"], &["status"]];
    const FORMER_API_VERSIONS: &'static [&'static str] = &["certificates.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const NAME: ValidateName = name_validation::path_segment;
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::field("approval", "CertificateSigningRequest", APPROVAL)
            .resetting(&[&["spec"], &["status", "certificate"]]),
        Subresource::status("CertificateSigningRequest")
            .resetting(&[&["spec"], &["status", "conditions"]]),
    ];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::AGE,
        TableColumn::text("SignerName", |csr, _| columns::text_or_none(csr.spec().signer_name())),
        TableColumn::text("Requestor", |csr, _| csr.spec().username().into()),
        TableColumn::text("RequestedDuration", |csr, _| {
            let seconds = csr.spec().expiration_seconds();
            seconds.map_or(columns::NONE.into(), |it| human_duration(it.into()).into())
        }),
        TableColumn::text("Condition", |csr, _| csr.state().into()),
    ];
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("spec.signerName", |csr| csr.spec().signer_name().into())];

    fn prepare_update(&mut self, old: &Self) {
        self.set_spec(old.spec().clone());
    }

    fn prepare_status(&mut self, old: &Self) {
        for ty in [APPROVED, DENIED] {
            self.keep_decision(old, ty);
        }
    }

    fn sign(&mut self, old: Option<&Self>, by: &WriteContext) {
        match old {
            None => self.spec_mut().sign(by),
            Some(old) => self.stamp_conditions(old, by.now),
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check(Some(old), errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        self.check_kept(old, errs);
        for ty in [APPROVED, DENIED] {
            let (had, has) = (old.conditions(ty).count(), self.conditions(ty).count());
            if has > had {
                let why = format!("updates may not add a condition of type {ty:?}");
                errs.forbidden(&FieldPath::STATUS.field("conditions"), why);
            }
        }
        let had = old.status().certificate();
        if !had.is_empty() && self.status().certificate() != had {
            let why = "updates may not modify existing certificate content";
            errs.forbidden(&FieldPath::STATUS.field("certificate"), why);
        }
    }

    fn validate_part(&self, _part: &str, old: &Self, errs: &mut ErrorList) {
        self.check_kept(old, errs);
        if self.status().certificate() != old.status().certificate() {
            errs.forbidden(
                &FieldPath::STATUS.field("certificate"),
                "updates may not set certificate content",
            );
        }
    }
}

/// What the `approval` subresource writes.
const APPROVAL: SubresourceField = SubresourceField { parent: "status", name: "conditions" };
const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

impl CertificateSigningRequest {
    fn conditions(&self, ty: &str) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
        self.status().conditions().iter().filter(move |condition| condition.type_() == ty)
    }

    fn has(&self, ty: &str) -> bool {
        self.conditions(ty).next().is_some()
    }

    fn state(&self) -> String {
        let mut state = match (self.has(DENIED), self.has(APPROVED)) {
            (true, _) => DENIED,
            (false, true) => APPROVED,
            (false, false) => "Pending",
        }
        .to_owned();
        if self.has(FAILED) {
            state += ",Failed";
        }
        if !self.status().certificate().is_empty() {
            state += ",Issued";
        }
        state
    }

    /// What was decided is not decided anew by who writes the status.
    fn keep_decision(&mut self, old: &Self, ty: &str) {
        if old.conditions(ty).count() != self.conditions(ty).count() || !old.has(ty) {
            return;
        }
        let mut kept = old.conditions(ty).cloned().collect::<Vec<_>>().into_iter();
        for condition in self.status_mut().conditions_mut().iter_mut() {
            if condition.type_() == ty {
                *condition = kept.next().expect("as many as before");
            }
        }
    }

    fn stamp_conditions(&mut self, old: &Self, now: i64) {
        if self.status().conditions().is_empty() {
            return;
        }
        let now = Time::format(now);
        for condition in self.status_mut().conditions_mut().iter_mut() {
            if condition.last_update_time().is_empty() {
                condition.set_last_update_time(now.as_str());
            }
            if condition.last_transition_time().is_empty() {
                let same = old.status().conditions().find(|old| {
                    old.type_() == condition.type_()
                        && old.status() == condition.status()
                        && !old.last_transition_time().is_empty()
                });
                let since = same.map_or(now.as_str(), |old| old.last_transition_time()).to_owned();
                condition.set_last_transition_time(since.as_str());
            }
        }
    }

    fn check_kept(&self, old: &Self, errs: &mut ErrorList) {
        self.check(Some(old), errs);
        for ty in [APPROVED, DENIED, FAILED] {
            if self.conditions(ty).count() < old.conditions(ty).count() {
                let why = format!("updates may not remove a condition of type {ty:?}");
                errs.forbidden(&FieldPath::STATUS.field("conditions"), why);
            }
        }
    }

    fn check(&self, old: Option<&Self>, errs: &mut ErrorList) {
        self.spec().check(old.map(Self::spec), &FieldPath::SPEC, errs);
        self.check_conditions(old, &FieldPath::STATUS.field("conditions"), errs);
        let certificate = self.status().certificate();
        let before = old.map(|old| old.status().certificate());
        if before.is_some_and(|before| before == certificate || wrong_chain(before).is_some()) {
            return;
        }
        if let Some(why) = wrong_chain(certificate) {
            errs.invalid(&FieldPath::STATUS.field("certificate"), "<certificate data>", why);
        }
    }

    fn check_conditions(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        let had = |ty: &str| old.is_some_and(|old| old.has(ty));
        let mut types = BTreeSet::new();
        for (i, condition) in self.status().conditions().iter().enumerate() {
            let (at, ty) = (at.index(i), condition.type_());
            if ty.is_empty() && !had("") {
                errs.required(&at.field("type"), "");
            }
            let allowed: &[&str] = match ty {
                APPROVED | DENIED | FAILED => &["True"],
                _ => &["False", "True", "Unknown"],
            };
            errs.required_one_of(&at.field("status"), condition.status(), allowed);
            if !types.insert(ty) && !old.is_some_and(Self::repeats) {
                errs.duplicate(&at.field("type"), ty);
            }
        }
        if self.has(APPROVED) && self.has(DENIED) && !(had(APPROVED) && had(DENIED)) {
            let all = r#"must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`"#;
            let bad = r#"{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}"#;
            errs.invalid(at, bad, all);
        }
    }

    fn repeats(&self) -> bool {
        let mut types = BTreeSet::new();
        !self.status().conditions().iter().all(|condition| types.insert(condition.type_()))
    }
}

impl CertificateSigningRequestSpec {
    fn sign(&mut self, by: &WriteContext) {
        self.set_username(by.user);
        self.set_uid(by.uid);
        self.set_groups(by.groups.iter().map(Text::as_str).collect::<List<String>>());
        self.set_extra(Self::new().extra().clone());
        for (name, values) in by.extra {
            let values = values.iter().map(String::as_str).collect::<List<String>>();
            self.extra_mut().insert(name, values);
        }
    }

    fn check(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        if let Some(why) = wrong_request(self.request()) {
            errs.invalid(&at.field("request"), self.tree().get("request").clone(), why);
        }
        let here = at.field("usages");
        if self.usages().is_empty() {
            errs.required(&here, "");
        }
        let unknown = |spec: &Self| spec.usages().iter().any(|usage| !USAGES.contains(&usage));
        let twice = |spec: &Self| {
            let mut seen = BTreeSet::new();
            !spec.usages().iter().all(|usage| seen.insert(usage))
        };
        let (unknown, twice) = (old.is_some_and(unknown), old.is_some_and(twice));
        let mut seen = BTreeSet::new();
        for (i, usage) in self.usages().iter().enumerate() {
            if !unknown {
                errs.one_of(&here.index(i), usage, &USAGES);
            }
            if !seen.insert(usage) && !twice {
                errs.duplicate(&here.index(i), usage);
            }
        }
        let here = at.field("signerName");
        if self.signer_name() == LEGACY && old.is_none_or(|old| old.signer_name() != LEGACY) {
            let why = "the legacy signerName is not allowed via this API version";
            errs.invalid(&here, LEGACY, why);
        } else {
            check_signer(&here, self.signer_name(), errs);
        }
        if let Some(seconds) = self.expiration_seconds().filter(|seconds| *seconds < 600) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            errs.invalid(&at.field("expirationSeconds"), seconds, why);
        }
    }
}

/// What is wrong with a request, if anything.
fn wrong_request(request: &str) -> Option<&'static str> {
    let text = Bytes::decode(request).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let block = pem::blocks(&text).next().filter(|block| block.label == "CERTIFICATE REQUEST");
    let Some(block) = block else { return Some("PEM block type must be CERTIFICATE REQUEST") };
    match X509CertificationRequest::from_der(&block.content) {
        Ok((_, request)) => {
            request.verify_signature().is_err().then_some("x509: signature verification failed")
        }
        Err(_) => Some("x509: malformed certificate request"),
    }
}

/// What is wrong with certificates, if anything.
fn wrong_chain(certificates: &str) -> Option<String> {
    let text = Bytes::decode(certificates).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if text.is_empty() {
        return None;
    }
    let mut count = 0;
    for block in pem::blocks(&text) {
        if block.label != "CERTIFICATE" {
            let found = block.label;
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {found:?}"));
        } else if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        } else if x509_parser::parse_x509_certificate(&block.content).is_err() {
            return Some("x509: malformed certificate".to_owned());
        }
        count += 1;
    }
    (count == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn a_request_is_looked_into() {
        let csr: CertificateSigningRequest = created_from_json(
            r#"{"metadata":{"name":"x"},"spec":{"request":"YQ==","signerName":"example.com/s",
                "usages":["client auth"]}}"#,
        );
        assert_eq!(
            create_errors(&csr),
            ["spec.request: Invalid value: \"YQ==\": PEM block type must be CERTIFICATE REQUEST"]
        );
    }

    #[test]
    fn nobody_is_both_approved_and_denied() {
        let mut csr = CertificateSigningRequest::new();
        for ty in [APPROVED, DENIED] {
            let condition = CertificateSigningRequestCondition::new().with_type(ty);
            csr.status_mut().conditions_mut().push(condition.with_status("True"));
        }
        let wrong = create_errors(&csr);
        assert!(wrong.iter().any(|wrong| wrong.contains("at most one of")), "{wrong:?}");
        assert_eq!(csr.state(), DENIED);
    }
}
