//! Builds pods from pod templates, and hashes templates.

use api::core::{Pod, PodTemplateSpec};
use object::{Lens, Text, to_json};
use schema::Kind;

/// Characters of hashes; without vowels, so that they form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maximum length of `generateName`, so that the API server can append its suffix.
const LONGEST_PREFIX: usize = 57;

/// Builds a pod from the template, controlled by `owner`. It shares the template's subtrees.
pub(crate) fn new_pod<O: Kind>(owner: &O, template: &PodTemplateSpec) -> Pod {
    let mut prefix = format!("{}-", owner.meta().name());
    prefix.truncate(LONGEST_PREFIX);
    let metadata = object::ObjectMeta::new()
        .with_labels(template.metadata().labels().clone())
        .with_annotations(template.metadata().annotations().clone())
        .with_finalizers(template.metadata().finalizers().clone())
        .with_namespace(owner.meta().namespace())
        .with_generate_name(prefix)
        .with_owner_references([owner.controller_ref()]);
    Pod::new().with_metadata(metadata).with_spec(template.spec().clone())
}

/// The hash of a template, used in names. A different `collisions` yields a different hash, for
/// when the name is taken.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> Text {
    let mut bytes = to_json(template.tree());
    bytes.extend(collisions.into_iter().flat_map(i32::to_le_bytes));
    encode_sum(&bytes)
}

/// The 32-bit FNV-1a hash of some bytes, in the characters of `ALPHABET`.
pub(crate) fn encode_sum(bytes: &[u8]) -> Text {
    let sum = bytes
        .iter()
        .fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    encode(&sum.to_string())
}

fn encode(text: &str) -> Text {
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_and_stay() {
        let template = PodTemplateSpec::new();
        let mut other = PodTemplateSpec::new();
        other.spec_mut().set_node_name("a");
        assert_eq!(hash(&template, None), hash(&template, None));
        assert_ne!(hash(&template, None), hash(&other, None));
        assert_ne!(hash(&template, None), hash(&template, Some(1)));
        assert_eq!(encode("0189"), "45df");
    }
}
