//! TLS versions, cipher suites and curves of a server.

use std::sync::Arc;

use rustls::{
    ConfigBuilder, ServerConfig, SupportedCipherSuite, WantsVerifier,
    crypto::CryptoProvider,
    version::{TLS12, TLS13},
};

use crate::{Error, provider};

/// TLS settings; the default permits everything that is secure.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    provider: Arc<CryptoProvider>,
    tls13_only: bool,
    pub(crate) http2: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self { provider: provider(), tls13_only: false, http2: true }
    }
}

impl TlsSettings {
    /// TLS 1.3 only, or 1.2 as well; the cipher suites of TLS 1.2, by their RFC names; and the curves, by their IANA
    /// numbers in order of preference. Empty lists mean all.
    pub fn new(newest_only: bool, suites: &[String], curves: &[u16]) -> Result<Self, Error> {
        let mut chosen = CryptoProvider::clone(&provider());
        for name in suites {
            if !chosen.cipher_suites.iter().any(|own| is(own, name)) {
                return Err(Error::Unsupported(format!("cipher suite {name:?}")));
            }
        }
        if !suites.is_empty() {
            chosen
                .cipher_suites
                .retain(|own| own.tls13().is_some() || suites.iter().any(|name| is(own, name)));
        }
        if !curves.is_empty() {
            let all = std::mem::take(&mut chosen.kx_groups);
            for number in curves {
                let found = all.iter().find(|own| u16::from(own.name()) == *number);
                let wrong = || Error::Unsupported(format!("curve {number}"));
                chosen.kx_groups.push(*found.ok_or_else(wrong)?);
            }
        }
        Ok(Self { provider: Arc::new(chosen), tls13_only: newest_only, http2: true })
    }

    /// Sets whether HTTP/2 is offered.
    #[must_use]
    pub fn with_http2(self, http2: bool) -> Self {
        Self { http2, ..self }
    }

    pub(crate) fn builder(&self) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, Error> {
        let versions = if self.tls13_only { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        Ok(builder.with_protocol_versions(versions)?)
    }
}

/// Whether a suite has this name in RFCs or in Go, which differ for one suite.
fn is(suite: &SupportedCipherSuite, name: &str) -> bool {
    let own = suite.suite();
    let own = own.as_str().unwrap_or_default().replace("TLS13_", "TLS_");
    own == name || (name.ends_with("CHACHA20_POLY1305") && own == format!("{name}_SHA256"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suites: &[&str]) -> Vec<String> {
        suites.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_is_named_is_spoken() {
        let one = names(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        let chosen = TlsSettings::new(false, &one, &[24, 29]).unwrap();
        let old = |own: &&SupportedCipherSuite| own.tls13().is_none();
        assert_eq!(chosen.provider.cipher_suites.iter().filter(old).count(), 1);
        let curves: Vec<_> =
            chosen.provider.kx_groups.iter().map(|own| u16::from(own.name())).collect();
        assert_eq!(curves, [24, 29]);
        chosen.builder().unwrap();
        let all = names(&[
            "TLS_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ]);
        assert!(TlsSettings::new(true, &all, &[]).is_ok());
    }

    #[test]
    fn what_is_not_safe_is_refused() {
        let old = names(&["TLS_RSA_WITH_3DES_EDE_CBC_SHA"]);
        let said = TlsSettings::new(false, &old, &[]).unwrap_err().to_string();
        assert!(said.contains("3DES"), "{said}");
        assert!(TlsSettings::new(false, &[], &[1]).is_err());
    }
}
