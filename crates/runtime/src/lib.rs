//! The controller runtime: a `Cache` per kind, a `Queue` of keys, and a
//! `Controller` that connects them to a `Reconcile`. Beside them what every
//! component needs: tasks that end together, a leader, events.

mod any;
mod cache;
mod connection_limit;
mod context;
mod controller;
mod indexed;
mod known;
mod leader;
mod local;
mod objects;
mod queue;
mod recorder;
mod retry;

pub use self::{
    any::{Cacheable, DynamicObject},
    cache::Cache,
    connection_limit::{Admitted, ConnectionLimit},
    context::Context,
    controller::{Controller, Reconcile, Requeue, Step},
    leader::LeaderElector,
    objects::CachedApi,
    queue::WorkQueue,
    recorder::{EventRecorder, EventType, InvolvedObject},
    retry::Backoff,
};
