//! OIDC discovery of the service account issuer: the discovery document and the public keys.

use std::sync::Arc;

use http::{
    HeaderValue, Method,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use object::{Status, StatusDetails, from_json};
use server::{
    EndpointHandler, Request, ResponseFuture, Server, object_reply, require_acceptable, text_reply,
};

use crate::authn::ServiceAccountAuthenticator;

/// The handler of `/.well-known/openid-configuration` and `/openid/v1/jwks`.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) accounts: Arc<ServiceAccountAuthenticator>,
    /// The `jwks_uri` of the discovery document.
    pub(crate) keys_at: String,
}

impl EndpointHandler for Issuer {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (keys, seconds) = self.accounts.published_keys();
            let (form, text) = match &*request.info.path {
                "/.well-known/openid-configuration" => {
                    let text = pki::openid_configuration(&self.name, &self.keys_at, &keys);
                    ("application/json", text)
                }
                "/openid/v1/jwks" => ("application/jwk-set+json", pki::key_set(&keys)),
                path if path.starts_with("/openid/v1/jwks/")
                    || path.starts_with("/.well-known/openid-configuration/") =>
                {
                    return Err(Status::unknown_resource());
                }
                _ => return Ok(text_reply(404, "404 page not found")),
            };
            if request.head.method != Method::GET {
                let why = "the server does not allow this method on the requested resource";
                return Err(Status::method_not_allowed(why).with_details(StatusDetails::new()));
            }
            require_acceptable(&request.head.headers, form)?;
            let document = from_json(text.as_bytes()).map_err(Status::internal)?;
            let mut reply = object_reply(200, &document);
            reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
            let kept = HeaderValue::from_str(&format!("public, max-age={seconds}"));
            reply.headers_mut().insert(CACHE_CONTROL, kept.expect("a number and words"));
            Ok(reply)
        })
    }
}
