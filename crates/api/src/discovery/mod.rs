//! discovery/v1.

mod endpoint_slice;

pub use self::endpoint_slice::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
