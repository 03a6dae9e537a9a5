//! apiextensions/v1 ConversionReview: how a webhook is asked to convert.

use macros::api;
use object::{List, Status, Value};

#[api]
pub struct ConversionReview {
    /// What is to be converted.
    request: Option<ConversionRequest>,
    /// What came of it.
    response: Option<ConversionResponse>,
}

#[api]
pub struct ConversionRequest {
    /// Names the request; the answer repeats it.
    uid: Must<String>,
    /// The version to convert to.
    #[api(name = "desiredAPIVersion")]
    desired_api_version: Must<String>,
    /// The objects to convert.
    objects: Must<List<Value>>,
}

#[api]
pub struct ConversionResponse {
    /// The uid of the request.
    uid: Must<String>,
    /// The objects in the new version, in the same order.
    converted_objects: Must<List<Value>>,
    /// Whether it worked, and why not.
    result: Must<Status>,
}
