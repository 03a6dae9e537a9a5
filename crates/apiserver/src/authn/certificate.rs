//! Client certificates: the common name is the user, organizations are groups.

use std::{fmt::Write as _, sync::Arc};

use http::request::Parts;
use object::Clock;
use pki::{Rotating, Trust};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use server::{Authenticate, Authenticating, Name, Peer, Report, Timing, User};

#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) trust: Arc<Rotating<Trust>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) left: Arc<TimeLeft>,
}

/// How long certificates hold that clients show.
#[derive(Debug)]
pub(crate) struct TimeLeft(Timing);

impl Default for TimeLeft {
    fn default() -> Self {
        let name = "apiserver_client_certificate_expiration_seconds";
        let help = "How long the certificates of clients still hold.";
        Self(Timing::new(Name { name, help, labels: &[] }, SECONDS))
    }
}

impl Report for TimeLeft {
    fn report(&self, out: &mut String) {
        self.0.write(out);
    }
}

/// From half an hour to a year.
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

impl Authenticate for Certificates {
    fn authenticate<'a>(&'a self, peer: &'a Peer, _: &'a Parts) -> Authenticating<'a> {
        Box::pin(async move {
            let Some(certificate) = &peer.certificate else { return Ok(None) };
            let chain = [CertificateDer::from(certificate.as_slice())];
            let identity = self.trust.current().identify(&chain, self.clock.now());
            let Ok(identity) = identity else { return Ok(None) }; // a proxy's, perhaps
            #[expect(clippy::cast_precision_loss, reason = "seconds of a certificate's life fit")]
            let left = (identity.not_after - self.clock.now()) as f64;
            self.left.0.observe(&[], left);
            let groups: Vec<&str> = identity.organizations.iter().map(String::as_str).collect();
            let mut user = User::new(&identity.common_name, &groups);
            let id = digest(&SHA256, certificate).as_ref().iter().fold(
                String::from("X509SHA256="),
                |mut id, byte| {
                    let _ = write!(id, "{byte:02x}"); // into memory
                    id
                },
            );
            user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
            Ok(Some(user))
        })
    }
}
