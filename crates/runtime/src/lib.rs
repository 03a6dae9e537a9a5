//! The controller runtime: a `Cache` per kind, a `WorkQueue` of keys, and a `Controller` that connects them to a
//! `Reconcile`. In addition what every component needs: task management, leader election and events.

mod cache;
mod cache_state;
mod connection_limit;
mod context;
mod controller;
mod correlator;
mod dynamic_object;
mod indexed;
mod informer;
mod leader;
pub mod metrics;
mod objects;
mod queue;
mod queue_metrics;
mod recorder;
mod retry;

pub use self::{
    cache::Cache,
    connection_limit::{Admitted, ConnectionLimit},
    context::Context,
    controller::{Controller, Reconcile, Requeue, Step},
    dynamic_object::{Cacheable, DynamicObject},
    leader::LeaderElector,
    objects::CachedApi,
    queue::WorkQueue,
    recorder::{EventRecorder, EventType, InvolvedObject},
    retry::Backoff,
};
