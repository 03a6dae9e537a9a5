//! The `legacy` format of audit events: one line of text each.

use object::{Text, Value};

/// Formats an event, without the newline.
pub(super) fn line(event: &Value) -> String {
    let text = |tree: &Value, name: &str| {
        Text::from(tree.get(name).as_str().filter(|text| !text.is_empty()).unwrap_or_default())
    };
    let or = |text: Text, otherwise: &str| if text.is_empty() { otherwise.into() } else { text };
    let groups = |user: &Value, otherwise: &str| {
        let all = user.get("groups").items().iter().filter_map(Value::as_str);
        let all: Vec<_> = all.map(|group| format!("{group:?}")).collect();
        if all.is_empty() { otherwise.to_owned() } else { all.join(",") }
    };
    let (user, other) = (event.get("user"), event.get("impersonatedUser"));
    let name = or(text(user, "username"), "<none>");
    let (as_name, as_groups) = match other.is_object() {
        true => (text(other, "username"), groups(other, "<lookup>")),
        false => ("<self>".into(), "<lookup>".to_owned()),
    };
    let ip = event.get("sourceIPs").items().first().and_then(Value::as_str).unwrap_or("<unknown>");
    let code = event.get("responseStatus").get("code").as_i64();
    let code = code.map_or_else(|| "<deferred>".to_owned(), |code| code.to_string());
    format!(
        "{} AUDIT: id={:?} stage={:?} ip={ip:?} method={:?} user={name:?} groups={:?} as={as_name:?} \
         asgroups={as_groups:?} user-agent={:?} namespace={:?} uri={:?} response=\"{code}\"",
        text(event, "requestReceivedTimestamp"),
        text(event, "auditID"),
        text(event, "stage"),
        text(event, "verb"),
        groups(user, "<none>"),
        text(event, "userAgent"),
        or(text(event.get("objectRef"), "namespace"), "<none>"),
        text(event, "requestURI"),
    )
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn all_is_in_one_line() {
        let event = from_json(
            br#"{"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","auditID":"1","stage":"ResponseComplete",
            "sourceIPs":["10.0.0.1"],"verb":"get","user":{"username":"ann","groups":["a","b"]},"userAgent":"kubectl",
            "objectRef":{"namespace":"d"},"requestURI":"/api","responseStatus":{"code":200}}"#,
        );
        assert_eq!(
            line(&event.unwrap()),
            r#"2026-01-01T00:00:00.000000Z AUDIT: id="1" stage="ResponseComplete" ip="10.0.0.1" method="get" user="ann" groups="\"a\",\"b\"" as="<self>" asgroups="<lookup>" user-agent="kubectl" namespace="d" uri="/api" response="200""#
        );
    }
}
