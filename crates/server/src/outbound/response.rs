//! Interprets responses with client-go's error messages.

use bytes::Bytes;
use http::{Response, StatusCode, header::CONTENT_TYPE};
use object::{
    Object, ResourceRef, Status, StatusDetails, Value, View, from_json, quote::quote,
    yaml::from_yaml,
};

use crate::codec::typed;

/// Maximum length of a response body in an error message.
const LONGEST: usize = 2048;

/// Decodes the object of a response, in JSON or YAML.
pub(super) fn read(answer: &Response<Bytes>) -> Result<Value, String> {
    let (code, body) = (answer.status(), answer.body());
    if !(StatusCode::OK..=StatusCode::PARTIAL_CONTENT).contains(&code) {
        return Err(refused(answer));
    }
    if body.is_empty() {
        let kind = content_type(answer).unwrap_or("application/json");
        let code = code.as_u16();
        return Err(format!("0-length response with status code: {code} and content type: {kind}"));
    }
    tree(body)
}

fn tree(body: &[u8]) -> Result<Value, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = if body.trim_ascii_start().starts_with(b"{") {
        from_json(body).map_err(|error| unread(error.to_string()))?
    } else {
        let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet")?;
        from_yaml(text).map_err(|error| error.to_string())?
    };
    let tree = if tree.is_null() { Value::object() } else { tree };
    typed(&tree).map_err(unread)?;
    Ok(tree)
}

/// The error message of a failed response: that of its Status, or a generic one.
fn refused(answer: &Response<Bytes>) -> String {
    if let Ok(tree) = tree(answer.body())
        && Object::view(&tree).kind() == "Status"
        && Status::view(&tree).status() == "Failure"
    {
        return Status::view(&tree).message().to_owned();
    }
    let is_text = content_type(answer).is_none_or(|kind| kind.starts_with("text/"));
    let body = answer.body().get(..LONGEST).unwrap_or(answer.body());
    let said = if is_text { String::from_utf8_lossy(body) } else { "unknown".into() };
    let said = said.trim();
    reason_and_message(answer.status().as_u16(), said).1
}

/// The Status for a response that is not a Kubernetes object, as client-go's
/// `NewGenericServerResponse` builds it if the verb is not known.
pub fn server_response(code: u16, subject: ResourceRef, body: &str) -> Status {
    let (reason, message) = reason_and_message(code, body);
    let ResourceRef { group, resource, name } = subject;
    let resource_and_group =
        if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let message = format!("{message} ( {resource_and_group} {name})");
    let details = StatusDetails::new().with_name(name).with_group(group).with_kind(resource);
    Status::failure(code.into(), reason, message).with_details(details)
}

fn reason_and_message(code: u16, said: &str) -> (&'static str, String) {
    let (reason, message) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", said),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => {
            ("MethodNotAllowed", "the server does not allow this method on the requested resource")
        }
        406 if matches!(said, "" | "unknown") => (
            "NotAcceptable",
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => ("NotAcceptable", said),
        409 => ("Conflict", "the server reported a conflict"),
        415 => ("UnsupportedMediaType", said),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request",
        ),
        code if code >= 500 => {
            let said = quote(said);
            let message = format!(
                "an error on the server ({said}) has prevented the request from succeeding"
            );
            return ("InternalError", message);
        }
        code => {
            let message = format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            );
            return ("", message);
        }
    };
    (reason, message.to_owned())
}

fn content_type(answer: &Response<Bytes>) -> Option<&str> {
    let value = answer.headers().get(CONTENT_TYPE)?;
    value.to_str().ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_told() {
        let told = |code: u16, kind: &str, body: &'static str| {
            let answer = Response::builder().status(code).header(CONTENT_TYPE, kind);
            read(&answer.body(Bytes::from(body)).unwrap()).unwrap_err()
        };
        let json = "application/json";
        let unread = "couldn't get version/kind; json parse error: ";
        let cases = [
            (
                200,
                json,
                "",
                "0-length response with status code: 200 and content type: application/json",
            ),
            (
                200,
                json,
                "{nope",
                "invalid character 'n' looking for beginning of object key string",
            ),
            (200, json, "[]", "json: cannot unmarshal array into Go value"),
            (200, json, "not json", "json: cannot unmarshal string into Go value"),
            (
                200,
                json,
                "{\"kind\":1}",
                "cannot unmarshal number into Go struct field .kind of type string",
            ),
            (500, json, "oops", "an error on the server (\"unknown\") has prevented"),
            (500, "text/plain", " oops\n", "an error on the server (\"oops\") has prevented"),
            (
                301,
                json,
                "",
                "the server responded with the status code 301 but did not return more information",
            ),
            (
                403,
                json,
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"mine"}"#,
                "mine",
            ),
        ];
        for (code, kind, body, expected) in cases {
            let why = told(code, kind, body);
            assert!(why.trim_start_matches(unread).contains(expected), "{body}: {why}");
        }
    }

    #[test]
    fn yaml_will_do() {
        let read = read(&Response::new(Bytes::from("kind: Review\nstatus: {allowed: true}")));
        assert_eq!(read.unwrap()["status"]["allowed"].as_bool(), Some(true));
    }
}
