//! apiextensions/v1 ConversionReview: how a webhook is asked to convert.

use macros::api;
use object::{List, Status, Value};

#[api]
pub struct ConversionReview {
    #[api(tag = 1)]
    request: Option<ConversionRequest>,
    #[api(tag = 2)]
    response: Option<ConversionResponse>,
}

#[api]
pub struct ConversionRequest {
    #[api(tag = 1, required, always)]
    uid: String,
    #[api(tag = 2, name = "desiredAPIVersion", required, always)]
    desired_api_version: String,
    #[api(tag = 3, required, always)]
    objects: List<Value>,
}

#[api]
pub struct ConversionResponse {
    #[api(tag = 1, required, always)]
    uid: String,
    #[api(tag = 2, required, always)]
    converted_objects: List<Value>,
    #[api(tag = 3, required, always)]
    result: Status,
}
