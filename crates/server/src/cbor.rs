//! CBOR (RFC 8949), the subset that API objects need. Alpha in Kubernetes: used only if the feature
//! gate `CBORServingAndStorage` is on.
//!
//! ```text
//!  d9d9f7             the self-described CBOR tag: every document begins with it
//!  a2 44"kind" …      keys and strings are encoded as byte strings with UTF-8 content
//!  d6 43 01 02 03     the bytes of a field that is base64 in JSON
//! ```

mod decode;
mod encode;

pub(crate) use self::{
    decode::{Error, read},
    encode::{encode_document, event, list},
};

/// The self-described CBOR tag that every document starts with.
pub(crate) const MAGIC: &[u8] = &[0xd9, 0xd9, 0xf7];

/// Major types: the upper three bits of an item's first byte.
mod major {
    pub(super) const UNSIGNED: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
    pub(super) const MAP: u8 = 5;
    pub(super) const TAG: u8 = 6;
    pub(super) const SIMPLE: u8 = 7;
}

/// Tags of byte strings with an expected later encoding (RFC 8949, section 3.4.5.2).
mod later {
    pub(super) const BASE64_URL: u64 = 21;
    pub(super) const BASE64: u64 = 22;
    pub(super) const HEX: u64 = 23;
}

#[cfg(test)]
mod tests {
    use object::{Lens, Value, from_json};

    use super::*;

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).expect("written in a test")
    }

    fn back(bytes: &[u8]) -> Result<Value, Error> {
        read(None, bytes).map(|read| read.tree)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let whole = tree(
            r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n","labels":{"b":"1","a":"2"}},
            "spec":{"i":[0,23,24,255,256,65535,65536,4294967296,-1,-25,9223372036854775807],
            "f":[1.5,0.1,1e300,65504.5],"n":null,"t":true,"e":{},"l":[],"s":"grün"}}"#,
        );
        let bytes = encode_document(None, &whole);
        assert!(bytes.starts_with(MAGIC));
        assert_eq!(back(&bytes), Ok(whole));
    }

    #[test]
    fn names_are_sorted_by_length_and_floats_are_short() {
        let bytes = encode_document(None, &tree(r#"{"bb":1.5,"c":0.1,"a":-1}"#));
        let right = [
            &[0xd9, 0xd9, 0xf7, 0xa3, 0x41, b'a', 0x20, 0x41, b'c', 0xfb][..],
            &0.1f64.to_be_bytes(),
            &[0x42, b'b', b'b', 0xf9, 0x3e, 0x00],
        ];
        assert_eq!(bytes, right.concat());
    }

    #[test]
    fn bytes_are_bytes_where_the_field_says_so() {
        let shape = <object::Status as Lens>::SHAPE; // no byte fields: strings stay as they are
        let bytes = encode_document(Some(shape), &tree(r#"{"message":"AQID"}"#));
        assert_eq!(&bytes[4..], [&[0x47][..], b"message", &[0x44], b"AQID"].concat());
        assert_eq!(back(&[0xa1, 0x41, b'x', 0xd6, 0x43, 1, 2, 3]), Ok(tree(r#"{"x":"AQID"}"#)));
        assert_eq!(back(&[0xa1, 0x41, b'x', 0xd7, 0x42, 1, 0xab]), Ok(tree(r#"{"x":"01ab"}"#)));
        assert_eq!(
            back(&[0xa1, 0x41, b'x', 0xd5, 0x43, 0xfb, 0xff, 0xfe]),
            Ok(tree(r#"{"x":"-__-"}"#))
        );
    }

    #[test]
    fn what_others_write_is_read() {
        let open = [&[0xbf, 0x61, b'a', 0x7f, 0x61, b'x', 0x61, b'y', 0xff][..], &[0xff]].concat();
        assert_eq!(back(&open), Ok(tree(r#"{"a":"xy"}"#)));
        let when = [&[0xa1, 0x41, b't', 0xc1, 0x1a][..], &[0x51, 0x4b, 0x67, 0xb0]].concat();
        assert_eq!(back(&when), Ok(tree(r#"{"t":"2013-03-21T20:04:00Z"}"#)));
        assert_eq!(back(&[0xa1, 0x41, b't', 0xd8, 0x20, 0x41, b'a']), Ok(tree(r#"{"t":"a"}"#)));
    }

    #[test]
    fn what_is_no_object_is_refused_in_words() {
        let refused = |bytes: &[u8]| back(bytes).expect_err("it is wrong").to_string();
        assert_eq!(refused(&[]), "EOF");
        assert_eq!(refused(&[0xa1, 0x41]), "unexpected EOF");
        assert_eq!(refused(&[0xff]), "cbor: unexpected \"break\" code");
        assert_eq!(refused(&[0xa0, 0]), "cbor: 1 bytes of extraneous data starting at index 1");
        let twice = [0xa2, 0x41, b'a', 1, 0x41, b'a', 2];
        assert_eq!(refused(&twice), "cbor: found duplicate map key \"a\" at map element index 1");
        assert!(matches!(back(&twice), Err(Error::Unreadable(_))));
        let within = [&[0xa1, 0x41, b'x'][..], &twice].concat();
        assert!(matches!(back(&within), Err(Error::Misfit(_))));
        assert!(refused(&[0xa1, 0x41, b'a', 0xf9, 0x7e, 0]).ends_with("floating-point NaN"));
        assert!(refused(&[0xa1, 0x41, b'a', 0xc2, 0x41, 1]).ends_with("bignum"));
        assert!(refused(&[0xa1, 0x41, b'a', 0xf7]).ends_with("simple value 23 is not recognized"));
        let deep = [vec![0x81; 100_000], vec![1]].concat();
        assert!(refused(&deep).starts_with("cbor: exceeded max nested level"));
        let huge = [0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(refused(&huge), "unexpected EOF");
    }
}
