//! Requests for certificates through the API (CertificateSigningRequest).

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::certificates::{CertificateSigningRequest, CertificateSigningRequestSpec};
use client::{Api, Client};
use object::{Bytes, NamespacedName, ObjectMeta};
use pki::{CertificateRequest, PrivateKey};
use tokio::time::{Instant, sleep};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const RETRY: Duration = Duration::from_millis(200);

/// Requests a client certificate for the kubelet of a node with a new key, and waits until it is signed. Returns
/// certificate and key in one PEM file, as kubelets store them.
pub(super) async fn kubelet_certificate(
    client: &Client,
    node: &str,
    patience: Duration,
) -> Result<String> {
    let key = PrivateKey::generate()?;
    let name = format!("system:node:{node}");
    let request =
        CertificateRequest::create(&key, &name, &["system:nodes".to_owned()], (&[], &[]))?;
    let spec = CertificateSigningRequestSpec::new()
        .with_request(Bytes::encode(request.as_bytes()))
        .with_signer_name(SIGNER)
        .with_usages(["digital signature", "client auth"].map(str::to_owned));
    let object = CertificateSigningRequest::new()
        .with_metadata(ObjectMeta::new().with_generate_name("node-csr-"))
        .with_spec(spec);
    let requests = Api::<CertificateSigningRequest>::new(client);
    let made = requests.create(object).await.context("cannot request a certificate")?;
    let key_of = NamespacedName::new("", made.metadata().name());
    let certificate = wait(&requests, &key_of, patience).await?;
    let certificates = pki::certificates(&certificate).context("the signed certificate")?;
    ensure!(!certificates.is_empty(), "the signed certificate is empty");
    let certificate = String::from_utf8(certificate).context("the signed certificate")?;
    pki::CertKeyPair::from_pem(certificate.as_bytes(), key.to_pem().as_bytes())
        .context("the signed certificate")?;
    Ok(format!("{}\n{}", certificate.trim_end(), key.to_pem()))
}

async fn wait(
    requests: &Api<CertificateSigningRequest>,
    key: &NamespacedName,
    patience: Duration,
) -> Result<Vec<u8>> {
    let began = Instant::now();
    loop {
        let status = requests.get(key).await.context("the certificate request")?;
        let status = status.status();
        if let Some(certificate) = Bytes::decode(status.certificate()).filter(|it| !it.is_empty()) {
            return Ok(certificate);
        }
        for refused in ["Denied", "Failed"] {
            if let Some(condition) = status.conditions().find(|own| own.type_() == refused) {
                bail!(
                    "the certificate request {} was refused: {} {}",
                    key.name,
                    condition.reason(),
                    condition.message()
                );
            }
        }
        if began.elapsed() > patience {
            bail!(
                "nobody has approved the certificate request {name}: `kubectl certificate approve \
                 {name}` does",
                name = key.name
            );
        }
        sleep(RETRY).await;
    }
}
