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
    #[api(required, always)]
    uid: String,
    /// The version to convert to.
    #[api(name = "desiredAPIVersion", required, always)]
    desired_api_version: String,
    /// The objects to convert.
    #[api(required, always)]
    objects: List<Value>,
}

#[api]
pub struct ConversionResponse {
    /// The uid of the request.
    #[api(required, always)]
    uid: String,
    /// The objects in the new version, in the same order.
    #[api(required, always)]
    converted_objects: List<Value>,
    /// Whether it worked, and why not.
    #[api(required, always)]
    result: Status,
}
