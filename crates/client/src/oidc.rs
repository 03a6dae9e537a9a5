//! The `oidc` auth provider of a kubeconfig: ID tokens of an OpenID Connect provider, refreshed when they expire.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Uri, header::CONTENT_TYPE};
use object::{Clock, SystemClock, Value, from_json, yaml};
use tokio::sync::Mutex;
use tracing::warn;

use crate::{
    Auth, Client, Config, Error, Pem, TcpConnector, TlsOptions, TokenSource, resource::query,
};

/// A token that expires within this time is refreshed.
const EXPIRY_MARGIN_SECONDS: i64 = 10;

/// A token source that refreshes OIDC tokens.
pub(crate) struct OidcTokenSource {
    issuer: String,
    client: (String, String),
    authorities: Option<Pem>,
    /// Where new tokens are saved: the kubeconfig, and the user's name in it.
    file: PathBuf,
    name: String,
    clock: Arc<dyn Clock>,
    tokens: Mutex<Tokens>,
}

#[derive(Clone, Default)]
struct Tokens {
    id: String,
    refresh: String,
    refused: bool,
}

impl OidcTokenSource {
    pub(crate) fn parse(provider: &Value, file: &Path, name: &str) -> Result<Self, Error> {
        let kind = provider["name"].as_str().unwrap_or_default();
        if kind != "oidc" {
            return Err(Error::Invalid(format!(
                "no Auth Provider found for name {kind:?}: use exec"
            )));
        }
        let text = |name: &str| provider["config"][name].as_str().unwrap_or_default().to_owned();
        for name in ["idp-issuer-url", "client-id"] {
            if text(name).is_empty() {
                return Err(Error::Invalid(format!("must provide {name}")));
            }
        }
        let data = text("idp-certificate-authority-data");
        let authorities = match (&*data, &*text("idp-certificate-authority")) {
            ("", "") => None,
            ("", path) => Some(Pem::File(file.parent().unwrap_or(Path::new("")).join(path))),
            (data, _) => Some(Pem::Data(BASE64_STANDARD.decode(data).map_err(|error| {
                Error::Invalid(format!("idp-certificate-authority-data: {error}"))
            })?)),
        };
        let tokens =
            Tokens { id: text("id-token"), refresh: text("refresh-token"), refused: false };
        Ok(Self {
            issuer: text("idp-issuer-url").trim_end_matches('/').to_owned(),
            client: (text("client-id"), text("client-secret")),
            authorities,
            file: file.to_owned(),
            name: name.to_owned(),
            clock: Arc::new(SystemClock),
            tokens: Mutex::new(tokens),
        })
    }

    /// Refreshes the tokens.
    async fn renew(&self, old: &Tokens) -> Result<Tokens, Error> {
        if old.refresh.is_empty() {
            return Err(Error::Invalid(
                "No valid id-token, and cannot refresh without refresh-token".into(),
            ));
        }
        let about = format!("{}/.well-known/openid-configuration", self.issuer);
        let about = self.request(Method::GET, &about, None, String::new()).await?;
        let Some(endpoint) = about["token_endpoint"].as_str() else {
            return Err(Error::Decode("the issuer names no token_endpoint".into()));
        };
        let (id, secret) = &self.client;
        let form = query(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", &old.refresh),
            ("client_id", id),
            ("client_secret", secret),
        ]);
        let form = form.trim_start_matches('?').to_owned();
        let said = self.request(Method::POST, endpoint, Some(&self.client), form).await?;
        let text = |name: &str| said[name].as_str().filter(|text| !text.is_empty());
        let id = text("id_token")
            .ok_or_else(|| Error::Decode("token response did not contain an id_token".into()))?;
        let refresh = text("refresh_token").unwrap_or(&old.refresh);
        Ok(Tokens { id: id.to_owned(), refresh: refresh.to_owned(), refused: false })
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        client: Option<&(String, String)>,
        form: String,
    ) -> Result<Value, Error> {
        let wrong = || Error::Invalid(format!("{url:?} is not an address"));
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']);
        let tls = TlsOptions { ca: self.authorities.clone(), ..TlsOptions::default() };
        let (tls, port) = match uri.scheme_str() {
            Some("https") => (Some(Arc::new(tls)), 443),
            Some("http") => (None, 80),
            _ => return Err(wrong()),
        };
        let tcp = TcpConnector::new(host, uri.port_u16().unwrap_or(port), tls);
        let auth = client.map_or(Auth::None, |(user, password)| Auth::Basic {
            user: user.clone(),
            password: password.clone(),
        });
        let mut headers = HeaderMap::new();
        if !form.is_empty() {
            let urlencoded = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, urlencoded);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let server = Client::new(Config::new(Arc::new(tcp)).auth(auth));
        let answer = server.request(method, path, headers, Bytes::from(form)).await?;
        if !answer.status.is_success() {
            return Err(Error::Invalid(format!("the issuer refuses: {}", answer.status)));
        }
        from_json(&answer.bytes().await?).map_err(|error| Error::Decode(error.to_string()))
    }

    /// Saves new tokens in the kubeconfig, because the old ones may have become invalid.
    fn persist(&self, tokens: &Tokens) -> Result<(), String> {
        let text = std::fs::read_to_string(&self.file).map_err(|error| error.to_string())?;
        let mut tree = yaml::from_yaml(&text).map_err(|error| error.to_string())?;
        let mut users: Vec<Value> = tree["users"].items().to_vec();
        let own = users.iter_mut().find(|user| user["name"].as_str() == Some(&self.name));
        let config = &mut own.ok_or("the user is gone")?["user"]["auth-provider"]["config"];
        config["id-token"] = (&*tokens.id).into();
        config["refresh-token"] = (&*tokens.refresh).into();
        tree["users"] = users.into_iter().collect();
        let beside = self.file.with_extension("renewed");
        let mode = std::fs::metadata(&self.file).map_err(|error| error.to_string())?.permissions();
        std::fs::write(&beside, yaml::to_yaml(&tree))
            .and_then(|()| std::fs::set_permissions(&beside, mode))
            .and_then(|()| std::fs::rename(&beside, &self.file))
            .map_err(|error| error.to_string())
    }
}

impl TokenSource for OidcTokenSource {
    fn token(&self) -> BoxFuture<'_, Result<String, Error>> {
        Box::pin(async {
            let mut tokens = self.tokens.lock().await; // held during the refresh, so that it happens once
            let good = expires(&tokens.id)
                .is_some_and(|end| self.clock.now() + EXPIRY_MARGIN_SECONDS < end);
            if !good || tokens.refused {
                let new = self.renew(&tokens).await?;
                if let Err(why) = self.persist(&new) {
                    warn!(file = %self.file.display(), why, "cannot save the refreshed token in the kubeconfig");
                }
                *tokens = new;
            }
            Ok(tokens.id.clone())
        })
    }

    fn invalidate(&self) {
        if let Ok(mut tokens) = self.tokens.try_lock() {
            tokens.refused = true;
        }
    }
}

/// The expiry time of a token in seconds since 1970.
fn expires(token: &str) -> Option<i64> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    from_json(&claims).ok()?["exp"].as_i64()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    fn token(exp: i64) -> String {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{exp}}}"#));
        format!("e30.{claims}.x")
    }

    #[tokio::test]
    async fn an_old_token_is_renewed_and_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let new = token(SystemClock.now() + 600);
        let (at, given) = (issuer.clone(), new.clone());
        let serve = async move {
            let mut asked = Vec::new();
            for answer in [
                format!(r#"{{"token_endpoint":"{at}/token"}}"#),
                format!(r#"{{"id_token":"{given}","refresh_token":"second"}}"#),
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut read = vec![0; 4096];
                let n = stream.read(&mut read).await.unwrap();
                asked.push(String::from_utf8_lossy(&read[..n]).into_owned());
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                stream.write_all((head + &answer).as_bytes()).await.unwrap();
            }
            asked
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = format!(
            "users: [{{name: me, user: {{auth-provider: {{name: oidc, config: {{idp-issuer-url: \
             \"{issuer}\", client-id: us, client-secret: s, id-token: {}, refresh-token: first}}}}}}}}]",
            token(1)
        );
        std::fs::write(&file, &text).unwrap();
        let tree = yaml::from_yaml(&text).unwrap();
        let provider = &tree["users"].items()[0]["user"]["auth-provider"];
        let oidc = OidcTokenSource::parse(provider, &file, "me").unwrap();
        let (got, asked) = tokio::join!(oidc.token(), serve);
        assert_eq!(got.unwrap(), new);
        assert!(asked[1].contains("refresh_token=first"), "{}", asked[1]);
        assert_eq!(oidc.token().await.unwrap(), new, "nobody is asked again");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(kept.contains("second") && kept.contains(&new), "{kept}");
    }

    #[test]
    fn only_oidc_is_known() {
        let tree = yaml::from_yaml("{name: gcp}").unwrap();
        assert!(OidcTokenSource::parse(&tree, Path::new("x"), "me").is_err());
    }
}
