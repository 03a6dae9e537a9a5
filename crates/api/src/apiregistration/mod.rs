//! apiregistration/v1.

mod api_service;

pub use self::api_service::{
    APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus, ServiceReference,
};
