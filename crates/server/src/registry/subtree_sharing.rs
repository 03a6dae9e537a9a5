//! Sharing of equal subtrees between objects of one owner, such as the pods of a ReplicaSet, to
//! save memory.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use object::{Object, Value, View};

/// Maximum number of owners in the cache.
const OWNERS: usize = 256;

/// The last object of each owner, by kind and owner uid.
#[derive(Debug, Default)]
pub(super) struct SubtreeSharing(Mutex<HashMap<String, Value>>);

impl SubtreeSharing {
    /// Shares the equal subtrees of a new object with its last sibling.
    pub(super) fn share(&self, object: &mut Value) {
        let seen = Object::view(object);
        let Some(owner) = seen.metadata().controller_ref() else { return };
        let owner = format!("{}/{}", seen.kind(), owner.uid());
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known().get(&owner).cloned();
        if let Some(last) = &last {
            object.share_subtrees_with(last);
        }
        let mut known = known();
        if last.is_none() && known.len() >= OWNERS {
            known.clear();
        }
        known.insert(owner, object.clone());
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn pods_of_one_template_share_it() {
        let pod = |name: &str, owner: &str| {
            let text = format!(
                r#"{{"kind":"Pod","metadata":{{"name":"{name}","ownerReferences":[{{"uid":"{owner}","controller":true}}]}},
                "spec":{{"containers":[{{"name":"c","image":"{name}"}},{{"name":"d"}}]}}}}"#
            );
            from_json(text.as_bytes()).expect("the test writes JSON")
        };
        let (mut a, mut b, mut c) = (pod("a", "x"), pod("b", "x"), pod("c", "y"));
        let siblings = SubtreeSharing::default();
        for pod in [&mut a, &mut b, &mut c] {
            siblings.share(pod);
        }
        let second = |pod: &Value| match pod["spec"]["containers"].items() {
            [_, Value::Object(fields)] => fields.as_ptr(),
            _ => unreachable!("written above"),
        };
        assert_eq!(second(&a), second(&b));
        assert_ne!(second(&a), second(&c));
        assert_eq!(b, pod("b", "x"));
    }
}
