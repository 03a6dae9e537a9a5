//! Client certificates: the common name is the user, organizations are groups.

use std::sync::Arc;

use http::request::Parts;
use object::Clock;
use pki::{Rotating, Trust};
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
            Ok(Some(User::new(&identity.common_name, &groups)))
        })
    }
}
