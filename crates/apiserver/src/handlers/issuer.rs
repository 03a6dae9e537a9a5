//! Who issues the tokens of service accounts, for those who check them elsewhere.

use std::sync::Arc;

use object::{Status, from_json};
use pki::PublicKey;
use server::{Handle, Handling, Request, Server, object_reply};

#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) keys: Vec<PublicKey>,
    /// Where the keys are, for those who ask.
    pub(crate) keys_at: String,
}

impl Handle for Issuer {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> Handling<'a> {
        Box::pin(async move {
            let text = match &*request.info.path {
                "/.well-known/openid-configuration" => {
                    pki::openid_configuration(&self.name, &self.keys_at, &self.keys)
                }
                "/openid/v1/jwks" => pki::key_set(&self.keys),
                _ => return Err(Status::no_resource()),
            };
            let document = from_json(text.as_bytes()).map_err(Status::internal)?;
            Ok(object_reply(200, &document))
        })
    }
}
