//! Values as messages show them: those of Go's internal types, which have no names for
//! JSON, so that all fields are there, under the names that Go has for them.

use std::fmt::Write as _;

use object::{Lens, List, StructSchema, Type, Value, View, to_json};

/// A line for each type: `Type: Field Field=json +Embedded json`. What begins with a small
/// letter has a name for JSON after all, and is left out when it is empty.
const TYPES: &str = include_str!("shown.txt");

/// An object as Go prints it.
pub(crate) fn format_go<L: Lens>(object: &L) -> String {
    let mut out = String::new();
    write_struct(L::SHAPE, object.tree(), &mut out);
    out
}

/// A list of objects.
pub(crate) fn format_go_list<L: Lens + View>(objects: &List<L>) -> String {
    let mut out = String::new();
    write_value(List::<L>::TYPE, true, &objects.clone().into(), &mut out);
    out
}

/// An object that may be absent.
pub(crate) fn format_go_option<L: Lens>(object: Option<&L>) -> String {
    object.map_or_else(|| "null".to_owned(), format_go)
}

fn write_struct(shape: &StructSchema, object: &Value, out: &mut String) {
    let start = out.len();
    write_fields(&shape.name, shape, object, out);
    if out.len() == start {
        out.push('{');
    } else {
        out.replace_range(start..=start, "{"); // in place of the first comma
    }
    out.push('}');
}

/// The fields of the type `name`, which are all in the shape, each after a comma.
fn write_fields(name: &str, shape: &StructSchema, object: &Value, out: &mut String) {
    let Some(fields) = fields_of(name) else {
        if is_meta(shape) {
            write_json(object, out);
        } else {
            write_plain(shape, object, out);
        }
        return;
    };
    for field in fields.split_whitespace() {
        if let Some(embedded) = field.strip_prefix('+') {
            match embedded {
                "ObjectMeta" => write_meta(shape, object, out),
                embedded => write_fields(embedded, shape, object, out),
            }
            continue;
        }
        let (go, json) = names(field);
        let value = object.get(&json);
        let Some(field) = shape.field(&json) else { continue };
        let empty = if field.attributes.optional { value.is_null() } else { value.is_zero() };
        if go == json && empty && !field.attributes.no_omitempty {
            continue;
        }
        write!(out, ",{go:?}:").expect("a String takes everything");
        write_value(&field.ty, field.attributes.optional, value, out);
    }
}

fn write_meta(shape: &StructSchema, object: &Value, out: &mut String) {
    if let Some(Type::Object(meta)) = shape.field("metadata").map(|field| &*field.ty) {
        write_fields("ObjectMeta", meta, object.get("metadata"), out);
    }
}

fn write_value(ty: &Type, optional: bool, value: &Value, out: &mut String) {
    match (ty, value) {
        (Type::Object(_), Value::Null) if optional => out.push_str("null"),
        (Type::Object(shape), value) => write_struct(shape, value, out),
        (Type::List(item), Value::List(items)) => {
            for (i, value) in items.iter().enumerate() {
                out.push(if i == 0 { '[' } else { ',' });
                write_value(item, false, value, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        (Type::Bool, Value::Null) if !optional => out.push_str("false"),
        (Type::Int32 | Type::Int64 | Type::UInt64 | Type::IntOrString, Value::Null)
            if !optional =>
        {
            out.push('0');
        }
        (Type::Text | Type::Enum(_), Value::Null) if !optional => out.push_str("\"\""),
        (Type::Quantity, Value::Null) if !optional => out.push_str("\"0\""),
        (_, value) => out.push_str(&String::from_utf8_lossy(&to_json(value))),
    }
}

/// Whether the type has names for JSON after all.
fn is_meta(shape: &StructSchema) -> bool {
    !shape.rust_module.starts_with("api::") || shape.rust_module == "api::meta"
}

/// An object of a type that is not in the table: all fields in the order of their tags.
fn write_plain(shape: &StructSchema, object: &Value, out: &mut String) {
    for field in shape.json_fields() {
        write!(out, ",{:?}:", go_name(&field.name)).expect("a String takes everything");
        write_value(&field.ty, field.attributes.optional, object.get(&field.name), out);
    }
}

/// What Go calls a field, as a rule.
fn go_name(name: &str) -> String {
    const WHOLE: [(&str, &str); 5] =
        [("uid", "UID"), ("api", "API"), ("ip", "IP"), ("url", "URL"), ("tls", "TLS")];
    for (start, go) in WHOLE {
        let rest = name.strip_prefix(start);
        if let Some(rest) = rest.filter(|rest| !rest.starts_with(char::is_lowercase)) {
            return format!("{go}{rest}");
        }
    }
    let mut rest = name.chars();
    let first: String = rest.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}", rest.as_str())
}

/// An object of a type that has names for JSON: as it is.
fn write_json(object: &Value, out: &mut String) {
    let json = to_json(object);
    let json = String::from_utf8_lossy(&json);
    let inner = json.trim_start_matches('{').trim_end_matches('}');
    if !inner.is_empty() {
        out.extend([",", inner]);
    }
}

fn fields_of(name: &str) -> Option<&'static str> {
    TYPES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// What Go calls a field, and its name in JSON.
fn names(field: &str) -> (&str, String) {
    match field.split_once('=') {
        Some((go, json)) => (go, json.to_owned()),
        None => (field, uncapitalized(field)),
    }
}

/// `DNSPolicy` begins with a word of four capitals, the last of which begins the next.
fn uncapitalized(name: &str) -> String {
    let capitals = name.bytes().take_while(u8::is_ascii_uppercase).count();
    let small = if capitals > 1 && capitals < name.len() { capitals - 1 } else { capitals };
    let (first, rest) = name.split_at(small);
    first.to_lowercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        batch::{PodFailurePolicy, PodFailurePolicyRule},
        core::{
            Container, NodeAddress, PodResourceClaim, Probe, SELinuxOptions, SeccompProfile, Taint,
            WindowsSecurityContextOptions,
        },
    };

    #[test]
    fn parts_of_pods_and_nodes_are_shown_whole() {
        for (shown, wanted) in [
            (
                format_go(&SELinuxOptions::new().with_user("u")),
                r#"{"User":"u","Role":"","Type":"","Level":""}"#,
            ),
            (
                format_go(&WindowsSecurityContextOptions::new().with_host_process(true)),
                r#"{"GMSACredentialSpecName":null,"GMSACredentialSpec":null,"RunAsUserName":null,"HostProcess":true}"#,
            ),
            (
                format_go(&SeccompProfile::new().with_localhost_profile("p")),
                r#"{"Type":"","LocalhostProfile":"p"}"#,
            ),
            (
                format_go(&PodResourceClaim::new().with_name("c")),
                r#"{"Name":"c","ResourceClaimName":null,"ResourceClaimTemplateName":null}"#,
            ),
            (
                format_go(&Taint::new().with_key("k").with_effect("NoExecute")),
                r#"{"Key":"k","Value":"","Effect":"NoExecute","TimeAdded":null}"#,
            ),
            (format_go(&NodeAddress::new().with_address("a")), r#"{"Type":"","Address":"a"}"#),
        ] {
            assert_eq!(shown, wanted);
        }
    }

    #[test]
    fn all_fields_are_there() {
        let policy =
            PodFailurePolicy::new().with_rules([PodFailurePolicyRule::new().with_action("Count")]);
        assert_eq!(
            format_go(&policy),
            r#"{"Rules":[{"Action":"Count","OnExitCodes":null,"OnPodConditions":null}]}"#
        );
        let container = format_go(&Container::new().with_name("c"));
        assert!(container.starts_with(r#"{"Name":"c","Image":"","Command":null,"#), "{container}");
        assert!(container.contains(r#""Resources":{"Limits":null,"Requests":null,"Claims":null}"#));
        assert!(format_go(&Probe::new()).starts_with(r#"{"Exec":null,"HTTPGet":null,"#));
    }

    #[test]
    fn every_type_has_the_fields_that_the_table_names() {
        assert_eq!(names("DNSPolicy"), ("DNSPolicy", "dnsPolicy".to_owned()));
        assert_eq!(names("TTY").1, "tty");
        let pod = <crate::core::PodSpec as Lens>::SHAPE;
        for field in fields_of("PodSpec").expect("in the table").split_whitespace() {
            assert!(pod.field(&names(field).1).is_some(), "{field}");
        }
    }
}
