//! Clients that act as a controller's service account. They get a token from the TokenRequest API
//! and renew it before it expires.

use std::sync::{Arc, Mutex, PoisonError};

use api::{
    authentication::{TokenRequest, TokenRequestSpec},
    core::{Namespace, ServiceAccount},
};
use client::{Api, Auth, Client, Error, TokenSource};
use futures_util::{FutureExt, future::BoxFuture};
use object::{Clock, NamespacedName, ObjectMeta, SystemClock, Time, Value};

use crate::service_account::ignore_race;

const NAMESPACE: &str = "kube-system";
/// Requested lifetime of a token, in seconds.
const TOKEN_LIFETIME_SECONDS: i64 = 3600;
/// Fraction of its lifetime after which a token is renewed.
const RENEW_FRACTION: (i64, i64) = (4, 5);

/// Creates a client that authenticates as `system:serviceaccount:kube-system:NAME`. It requests
/// tokens with `asking`, and sends them on connections configured by `showing`.
pub fn service_account_client(asking: &Client, showing: &client::Config, name: &str) -> Client {
    let account = TokenRequester {
        client: asking.clone(),
        name: name.to_owned(),
        token: Mutex::default(),
        clock: Arc::new(SystemClock),
    };
    Client::new(showing.clone().auth(Auth::TokenSource(Arc::new(account))).manager(name))
}

/// Source of the tokens of one service account; caches the current token.
struct TokenRequester {
    client: Client,
    name: String,
    token: Mutex<Option<Token>>,
    clock: Arc<dyn Clock>,
}

/// A token and the time at which it is renewed.
#[derive(Clone)]
struct Token {
    text: String,
    /// When to request a new token, in seconds since 1970.
    until: i64,
}

impl TokenSource for TokenRequester {
    fn token(&self) -> BoxFuture<'_, Result<String, Error>> {
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let good = known.filter(|token| token.until > self.clock.now());
        async move {
            if let Some(token) = good {
                return Ok(token.text);
            }
            let token = self.request_token().await?;
            let text = token.text.clone();
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
            Ok(text)
        }
        .boxed()
    }

    fn invalidate(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl TokenRequester {
    async fn request_token(&self) -> Result<Token, Error> {
        let now = self.clock.now();
        let answer = match self.request().await {
            Err(error) if error.is_not_found() => {
                self.make().await?;
                self.request().await?
            }
            answer => answer?,
        };
        let status = TokenRequest::from(answer);
        let (text, end) = (status.status().token(), status.status().expiration_timestamp());
        let end = Time::parse_seconds(end).filter(|_| !text.is_empty());
        let end = end.ok_or_else(|| Error::Decode("the server gave no token".into()))?;
        Ok(Token {
            text: text.to_owned(),
            until: now.saturating_add(
                end.saturating_sub(now).saturating_mul(RENEW_FRACTION.0) / RENEW_FRACTION.1,
            ),
        })
    }

    async fn request(&self) -> Result<Value, Error> {
        let wanted = TokenRequest::new()
            .with_spec(TokenRequestSpec::new().with_expiration_seconds(TOKEN_LIFETIME_SECONDS));
        let mut body = Value::from(wanted);
        body["apiVersion"] = "authentication.k8s.io/v1".into();
        body["kind"] = "TokenRequest".into();
        let accounts = Api::<ServiceAccount>::new(&self.client);
        accounts
            .create_subresource(&NamespacedName::new(NAMESPACE, &self.name), "token", &body)
            .await
    }

    /// Creates the service account. The namespace is created only if it is missing: it mostly
    /// exists, and the client may not be allowed to create namespaces.
    async fn make(&self) -> Result<(), Error> {
        let meta = ObjectMeta::new().with_name(&*self.name).with_namespace(NAMESPACE);
        let account = ServiceAccount::new().with_metadata(meta);
        let accounts = Api::<ServiceAccount>::new(&self.client);
        match accounts.create(account.clone()).await {
            Err(error) if error.is_not_found() => {
                let meta = ObjectMeta::new().with_name(NAMESPACE);
                let namespaces = Api::<Namespace>::new(&self.client);
                ignore_race(namespaces.create(Namespace::new().with_metadata(meta)).await)?;
                ignore_race(accounts.create(account).await)
            }
            made => ignore_race(made),
        }
    }
}
