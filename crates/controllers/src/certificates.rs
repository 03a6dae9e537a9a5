//! CertificateSigningRequest controllers: one approves the requests of kubelets, one signs approved
//! requests, and one deletes old requests.

use std::{sync::Arc, time::Duration};

use api::{
    authorization::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    certificates::{
        CertificateSigningRequest, CertificateSigningRequestCondition,
        CertificateSigningRequestSpec,
    },
};
use client::Error;
use object::{Bytes, Clock, NamespacedName, Time};
use pki::{CertificateAuthority, CertificateRequest, Usage};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;
use tracing::warn;

use crate::Config;

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const UNKNOWN: &str = "kubernetes.io/legacy-unknown";
const HOUR: i64 = 3600;
/// How often old requests are searched for.
const PERIOD: Duration = Duration::from_hours(1);
/// Minimum validity of a certificate.
const MIN_DURATION: Duration = Duration::from_mins(10);

/// The CA that signs, and the maximum validity of its certificates.
#[derive(Clone, Debug)]
pub struct SigningConfig {
    pub authority: Arc<CertificateAuthority>,
    pub max_duration: Duration,
}

pub(crate) fn start_approving(cx: &Context, config: &Config) {
    let approver =
        Approver { requests: cx.cached_api(), reviews: cx.api(), clock: config.clock.clone() };
    Controller::new("certificatesigningrequest-approving", cx, approver).start();
}

pub(crate) fn start_signing(cx: &Context, config: &Config) {
    let Some(signing) = config.signing.clone() else { return };
    let signer = Signer { requests: cx.cached_api(), signing, clock: config.clock.clone() };
    Controller::new("certificatesigningrequest-signing", cx, signer)
        .queue_named("certificate")
        .start();
}

pub(crate) fn start_cleaner(cx: &Context, config: &Config) {
    let cleaner = Cleaner { requests: cx.cached_api(), clock: config.clock.clone() };
    Controller::new("certificatesigningrequest-cleaner", cx, cleaner).resync_every(PERIOD).start();
}

/// Approves requests for kubelet client certificates.
#[derive(Debug)]
struct Approver {
    requests: CachedApi<CertificateSigningRequest>,
    reviews: client::Api<SubjectAccessReview>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Approver {
    type Kind = CertificateSigningRequest;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        request: Option<CertificateSigningRequest>,
    ) -> Result<Requeue, Error> {
        let Some(mut request) = request.filter(|it| !is_issued(it) && !is_decided(it)) else {
            return Ok(Requeue::OnChange);
        };
        let Some(asked) = read(request.spec()) else { return Ok(Requeue::OnChange) };
        for (permission, message) in matching_recognizers(request.spec(), &asked) {
            if self.is_allowed(&request, permission).await? {
                let condition = CertificateSigningRequestCondition::new()
                    .with_type("Approved")
                    .with_status("True")
                    .with_reason("AutoApproved")
                    .with_message(message)
                    .with_last_update_time(Time::format(self.clock.now()));
                let because = request.write_cause("a kubelet may have a certificate");
                request.status_mut().conditions_mut().push(condition);
                let api = self.requests.api().with_cause(&because);
                api.update_subresource(key, "approval", &request.into()).await?;
                break;
            }
        }
        Ok(Requeue::OnChange)
    }
}

impl Approver {
    /// Whether the requesting user may create requests of this kind that are approved automatically
    /// (SubjectAccessReview).
    async fn is_allowed(
        &self,
        request: &CertificateSigningRequest,
        subresource: &str,
    ) -> Result<bool, Error> {
        let spec = request.spec();
        let attributes = ResourceAttributes::new()
            .with_group("certificates.k8s.io")
            .with_resource("certificatesigningrequests")
            .with_subresource(subresource)
            .with_verb("create")
            .with_version("*");
        let review = SubjectAccessReviewSpec::new()
            .with_user(spec.username())
            .with_uid(spec.uid())
            .with_groups(spec.groups().clone())
            .with_extra(spec.extra().clone())
            .with_resource_attributes(attributes);
        let answer = self.reviews.create(SubjectAccessReview::new().with_spec(review)).await?;
        Ok(answer.status().allowed())
    }
}

/// Signs approved requests.
#[derive(Debug)]
struct Signer {
    requests: CachedApi<CertificateSigningRequest>,
    signing: SigningConfig,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Signer {
    type Kind = CertificateSigningRequest;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        request: Option<CertificateSigningRequest>,
    ) -> Result<Requeue, Error> {
        let wanted = |it: &CertificateSigningRequest| {
            has(it, "Approved") && !has(it, "Denied") && !has(it, "Failed") && !is_issued(it)
        };
        let Some(mut request) = request.filter(wanted) else { return Ok(Requeue::OnChange) };
        let Some(asked) = read(request.spec()) else { return Ok(Requeue::OnChange) };
        let because = request.write_cause("the request was approved");
        match check(request.spec(), &asked) {
            None => return Ok(Requeue::OnChange), // signed by another controller
            Some(Err(why)) => {
                let condition = CertificateSigningRequestCondition::new()
                    .with_type("Failed")
                    .with_status("True")
                    .with_reason("SignerValidationFailure")
                    .with_message(why)
                    .with_last_update_time(Time::format(self.clock.now()));
                request.status_mut().conditions_mut().push(condition);
            }
            Some(Ok(())) => {
                let length = certificate_duration(request.spec(), self.signing.max_duration);
                let usages = usages(request.spec());
                let now = self.clock.now();
                let signed = self.signing.authority.sign(&asked, &usages, length, now);
                let signed = signed.map_err(|error| Error::Invalid(error.to_string()))?;
                request.status_mut().set_certificate(Bytes::encode(signed.as_bytes()));
            }
        }
        self.requests.with_cause(&because).update_status(request).await?;
        Ok(Requeue::OnChange)
    }
}

/// Deletes old requests.
#[derive(Debug)]
struct Cleaner {
    requests: CachedApi<CertificateSigningRequest>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    type Kind = CertificateSigningRequest;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        request: Option<CertificateSigningRequest>,
    ) -> Result<Requeue, Error> {
        let now = self.clock.now();
        if let Some(old) = request.filter(|request| is_old(request, now)) {
            let because = old.write_cause("the request has expired");
            self.requests.with_cause(&because).delete(&old).await?;
        }
        Ok(Requeue::OnChange)
    }
}

fn read(spec: &CertificateSigningRequestSpec) -> Option<CertificateRequest> {
    let pem = Bytes::decode(spec.request())?;
    match CertificateRequest::from_pem(&pem) {
        Ok(request) => Some(request),
        Err(error) => {
            warn!(%error, "cannot parse a CertificateSigningRequest");
            None
        }
    }
}

fn has(request: &CertificateSigningRequest, name: &str) -> bool {
    let conditions = request.status().conditions();
    conditions.find(|one| one.type_() == name && one.status() == "True").is_some()
}

fn is_decided(request: &CertificateSigningRequest) -> bool {
    has(request, "Approved") || has(request, "Denied")
}

fn is_issued(request: &CertificateSigningRequest) -> bool {
    !request.status().certificate().is_empty()
}

/// The subresources whose permission lets a request be approved automatically, and the message of
/// each approval.
fn matching_recognizers(
    spec: &CertificateSigningRequestSpec,
    asked: &CertificateRequest,
) -> Vec<(&'static str, &'static str)> {
    if spec.signer_name() != KUBELET_CLIENT || check_kubelet(spec, asked).is_err() {
        return Vec::new();
    }
    let own = (
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    );
    let any =
        ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
    let is_own = spec.username() == asked.identity().common_name;
    Some(own).filter(|_| is_own).into_iter().chain([any]).collect()
}

/// Validates a request by the rules of its signer; `None`: another controller signs for it.
fn check(
    spec: &CertificateSigningRequestSpec,
    asked: &CertificateRequest,
) -> Option<Result<(), String>> {
    match spec.signer_name() {
        KUBELET_CLIENT => Some(check_kubelet(spec, asked)),
        KUBELET_SERVING => Some(check_serving(spec, asked)),
        CLIENT => Some(check_client(spec)),
        UNKNOWN => Some(Ok(())),
        _ => None,
    }
}

fn check_kubelet(
    spec: &CertificateSigningRequestSpec,
    asked: &CertificateRequest,
) -> Result<(), String> {
    let who = asked.identity();
    check_node(who)?;
    if !who.dns.is_empty() {
        return Err("DNS subjectAltNames are not allowed".into());
    }
    if !who.ips.is_empty() {
        return Err("IP subjectAltNames are not allowed".into());
    }
    if !who.others.is_empty() {
        return Err("URI and email subjectAltNames are not allowed".into());
    }
    check_usages(spec, "client auth")
}

fn check_serving(
    spec: &CertificateSigningRequestSpec,
    asked: &CertificateRequest,
) -> Result<(), String> {
    let who = asked.identity();
    check_node(who)?;
    if who.dns.is_empty() && who.ips.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    if !who.others.is_empty() {
        return Err("URI and email subjectAltNames are not allowed".into());
    }
    check_usages(spec, "server auth")
}

fn check_node(who: &pki::CertificateIdentity) -> Result<(), String> {
    if who.organizations != ["system:nodes"] {
        return Err("subject organization is not system:nodes".into());
    }
    if !who.common_name.starts_with("system:node:") {
        return Err("subject common name does not begin with system:node:".into());
    }
    Ok(())
}

fn check_usages(spec: &CertificateSigningRequestSpec, wanted: &str) -> Result<(), String> {
    let given = |usage: &str| spec.usages().iter().any(|given| given == usage);
    let allowed = [wanted, "digital signature", "key encipherment"];
    let only_allowed = spec.usages().iter().all(|given| allowed.contains(&given));
    if only_allowed && given(wanted) && given("digital signature") {
        return Ok(());
    }
    Err(format!("usages did not match [{wanted} digital signature key encipherment]"))
}

fn check_client(spec: &CertificateSigningRequestSpec) -> Result<(), String> {
    let mut client = false;
    for usage in spec.usages().iter() {
        match usage {
            "digital signature" | "key encipherment" => {}
            "client auth" => client = true,
            other => return Err(format!("invalid usage for client certificate: {other}")),
        }
    }
    if client {
        Ok(())
    } else {
        Err(format!("missing required usage for client certificate: {:?}", "client auth"))
    }
}

fn usages(spec: &CertificateSigningRequestSpec) -> Vec<Usage> {
    let usage = |name: &str| match name {
        "client auth" => Some(Usage::Client),
        "server auth" => Some(Usage::Server),
        _ => None,
    };
    spec.usages().iter().filter_map(usage).collect()
}

/// The validity of a certificate: the requested one, within the limits.
fn certificate_duration(spec: &CertificateSigningRequestSpec, longest: Duration) -> Duration {
    let asked = spec.expiration_seconds().and_then(|seconds| u64::try_from(seconds).ok());
    let asked = asked.map_or(longest, Duration::from_secs);
    asked.max(MIN_DURATION).min(longest)
}

fn is_old(request: &CertificateSigningRequest, now: i64) -> bool {
    let conditions = request.status().conditions();
    let past = |text: &str, hours: i64| {
        Time::parse_seconds(text).is_some_and(|since| since + hours * HOUR < now)
    };
    if conditions.is_empty() {
        return past(request.metadata().creation_timestamp(), 24);
    }
    if is_issued(request) && has(request, "Approved") && is_expired(request, now) {
        return true;
    }
    conditions.iter().any(|one| match one.type_() {
        "Approved" if !is_issued(request) => past(one.last_update_time(), 24),
        "Approved" | "Denied" | "Failed" => past(one.last_update_time(), 1),
        _ => false,
    })
}

fn is_expired(request: &CertificateSigningRequest, now: i64) -> bool {
    let pem = Bytes::decode(request.status().certificate()).unwrap_or_default();
    let first = pki::certificates(&pem).ok().and_then(|all| all.into_iter().next());
    let who = first.and_then(|first| pki::CertificateIdentity::of(&first).ok());
    who.is_some_and(|who| who.not_after < now)
}

#[cfg(test)]
mod tests {
    use object::List;

    use super::*;

    fn spec(
        signer: &str,
        usages: &[&str],
        name: &str,
        group: &str,
    ) -> CertificateSigningRequestSpec {
        let key = pki::PrivateKey::generate().unwrap();
        let pem = CertificateRequest::create(&key, name, &[group.to_owned()], (&[], &[])).unwrap();
        CertificateSigningRequestSpec::new()
            .with_signer_name(signer)
            .with_usages(usages.iter().copied().collect::<List<String>>())
            .with_username(name)
            .with_request(Bytes::encode(pem.as_bytes()))
    }

    const USAGES: [&str; 2] = ["digital signature", "client auth"];

    #[test]
    fn kubelets_are_recognized() {
        let names = |spec: &CertificateSigningRequestSpec| {
            let asked = read(spec).unwrap();
            matching_recognizers(spec, &asked).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let own = spec(KUBELET_CLIENT, &USAGES, "system:node:a", "system:nodes");
        assert_eq!(names(&own), ["selfnodeclient", "nodeclient"]);
        assert_eq!(names(&own.clone().with_username("bootstrapper")), ["nodeclient"]);
        assert_eq!(names(&own.with_signer_name(CLIENT)), [""; 0]);
        let admin = spec(KUBELET_CLIENT, &USAGES, "system:node:a", "system:masters");
        assert_eq!(names(&admin), [""; 0]);
    }

    #[test]
    fn signers_sign_what_is_theirs() {
        let verdict = |spec: &CertificateSigningRequestSpec| check(spec, &read(spec).unwrap());
        let node = |signer, usages: &[&str]| spec(signer, usages, "system:node:a", "system:nodes");
        assert_eq!(verdict(&node(KUBELET_CLIENT, &USAGES)), Some(Ok(())));
        let usages = |own| ["digital signature", "key encipherment", own];
        assert_eq!(verdict(&node(KUBELET_CLIENT, &usages("client auth"))), Some(Ok(())));
        let serving = |usages: &[&str]| check_usages(&node(KUBELET_SERVING, usages), "server auth");
        assert_eq!(serving(&usages("server auth")), Ok(()));
        assert_eq!(serving(&["server auth", "digital signature"]), Ok(()));
        for other in [&usages("client auth")[..], &["server auth"], &["server auth", "cert sign"]] {
            assert!(serving(other).is_err(), "{other:?}");
        }
        assert!(verdict(&node(KUBELET_CLIENT, &["server auth"])).unwrap().is_err());
        assert!(
            verdict(&node(KUBELET_SERVING, &["server auth", "digital signature"]))
                .unwrap()
                .is_err()
        );
        assert_eq!(verdict(&spec(CLIENT, &USAGES, "jane", "dev")), Some(Ok(())));
        assert!(verdict(&spec(CLIENT, &["server auth"], "jane", "dev")).unwrap().is_err());
        assert_eq!(verdict(&spec("example.com/own", &USAGES, "jane", "dev")), None);
        let year = Duration::from_hours(24 * 365);
        let short = spec(CLIENT, &USAGES, "jane", "dev").with_expiration_seconds(60);
        assert_eq!(certificate_duration(&short, year), MIN_DURATION);
        assert_eq!(
            certificate_duration(&short.with_expiration_seconds(7200), year),
            Duration::from_hours(2)
        );
    }

    #[test]
    fn old_requests_go() {
        let request = |condition: &str, created: &str| {
            let mut request = CertificateSigningRequest::new();
            request.metadata_mut().set_creation_timestamp(created);
            if !condition.is_empty() {
                let condition = CertificateSigningRequestCondition::new()
                    .with_type(condition)
                    .with_status("True")
                    .with_last_update_time(created);
                request.status_mut().set_conditions([condition]);
            }
            request
        };
        let epoch = "1970-01-01T00:00:00Z";
        for (condition, after, expected) in [
            ("", 23, false),
            ("", 25, true),
            ("Denied", 2, true),
            ("Approved", 2, false),
            ("Approved", 25, true),
        ] {
            assert_eq!(is_old(&request(condition, epoch), after * HOUR), expected, "{condition}");
        }
        let mut issued = request("Approved", epoch);
        issued.status_mut().set_certificate("eA==");
        assert!(is_old(&issued, 2 * HOUR));
    }
}
