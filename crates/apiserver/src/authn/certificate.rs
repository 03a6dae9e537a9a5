//! Client certificates: the common name is the user, organizations are groups.

use std::{fmt::Write as _, sync::Arc};

use http::request::Parts;
use object::Clock;
use pki::{Rotating, Trust};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use server::{Authenticate, Authenticating, Peer, User};

#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) trust: Arc<Rotating<Trust>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Authenticate for Certificates {
    fn authenticate<'a>(&'a self, peer: &'a Peer, _: &'a Parts) -> Authenticating<'a> {
        Box::pin(async move {
            let Some(certificate) = &peer.certificate else { return Ok(None) };
            let chain = [CertificateDer::from(certificate.as_slice())];
            let identity = self.trust.current().identify(&chain, self.clock.now());
            let Ok(identity) = identity else { return Ok(None) }; // a proxy's, perhaps
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
