//! policy/v1.

mod eviction;
mod pod_disruption_budget;

pub use self::{
    eviction::Eviction,
    pod_disruption_budget::{
        PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
    },
};
