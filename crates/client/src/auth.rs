//! Client credentials in the Authorization header.

use std::{fmt, path::PathBuf, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::future::BoxFuture;
use http::HeaderValue;

use crate::{Error, exec::ExecCredentialPlugin, tls};

/// Credentials. Debug output does not show secrets.
#[derive(Clone, Default)]
pub enum Auth {
    /// The connection itself authenticates: a client certificate, a unix socket or a pipe.
    #[default]
    None,
    Token(String),
    /// Read for each request, because such tokens are renewed every hour.
    TokenFile(PathBuf),
    Basic {
        user: String,
        password: String,
    },
    /// A credential plugin provides a token or a certificate.
    Exec(Arc<ExecCredentialPlugin>),
    /// A token source in this process.
    TokenSource(Arc<dyn TokenSource>),
}

/// Provides tokens and renews them. It is called for each request, so it must cache them.
pub trait TokenSource: Send + Sync {
    fn token(&self) -> BoxFuture<'_, Result<String, Error>>;

    /// Called when the server has rejected the last token.
    fn invalidate(&self);
}

/// Credentials may change over time, so only two `None` are equal.
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
    /// The value of the Authorization header, if any.
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
            .map_err(|_| Error::Invalid("the credentials are not a valid header value".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Certificate and key, if a credential plugin provides them.
    pub(crate) async fn certificate(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>, Error> {
        match self {
            Self::Exec(exec) => Ok(exec.credential().await?.pair),
            _ => Ok(None),
        }
    }

    /// Called after 401 Unauthorized. Returns whether to retry with new credentials.
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
