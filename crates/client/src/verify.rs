//! Verification of server certificates, with Go's error messages.

use std::{io, sync::Arc, time::Duration};

use object::Time;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::{certificate::X509Certificate, parse_x509_certificate};

use crate::tls::PROVIDER;

/// Verifies server certificates against the configured CAs or the system roots. A CA certificate is also accepted as
/// the server certificate itself, because self-signed servers present one.
#[derive(Debug, Default)]
pub(crate) struct ServerVerifier {
    /// `None`: any certificate is accepted whose key the server holds.
    webpki: Option<Arc<WebPkiServerVerifier>>,
    /// The configured CAs; empty for those of the system.
    authorities: Vec<CertificateDer<'static>>,
}

impl ServerVerifier {
    pub(crate) fn new(
        roots: RootCertStore,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, crate::Error> {
        let usual = WebPkiServerVerifier::builder_with_provider(roots.into(), PROVIDER.clone());
        let usual =
            usual.build().map_err(|error| crate::Error::Invalid(format!("TLS: {error}")))?;
        Ok(Self { webpki: Some(usual), authorities })
    }

    /// Whether a CA certificate, which the standard rules reject as a server certificate, is a configured CA or signed
    /// by one, and currently valid.
    fn verify_ca_leaf(
        &self,
        shown: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let bad = |_| CertificateError::BadEncoding;
        let (_, parsed) = parse_x509_certificate(shown).map_err(bad)?;
        if !self.authorities.iter().any(|one| one == shown || signed(&parsed, one)) {
            return Err(CertificateError::UnknownIssuer);
        }
        let seconds = |time: i64| {
            UnixTime::since_unix_epoch(Duration::from_secs(time.try_into().unwrap_or_default()))
        };
        let not_before = seconds(parsed.validity().not_before.timestamp());
        let not_after = seconds(parsed.validity().not_after.timestamp());
        if now < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before });
        }
        if now > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after });
        }
        Ok(())
    }
}

fn signed(parsed: &X509Certificate<'_>, by: &CertificateDer<'_>) -> bool {
    parse_x509_certificate(by).is_ok_and(|(_, by)| {
        parsed.issuer() == by.subject() && parsed.verify_signature(Some(by.public_key())).is_ok()
    })
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(usual) = &self.webpki else { return Ok(ServerCertVerified::assertion()) };
        match usual.verify_server_cert(shown, between, name, ocsp, now) {
            // The error "CA used as end entity" has no variant of its own.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) => {
                self.verify_ca_leaf(shown, now)?;
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            decided => decided,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

/// The error for a rejected server certificate, in Go's words.
pub(crate) fn go_tls_error(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(certificate)) = cause else { return error };
    let why = match certificate {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            outdated(*time, "after", *not_after)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            outdated(*time, "before", *not_before)
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            misnamed(expected, presented)
        }
        other => other.to_string(),
    };
    io::Error::new(error.kind(), format!("tls: failed to verify certificate: x509: {why}"))
}

fn outdated(now: UnixTime, side: &str, limit: UnixTime) -> String {
    let text = |time: UnixTime| Time::format(time.as_secs().try_into().unwrap_or(i64::MAX));
    let (now, limit) = (text(now), text(limit));
    format!("certificate has expired or is not yet valid: current time {now} is {side} {limit}")
}

/// `presented` has entries like `DnsName("a")` and `IpAddress(10.0.0.1)`.
fn misnamed(expected: &ServerName<'_>, presented: &[String]) -> String {
    let is_address = matches!(expected, ServerName::IpAddress(_));
    let family = if is_address { "IpAddress(" } else { "DnsName(" };
    let names = presented.iter().filter_map(|name| name.strip_prefix(family)?.strip_suffix(')'));
    let names: Vec<_> = names.map(|name| name.trim_matches('"')).collect();
    let wanted = expected.to_str();
    match (is_address, &*names) {
        (true, []) => format!(
            "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
        ),
        (false, []) => {
            format!("certificate is not valid for any names, but wanted to match {wanted}")
        }
        _ => format!("certificate is valid for {}, not {wanted}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::pem::PemObject;

    use super::*;

    /// A self-signed CA certificate for hook.test and 192.0.2.1, valid for a century from 2026.
    const SELF_SIGNED: &[u8] = b"-----BEGIN CERTIFICATE-----
MIIBkjCCATegAwIBAgIUbVZ0OrmxrfX+MRVu2sNHvqKNVHgwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEaG9vazAgFw0yNjExMTYxOTM4MTZaGA8yMTI2MTAyMzE5Mzgx
NlowDzENMAsGA1UEAwwEaG9vazBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLVj
Z8J3YC5Yhq+TvhOunnm9sNocJ5yUdsTVxlqDDlFRpE90w0nf6EayutBBenAdoDD2
H48Vx2dfw4JeZ6hEOkejbzBtMB0GA1UdDgQWBBQj4gJ3OG18oOFMOWZUpZxJH0Vy
fDAfBgNVHSMEGDAWgBQj4gJ3OG18oOFMOWZUpZxJH0VyfDAPBgNVHRMBAf8EBTAD
AQH/MBoGA1UdEQQTMBGCCWhvb2sudGVzdIcEwAACATAKBggqhkjOPQQDAgNJADBG
AiEAiJYH39yPtJrOBaD7auIYu8vRpMe+3KD5+yYPZuVPad4CIQCvaYTC6shLwQ0d
Ue1W4hSFWpWmzqzskblY8soMnjTgcA==
-----END CERTIFICATE-----";
    const NOW: u64 = 1_800_000_000;

    /// The result of verifying `SELF_SIGNED` for a name, with this trusted CA.
    fn says(trusted: &CertificateDer<'static>, name: &str, now: u64) -> Result<(), String> {
        let shown = CertificateDer::from_pem_slice(SELF_SIGNED).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let believer = ServerVerifier::new(roots, vec![trusted.clone()]).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let done = believer.verify_server_cert(&shown, &[], &name, &[], now);
        done.map(drop).map_err(|error| go_tls_error(io::Error::other(error)).to_string())
    }

    #[test]
    fn a_server_may_be_its_own_authority() {
        let own = CertificateDer::from_pem_slice(SELF_SIGNED).unwrap();
        assert_eq!(says(&own, "hook.test", NOW), Ok(()));
        assert_eq!(says(&own, "192.0.2.1", NOW), Ok(()));
        let why = |trusted, name, now| says(trusted, name, now).unwrap_err();
        let said = why(&own, "other.test", NOW);
        assert!(
            said.ends_with("x509: certificate is valid for hook.test, not other.test"),
            "{said}"
        );
        let said = why(&own, "192.0.2.2", NOW);
        assert!(
            said.ends_with("x509: certificate is valid for 192.0.2.1, not 192.0.2.2"),
            "{said}"
        );
        let said = why(&own, "hook.test", 1);
        assert!(said.contains("current time 1970-01-01T00:00:01Z is before 20"), "{said}");
        let now = NOW.try_into().unwrap();
        let other = pki::CertificateAuthority::create("other", now).unwrap();
        let said = why(other.certificate(), "hook.test", NOW);
        assert!(said.ends_with("x509: certificate signed by unknown authority"), "{said}");
    }
}
