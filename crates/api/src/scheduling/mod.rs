//! scheduling/v1.

mod priority_class;
pub mod v1alpha3;
pub mod v1beta1;

pub use self::priority_class::PriorityClass;
