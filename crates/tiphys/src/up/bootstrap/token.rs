//! Bootstrap tokens: `ID.SECRET`, stored in a Secret of kube-system.

use std::{fmt, str::FromStr};

use anyhow::{Result, anyhow, ensure};
use api::core::Secret;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use object::{Bytes, ObjectMeta, Time, from_json};
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

/// The type of Secrets with bootstrap tokens, and the prefix of their names.
pub(crate) const TYPE: &str = "bootstrap.kubernetes.io/token";
pub(crate) const NAME_PREFIX: &str = "bootstrap-token-";
/// The group of those who authenticate with a token of ours: kubeadm's, so that its roles apply.
const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 6;
const SECRET: usize = 16;

/// A bootstrap token. Debug output does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BootstrapToken {
    pub(crate) id: String,
    secret: String,
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Display for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.secret)
    }
}

impl FromStr for BootstrapToken {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_part = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| ALPHABET.contains(&byte))
        };
        let parts = text.split_once('.');
        let parts = parts.filter(|(id, secret)| is_part(id, ID) && is_part(secret, SECRET));
        let (id, secret) = parts.ok_or_else(|| {
            anyhow!("a token is six lower case letters and digits, a dot, and sixteen more")
        })?;
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }
}

impl BootstrapToken {
    pub(crate) fn generate() -> Result<Self> {
        Ok(Self { id: random(ID)?, secret: random(SECRET)? })
    }

    /// The Secret that makes the API server accept the token and sign `cluster-info` with it.
    pub(crate) fn to_secret(&self, description: &str, expires: Option<i64>) -> Secret {
        let mut data = vec![
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("auth-extra-groups", GROUP.to_owned()),
        ];
        if !description.is_empty() {
            data.push(("description", description.to_owned()));
        }
        if let Some(expires) = expires {
            data.push(("expiration", Time::format(expires).to_string()));
        }
        let name = format!("{NAME_PREFIX}{}", self.id);
        let mut secret = Secret::new()
            .with_metadata(ObjectMeta::new().with_name(&*name).with_namespace("kube-system"))
            .with_type(TYPE);
        for (name, text) in data {
            secret.data_mut().insert(name, Bytes::encode(text.as_bytes()));
        }
        secret
    }

    /// Verifies a detached JWS signature (HS256) of `content` by this token.
    pub(super) fn verify(&self, content: &str, signature: &str) -> Result<()> {
        let (header, tag) = signature.split_once("..").ok_or_else(|| anyhow!("no detached JWS"))?;
        let fields = from_json(&BASE64_URL_SAFE_NO_PAD.decode(header)?)?;
        ensure!(
            fields["alg"].as_str() == Some("HS256") && fields["kid"].as_str() == Some(&self.id),
            "the signature is of another kind or by another token"
        );
        let message = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(content));
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag)?;
        hmac::verify(&key, message.as_bytes(), &tag).map_err(|_| anyhow!("the signature is wrong"))
    }
}

/// Random letters and digits, each with the same probability.
fn random(length: usize) -> Result<String> {
    let mut text = String::new();
    while text.len() < length {
        let mut byte = [0; 1];
        SystemRandom::new().fill(&mut byte).map_err(|_| anyhow!("no random numbers"))?;
        let [byte] = byte;
        let even = u8::MAX - u8::MAX % 36; // bytes above would make some letters more likely
        if byte < even {
            text.extend(ALPHABET.get(usize::from(byte % 36)).map(|letter| char::from(*letter)));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_as_kubeadm_does() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        assert_eq!((&*token.id, &*token.to_string()), ("abcdef", "abcdef.0123456789abcdef"));
        assert_eq!(format!("{token:?}"), "BootstrapToken { id: \"abcdef\", .. }");
        for wrong in
            ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "äbcde.0123456789abcdef"]
        {
            assert!(wrong.parse::<BootstrapToken>().is_err(), "{wrong}");
        }
        let made = BootstrapToken::generate().unwrap();
        assert_eq!(made.to_string().parse::<BootstrapToken>().unwrap(), made);
    }

    #[test]
    fn a_secret_has_what_the_api_server_and_the_signer_look_for() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        let secret = token.to_secret("for n2", Some(3600));
        assert_eq!(secret.metadata().name(), "bootstrap-token-abcdef");
        let text = |name: &str| Bytes::decode(secret.data().get(name).unwrap()).unwrap();
        assert_eq!(text("expiration"), b"1970-01-01T01:00:00Z");
        assert_eq!(text("token-secret"), b"0123456789abcdef");
        assert!(token.to_secret("", None).data().get("expiration").is_none());
    }

    /// The signature of `content` that kubeadm's signer makes with the token above.
    #[test]
    fn signatures_are_verified() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"abcdef"}"#);
        let message = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode("content"));
        let sign = |secret: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let tag = hmac::sign(&key, message.as_bytes());
            format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
        };
        token.verify("content", &sign("0123456789abcdef")).unwrap();
        for (content, signature) in [
            ("other", sign("0123456789abcdef")),
            ("content", sign("another-secret--")),
            ("content", String::new()),
            ("content", "..".to_owned()),
            ("content", sign("0123456789abcdef").replace("..", ".e30.")),
        ] {
            assert!(token.verify(content, &signature).is_err(), "{content} {signature}");
        }
    }
}
