//! KYAML with the fields of built-in kinds in the order of their declaration. Scalars and keys are written by the
//! crate `object`, which itself can only sort fields by name.

use object::{Value, yaml};

use super::order::Declared;

/// Formats an object as KYAML, with its fields in the order of their declaration.
pub(crate) fn declared(object: &Value) -> String {
    let object = object.with_raw_expanded();
    let mut writer =
        Writer { declared: Declared::of(&object), path: Vec::new(), out: String::from("---\n") };
    writer.node(&object, 0);
    writer.out + "\n"
}

/// Writes a value as KYAML.
struct Writer<'a> {
    declared: Declared,
    /// The field names that lead to the current value.
    path: Vec<&'a str>,
    out: String,
}

impl<'a> Writer<'a> {
    fn node(&mut self, value: &'a Value, indent: usize) {
        match value {
            Value::List(items) if !items.is_empty() => self.list(items, indent),
            value if value.is_object() && value.entries().len() > 0 => self.object(value, indent),
            scalar => self.out += &scalar_at(scalar, indent),
        }
    }

    fn object(&mut self, value: &'a Value, indent: usize) {
        let mut entries: Vec<(&'a str, &'a Value)> = value.entries().collect();
        entries.sort_unstable_by_key(|entry| entry.0);
        self.declared.sort(&self.path, &mut entries);
        self.out.push_str("{\n");
        for (name, value) in entries {
            self.begin(indent + 1);
            self.out += &key(name);
            self.path.push(name);
            self.node(value, indent + 1);
            self.path.pop();
            self.out.push_str(",\n");
        }
        self.begin(indent);
        self.out.push('}');
    }

    /// Writes a list. Objects and lists share lines with the brackets, other items have their own lines.
    fn list(&mut self, items: &'a [Value], indent: usize) {
        self.out.push('[');
        if items.iter().all(|item| item.is_object() || matches!(item, Value::List(_))) {
            for (at, item) in items.iter().enumerate() {
                self.out.push_str(if at > 0 { ", " } else { "" });
                self.node(item, indent);
            }
        } else {
            self.out.push('\n');
            for item in items {
                self.begin(indent + 1);
                self.node(item, indent + 1);
                self.out.push_str(",\n");
            }
            self.begin(indent);
        }
        self.out.push(']');
    }

    fn begin(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n("  ", indent));
    }
}

/// Formats a scalar; the lines of a folded text get the indentation.
fn scalar_at(value: &Value, indent: usize) -> String {
    let text = yaml::to_kyaml(value);
    let text = text.strip_prefix("---\n").unwrap_or(&text).trim_end_matches('\n');
    text.replace('\n', &format!("\n{}", "  ".repeat(indent)))
}

/// Formats a key with its colon, quoted if necessary.
fn key(name: &str) -> String {
    let mut alone = Value::object();
    *alone.get_mut(name) = Value::Null;
    let text = yaml::to_kyaml(&alone);
    let line = text.lines().nth(2).unwrap_or_default().trim_start();
    line.strip_suffix("null,").unwrap_or(line).to_owned()
}

#[test]
fn differs_from_the_plain_writer_only_in_order() {
    let text = "{kind: Other, metadata: {name: x, labels: {a/b: c, 'true': 'd e'}}, list: [1, 'a\n  b\n'], deep: [[{a: 'x\ny'}], {}], none: [], nothing: null}";
    let other = yaml::from_yaml(text).expect("YAML");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&declared(&other)), sorted(&yaml::to_kyaml(&other)));
    let map = yaml::from_yaml("{apiVersion: v1, kind: ConfigMap, data: {a: '1'}}").expect("YAML");
    assert_eq!(
        declared(&map),
        "---\n{\n  kind: \"ConfigMap\",\n  apiVersion: \"v1\",\n  data: {\n    a: \"1\",\n  },\n}\n"
    );
}
