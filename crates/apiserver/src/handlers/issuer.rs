//! Who issues the tokens of service accounts, for those who check them elsewhere.

use std::{net::SocketAddr, sync::Arc};

use object::{Status, from_json};
use pki::PublicKey;
use server::{Handle, Handling, Request, Server, object_reply};

#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) keys: Vec<PublicKey>,
    pub(crate) address: SocketAddr,
}

impl Handle for Issuer {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> Handling<'a> {
        Box::pin(async move {
            let keys_at = format!("https://{}/openid/v1/jwks", self.address);
            let text = match &*request.info.path {
                "/.well-known/openid-configuration" => {
                    pki::openid_configuration(&self.name, &keys_at, &self.keys)
                }
                "/openid/v1/jwks" => pki::key_set(&self.keys),
                _ => return Err(Status::no_resource()),
            };
            let document = from_json(text.as_bytes()).map_err(Status::internal)?;
            Ok(object_reply(200, &document))
        })
    }
}
