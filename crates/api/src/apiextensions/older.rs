//! Definitions as upstream stores them: in v1beta1, where what all versions have in
//! common stands once, above them.

use object::Value;

/// Brings a stored definition to v1.
pub(super) fn from_v1beta1(object: &mut Value) {
    if object.get("apiVersion").as_str() != Some("apiextensions.k8s.io/v1beta1") {
        return;
    }
    let spec = object.get_mut("spec");
    let common = ["validation", "subresources", "additionalPrinterColumns"]
        .map(|name| spec.get(name).clone());
    if let Value::List(versions) = spec.get_mut("versions") {
        for version in versions.make_mut() {
            for (name, common) in
                ["schema", "subresources", "additionalPrinterColumns"].into_iter().zip(&common)
            {
                if version.get(name).is_null() && !common.is_null() {
                    *version.get_mut(name) = common.clone();
                }
            }
            if let Value::List(columns) = version.get_mut("additionalPrinterColumns") {
                columns
                    .make_mut()
                    .iter_mut()
                    .for_each(|column| rename(column, "JSONPath", "jsonPath"));
            } else {
                version.remove("additionalPrinterColumns");
            }
        }
    }
    for name in ["validation", "subresources", "additionalPrinterColumns", "version"] {
        spec.remove(name);
    }
    let conversion = spec.get("conversion");
    if !conversion.get("webhookClientConfig").is_null() {
        let mut webhook = Value::Null;
        *webhook.get_mut("clientConfig") = conversion.get("webhookClientConfig").clone();
        *webhook.get_mut("conversionReviewVersions") =
            conversion.get("conversionReviewVersions").clone();
        *spec.get_mut("conversion").get_mut("webhook") = webhook;
    }
    if !spec.get("conversion").is_null() {
        spec.get_mut("conversion").remove("webhookClientConfig");
        spec.get_mut("conversion").remove("conversionReviewVersions");
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let value = object.get(from).clone();
    if !value.is_null() {
        object.remove(from);
        *object.get_mut(to) = value;
    }
}

#[cfg(test)]
mod tests {
    use object::{from_json, to_json};

    use super::*;

    #[test]
    fn what_versions_share_is_given_to_each() {
        let stored = br#"{"apiVersion":"apiextensions.k8s.io/v1beta1","spec":{"version":"v1","versions":[
            {"name":"v1","served":true,"storage":true},{"name":"v2","schema":{"openAPIV3Schema":{"type":"string"}}}],
            "validation":{"openAPIV3Schema":{"type":"object"}},
            "additionalPrinterColumns":[{"name":"Age","type":"date","JSONPath":".a"}],
            "conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"u"},"conversionReviewVersions":["v1"]}}}"#;
        let mut object = from_json(stored).unwrap();
        from_v1beta1(&mut object);
        let spec = object.get("spec");
        let versions = spec.get("versions").items();
        let kind =
            |nth: usize| versions[nth].get("schema").get("openAPIV3Schema").get("type").as_str();
        assert_eq!((kind(0), kind(1)), (Some("object"), Some("string")));
        let column = &versions[0].get("additionalPrinterColumns").items()[0];
        assert_eq!(
            (column.get("jsonPath").as_str(), column.get("JSONPath").as_str()),
            (Some(".a"), None)
        );
        let webhook = String::from_utf8(to_json(spec.get("conversion"))).unwrap();
        let expected = r#"{"strategy":"Webhook","webhook":{"clientConfig":{"url":"u"},"conversionReviewVersions":["v1"]}}"#;
        assert_eq!(webhook, expected);
        assert!(spec.get("validation").is_null() && spec.get("version").is_null());
    }
}
