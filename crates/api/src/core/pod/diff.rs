//! What differs between two specs, for people to read.

use object::Lens;

use super::PodSpec;

/// The lines of both as JSON that are not in the other.
pub(super) fn diff(old: &PodSpec, new: &PodSpec) -> String {
    let mut lines = String::from("@@ -1 +1 @@\n");
    for (sign, here, there) in [('-', old, new), ('+', new, old)] {
        for (name, value) in here.tree().entries() {
            if there.tree().get(name) != value {
                let json = object::to_json(value);
                let line = [&sign.to_string(), " ", name, ": ", &String::from_utf8_lossy(&json)];
                lines.push_str(&line.concat());
                lines.push('\n');
            }
        }
    }
    lines
}
