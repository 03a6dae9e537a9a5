//! Continue tokens of paginated lists, in upstream's format, so that a client can get the next page
//! from another API server.

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD},
};
use object::{Status, Value, from_json, to_json};

/// Go's base64 decoder ignores trailing bits.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The position of the next page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision that all pages are read at; 0 means the latest for each.
    pub(super) revision: u64,
    /// The key after which the next page begins, without the prefix.
    pub(super) after: String,
}

impl ContinueToken {
    pub(super) fn encode(&self) -> String {
        let mut token = Value::object();
        token["v"] = "meta.k8s.io/v1".into();
        token["rv"] = self.revision.into();
        token["start"] = format!("{}\0", self.after).into();
        URL_SAFE_NO_PAD.encode(to_json(&token))
    }

    pub(crate) fn decode(token: &str) -> Result<Self, Status> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = LENIENT
            .decode(token)
            .map_err(|_| invalid(&format!("illegal base64 data at input byte {}", bad(token))))?;
        let token = from_json(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let version = token.get("v").as_str().unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(invalid(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let (revision, start) = (token.get("rv").as_i64(), token.get("start").as_str());
        if start.is_none_or(str::is_empty) {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        match (revision.filter(|n| *n != 0), start) {
            (Some(revision), Some(start)) if !start.contains("..") => {
                let revision = u64::try_from(revision).unwrap_or_default();
                let after = start.trim_end_matches('\0').trim_start_matches('/').to_owned();
                Ok(Self { revision, after })
            }
            _ => Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
        }
    }
}

/// The position at which Go's base64 decoder fails.
fn bad(token: &str) -> usize {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    token.bytes().position(|c| !good(c)).unwrap_or(token.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_as_it_was_written() {
        let token = ContinueToken { revision: 7, after: "default/web".to_owned() };
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        assert_eq!(ContinueToken::decode("???").unwrap_err().code(), 400);
    }
}
