//! TLS 1.2 and 1.3 for servers and clients, with certificates that can be replaced at run time.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    ClientConfig, ServerConfig,
    client::WebPkiServerVerifier,
    client::danger::ServerCertVerifier,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use rustls_pki_types::CertificateDer;

use crate::{CertKeyPair, ClientCaVerifier, Error, TlsSettings, identity::roots};

const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The crypto provider of the whole program.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<Arc<CryptoProvider>> =
        std::sync::LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    PROVIDER.clone()
}

/// A server configuration that requests a client certificate: clients without one are accepted, clients with one that
/// `clients` does not trust are rejected.
pub fn server_config(
    pair: &CertKeyPair,
    clients: Option<&ClientCaVerifier>,
) -> Result<ServerConfig, Error> {
    let verifier = match clients {
        Some(clients) => clients.verifier(),
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pair.chain().to_vec(), pair.key().to_der())?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    config.ignore_client_order = true; // our order begins with the strongest
    Ok(config)
}

/// Like `server_config`, with additional certificates for SNI names such as `example.com` or `*.example.com`. The first
/// of the best matches is used.
pub fn server_config_named(
    pair: &CertKeyPair,
    named: &[(Vec<String>, CertKeyPair)],
    (clients, handshakes): (&ClientCaVerifier, &TlsSettings),
) -> Result<ServerConfig, Error> {
    let mut by_name = SniResolver { named: Vec::new(), other: certified(pair)? };
    for (names, pair) in named {
        let key = certified(pair)?;
        let names = names.iter().map(|name| name.trim_end_matches('.').to_lowercase());
        by_name.named.extend(names.map(|name| (name, key.clone())));
    }
    let mut config = handshakes
        .builder()?
        .with_client_cert_verifier(clients.verifier())
        .with_cert_resolver(Arc::new(by_name));
    let protocols = if handshakes.http2 { &PROTOCOLS[..] } else { &PROTOCOLS[1..] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config.ignore_client_order = true;
    Ok(config)
}

/// A client configuration that trusts `authorities`, and presents `pair` if the server requests a certificate.
pub fn client_config(
    authorities: &[CertificateDer<'static>],
    pair: Option<&CertKeyPair>,
) -> Result<ClientConfig, Error> {
    let roots = Arc::new(roots(authorities)?);
    let verifier: Arc<dyn ServerCertVerifier> =
        WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| Error::Untrusted(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match pair {
        Some(pair) => config.with_client_auth_cert(pair.chain().to_vec(), pair.key().to_der())?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Chooses the server certificate by the client's SNI name.
#[derive(Debug)]
struct SniResolver {
    named: Vec<(String, Arc<CertifiedKey>)>,
    other: Arc<CertifiedKey>,
}

impl SniResolver {
    fn find(&self, called: &str) -> Option<&Arc<CertifiedKey>> {
        let wild = called.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let is = |name: &str| self.named.iter().find(|(own, _)| own == name).map(|(_, key)| key);
        is(called).or_else(|| is(&wild?))
    }
}

impl ResolvesServerCert for SniResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = hello.server_name().and_then(|called| self.find(&called.to_lowercase()));
        Some(found.unwrap_or(&self.other).clone())
    }
}

fn certified(pair: &CertKeyPair) -> Result<Arc<CertifiedKey>, Error> {
    let key = pair.key().to_der();
    Ok(Arc::new(CertifiedKey::from_der(pair.chain().to_vec(), key, &provider())?))
}

/// A configuration that is replaced when certificates are renewed; new connections use the new one.
#[derive(Debug)]
pub struct Reloadable<T>(RwLock<Arc<T>>);

impl<T> Reloadable<T> {
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub fn current(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustls::{ClientConnection, ServerConnection, Stream};

    use super::*;
    use crate::{CertificateAuthority, CertificateSpec};

    /// The system time, which the handshake uses.
    fn now() -> i64 {
        jiff::Timestamp::now().as_second()
    }

    fn shake(
        server: ServerConfig,
        client: ClientConfig,
    ) -> Result<Option<CertificateDer<'static>>, String> {
        let name = "api.test".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let (mut near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let far_side = scope.spawn(move || {
                let mut byte = [0];
                Stream::new(&mut server, &mut far)
                    .read_exact(&mut byte)
                    .map_err(|error| error.to_string())?;
                Ok(server.peer_certificates().map(|chain| chain[0].clone().into_owned()))
            });
            // the client's result does not matter: the server decides
            drop(Stream::new(&mut client, &mut near).write_all(b"x"));
            let seen = far_side.join().unwrap();
            drop(near); // not earlier: the server may still be writing
            seen
        })
    }

    #[test]
    fn what_is_shown_depends_on_what_was_called() {
        let ca = CertificateAuthority::create("ca", now()).unwrap();
        let pair = || ca.issue(&CertificateSpec::server("api", vec![], vec![]), now()).unwrap();
        let keys: Vec<_> = (0..3).map(|_| certified(&pair()).unwrap()).collect();
        let named = vec![
            ("*.example.com".to_owned(), keys[0].clone()),
            ("a.example.com".to_owned(), keys[1].clone()),
        ];
        let by_name = SniResolver { named, other: keys[2].clone() };
        let shown = |name: &str| by_name.find(name).map(|key| key.cert[0].clone());
        assert_eq!(shown("a.example.com"), Some(keys[1].cert[0].clone()), "the exact name");
        assert_eq!(shown("b.example.com"), Some(keys[0].cert[0].clone()));
        assert_eq!(shown("b.c.example.com"), None, "one part only");
        assert_eq!(shown("localhost"), None);
    }

    #[test]
    fn clients_come_with_a_good_certificate_or_with_none() {
        let (ca, other) = (
            CertificateAuthority::create("ca", now()).unwrap(),
            CertificateAuthority::create("ca", now()).unwrap(),
        );
        let own = ca
            .issue(&CertificateSpec::server("api", vec!["api.test".into()], vec![]), now())
            .unwrap();
        let roots = std::slice::from_ref(ca.certificate());
        let trust = ClientCaVerifier::new(roots).unwrap();
        let server = || server_config(&own, Some(&trust)).unwrap();
        let jane = ca.issue(&CertificateSpec::client("jane", &[]), now()).unwrap();
        let mallory = other.issue(&CertificateSpec::client("jane", &[]), now()).unwrap();
        let known = shake(server(), client_config(roots, Some(&jane)).unwrap()).unwrap();
        assert_eq!(known.as_ref(), Some(&jane.chain()[0]));
        assert_eq!(shake(server(), client_config(roots, None).unwrap()), Ok(None));
        shake(server(), client_config(roots, Some(&mallory)).unwrap()).unwrap_err();
        let elsewhere = std::slice::from_ref(other.certificate());
        shake(server(), client_config(elsewhere, None).unwrap()).unwrap_err();
    }
}
