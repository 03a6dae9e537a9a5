//! The client certificate authenticator: the common name is the user, the organizations are the
//! groups.

use std::{fmt::Write as _, sync::Arc};

use http::request::Parts;
use object::{Clock, Status};
use pki::{ClientCaVerifier, Reloadable};
use ring::digest::{SHA256, digest};
use server::{
    AuthenticateFuture, Authenticator, HistogramVec, MetricDesc, MetricsSource, Peer, UserInfo,
};

#[derive(Debug)]
pub(crate) struct ClientCertAuthenticator {
    pub(crate) trust: Arc<Reloadable<ClientCaVerifier>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) left: Arc<CertExpirationMetrics>,
    /// Whether the user's UID is read from the certificate.
    pub(crate) with_uid: bool,
}

/// Metric of the remaining lifetime of client certificates.
#[derive(Debug)]
pub(crate) struct CertExpirationMetrics(HistogramVec);

impl Default for CertExpirationMetrics {
    fn default() -> Self {
        let name = "apiserver_client_certificate_expiration_seconds";
        let help = "How long the certificates of clients still hold.";
        Self(HistogramVec::new(MetricDesc { name, help, labels: &[] }, SECONDS))
    }
}

impl MetricsSource for CertExpirationMetrics {
    fn report(&self, out: &mut String) {
        self.0.write(out);
    }
}

/// Histogram buckets, from half an hour to a year.
const SECONDS: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

impl Authenticator for ClientCertAuthenticator {
    fn authenticate<'a>(&'a self, peer: &'a Peer, _: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Some(certificate) = &peer.certificate else { return Ok(None) };
            let identity = self.trust.current().identify(&peer.chain(), self.clock.now());
            let Ok(identity) = identity else { return Ok(None) }; // perhaps that of a front proxy
            if identity.common_name.is_empty() {
                return Ok(None); // a certificate without a name is nobody's
            }
            let uid = match &*identity.uids {
                _ if !self.with_uid => "",
                [] => "",
                [uid] if !uid.is_empty() => uid,
                _ => return Err(Status::unauthorized()),
            };
            #[expect(clippy::cast_precision_loss, reason = "seconds of a certificate's life fit")]
            let left = (identity.not_after - self.clock.now()) as f64;
            self.left.0.observe(&[], left);
            let groups: Vec<&str> = identity.organizations.iter().map(String::as_str).collect();
            let mut user = UserInfo::new(&identity.common_name, &groups);
            user.uid = uid.into();
            let id = digest(&SHA256, certificate).as_ref().iter().fold(
                String::from("X509SHA256="),
                |mut id, byte| {
                    let _ = write!(id, "{byte:02x}"); // writing to a String cannot fail
                    id
                },
            );
            user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
            Ok(Some(user))
        })
    }
}

#[cfg(test)]
mod tests {
    use object::SystemClock;

    use super::*;

    /// Jane's certificate, the intermediate CA that signed it, and the root CA that the server
    /// trusts.
    const CHAIN: &[u8] = include_bytes!("testdata/chain.pem");

    #[tokio::test]
    async fn certificates_between_are_looked_at() {
        let chain = pki::certificates(CHAIN).expect("three");
        let certificates = ClientCertAuthenticator {
            trust: Arc::new(Reloadable::new(ClientCaVerifier::new(&chain[2..]).expect("a root"))),
            clock: Arc::new(SystemClock),
            left: Arc::default(),
            with_uid: false,
        };
        let (parts, ()) = http::Request::new(()).into_parts();
        let user = async |intermediates: &[usize]| {
            let between = intermediates.iter().map(|at| chain[*at].to_vec()).collect();
            let certificate = Some(Arc::new(chain[0].to_vec()));
            let peer = Peer { certificate, intermediates: Arc::new(between), ..Peer::default() };
            let user = certificates.authenticate(&peer, &parts).await.expect("no error");
            user.map(|user| (user.name.to_string(), user.in_group("staff")))
        };
        assert_eq!(user(&[1]).await, Some(("jane".to_owned(), true)));
        assert_eq!(user(&[2, 1]).await, Some(("jane".to_owned(), true)));
        assert_eq!(user(&[]).await, None, "nobody knows who has signed it");
    }
}
