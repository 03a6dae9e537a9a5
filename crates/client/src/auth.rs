//! Who we say we are, in the Authorization header.

use std::{fmt, path::PathBuf, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::future::BoxFuture;
use http::HeaderValue;

use crate::{Error, exec::ExecCredentialPlugin, tls};

/// Secrets are never shown.
#[derive(Clone, Default)]
pub enum Auth {
    /// The connection says it: a certificate, a socket, a pipe.
    #[default]
    None,
    Token(String),
    /// Read for each request: such tokens are renewed every hour.
    TokenFile(PathBuf),
    Basic {
        user: String,
        password: String,
    },
    /// A program gives a token or a certificate.
    Exec(Arc<ExecCredentialPlugin>),
    /// Somebody in this process gives tokens.
    TokenSource(Arc<dyn TokenSource>),
}

/// Gives tokens, and new ones when they become old. What it gives is kept by it: it is
/// asked for each request.
pub trait TokenSource: Send + Sync {
    fn token(&self) -> BoxFuture<'_, Result<String, Error>>;

    /// The last token was refused.
    fn invalidate(&self);
}

/// What others give may change: only those who say nothing are surely the same.
impl PartialEq for Auth {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None))
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::TokenFile(_) => "TokenFile",
            Self::Basic { .. } => "Basic",
            Self::Exec(_) => "Exec",
            Self::TokenSource(_) => "Issued",
        })
    }
}

impl Auth {
    /// The header's value, if there is one to send.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, Error> {
        let text = match self {
            Self::None => return Ok(None),
            Self::Token(token) => format!("Bearer {token}"),
            Self::TokenFile(path) => {
                let token = tls::read(path).await?;
                format!("Bearer {}", String::from_utf8_lossy(&token).trim())
            }
            Self::Basic { user, password } => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
            }
            Self::Exec(exec) => match exec.credential().await?.token {
                Some(token) => format!("Bearer {token}"),
                None => return Ok(None),
            },
            Self::TokenSource(issuer) => format!("Bearer {}", issuer.token().await?),
        };
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| Error::Invalid("the credentials cannot stand in a header".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Certificate and key, if a program gives them.
    pub(crate) async fn certificate(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>, Error> {
        match self {
            Self::Exec(exec) => Ok(exec.credential().await?.pair),
            _ => Ok(None),
        }
    }

    /// The server did not believe us: whether it is worth to ask again.
    pub(crate) async fn on_unauthorized(&self) -> bool {
        match self {
            Self::Exec(exec) => {
                exec.forget().await;
                true
            }
            Self::TokenSource(issuer) => {
                issuer.invalidate();
                true
            }
            _ => false,
        }
    }
}
