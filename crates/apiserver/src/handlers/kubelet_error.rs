//! Converts the kubelet's error texts for log requests to Status objects.

use http_body_util::BodyExt as _;
use object::{ResourceRef, Status};
use server::{Reply, server_response};

/// Maximum length of a kubelet's text that is passed on, in bytes.
const LONGEST: usize = 50_000;

/// Passes a log on; converts any other response of the kubelet to a Status.
pub(super) async fn check(reply: Reply, pod: &str) -> Result<Reply, Status> {
    let code = reply.status().as_u16();
    if (200..=206).contains(&code) {
        return Ok(reply);
    }
    let text = read(reply).await?;
    Err(match code {
        500 => Status::internal(text),
        400 => Status::bad_request(text),
        code => {
            server_response(code, ResourceRef { group: "", resource: "pods", name: pod }, &text)
        }
    })
}

/// The first [`LONGEST`] bytes of a body.
async fn read(reply: Reply) -> Result<String, Status> {
    let (mut body, mut text) = (reply.into_body(), Vec::new());
    while text.len() < LONGEST
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(Status::internal)?;
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    text.truncate(LONGEST);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
