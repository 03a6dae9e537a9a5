//! Health of the proxy: upstream's /healthz and /livez report whether it keeps up with the API.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::core::Node;
use http::StatusCode;
use object::{Clock as _, MicroTime, SystemClock, Value, to_json};

use crate::{
    Family,
    http::{Answer, JSON},
};

/// A change that is pending for longer makes the proxy unhealthy: twice the default sync period of
/// upstream's kube-proxy, which is 30 seconds.
const LONGEST_PENDING: Duration = Duration::from_mins(1);
/// The taint of a node that the cluster autoscaler is about to remove.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The health of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

/// Times in microseconds since 1970.
#[derive(Debug, Default)]
struct State {
    families: Vec<Family>,
    updated: Option<i64>,
    /// When the oldest change was queued that has not been written.
    pending: Option<i64>,
}

impl Health {
    pub(crate) fn queued(&self) {
        self.state().pending.get_or_insert_with(now);
    }

    pub(crate) fn updated(&self, families: Vec<Family>) {
        *self.state() = State { families, updated: Some(now()), pending: None };
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.state().is_healthy(now())
    }

    /// Answers `/healthz`. `node` is the Node of this proxy: one that is being deleted is not
    /// eligible.
    pub(crate) fn healthz(&self, node: Option<&Node>) -> Answer {
        self.answer(Some(node.is_some_and(is_eligible)))
    }

    pub(crate) fn livez(&self) -> Answer {
        self.answer(None)
    }

    fn answer(&self, eligible: Option<bool>) -> Answer {
        let (state, now) = (self.state(), now());
        let healthy = state.is_healthy(now);
        let good = healthy && eligible != Some(false);
        let text = |at: Option<i64>| at.map_or(NEVER.into(), MicroTime::format);
        let mut tree = Value::object();
        // like upstream, whose clients use it as a sign of life
        tree["lastUpdated"] = text(if good { Some(now) } else { state.updated }).into();
        tree["currentTime"] = MicroTime::format(now).into();
        if let Some(eligible) = eligible {
            tree["nodeEligible"] = eligible.into();
        }
        tree["healthy"] = healthy.into();
        for family in state.families.iter().filter(|_| state.updated.is_some()) {
            let one = &mut tree["status"][family_name(*family)];
            one["lastUpdated"] = text(state.updated).into();
            one["healthy"] = healthy.into();
        }
        let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = String::from_utf8_lossy(&to_json(&tree)).into_owned();
        Answer { status, ..Answer::ok(JSON, body) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A proxy that has not written anything yet is starting, and healthy.
    fn is_healthy(&self, now: i64) -> bool {
        let longest = i64::try_from(LONGEST_PENDING.as_micros()).unwrap_or(i64::MAX);
        let late = self.pending.is_some_and(|since| now.saturating_sub(since) >= longest);
        self.updated.is_none() || !late
    }
}

pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ip => "IPv4",
        Family::Ip6 => "IPv6",
    }
}

/// Whether load balancers may send traffic to the node.
fn is_eligible(node: &Node) -> bool {
    let leaves = node.spec().taints().iter().any(|taint| taint.key() == TO_BE_DELETED);
    !node.metadata().is_terminating() && !leaves
}

fn now() -> i64 {
    SystemClock.now_micros()
}

#[cfg(test)]
mod tests {
    use object::{from_json, yaml::from_yaml};

    use super::*;

    fn node(text: &str) -> Node {
        from_yaml(text).expect("a node").into()
    }

    #[test]
    fn a_change_that_waits_for_long_is_unhealthy() {
        let health = Health::default();
        health.queued();
        assert!(health.is_healthy(), "it is starting");
        health.updated(vec![Family::Ip]);
        health.queued();
        assert!(health.is_healthy());
        let state = health.state();
        let since = state.pending.expect("queued");
        assert!(state.is_healthy(since + 59_000_000));
        assert!(!state.is_healthy(since + 61_000_000));
    }

    #[test]
    fn answers_say_what_upstreams_say() {
        let health = Health::default();
        health.updated(vec![Family::Ip, Family::Ip6]);
        let well = node("metadata: {name: n}");
        for (answer, eligible) in [(health.healthz(Some(&well)), true), (health.livez(), false)] {
            assert_eq!((answer.status, answer.content_type), (StatusCode::OK, JSON));
            let tree = from_json(answer.body.as_bytes()).expect("json");
            assert_eq!(tree["healthy"].as_bool(), Some(true));
            assert_eq!(tree["nodeEligible"].as_bool().is_some(), eligible);
            assert_eq!(tree["status"]["IPv6"]["healthy"].as_bool(), Some(true));
            assert!(tree["lastUpdated"].as_str() > Some("2020"));
        }
        for gone in [
            "metadata: {name: n, deletionTimestamp: '2026-01-01T00:00:00Z'}",
            "metadata: {name: n}\nspec: {taints: [{key: ToBeDeletedByClusterAutoscaler}]}",
        ] {
            let answer = health.healthz(Some(&node(gone)));
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{gone}");
        }
        assert_eq!(health.healthz(None).status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
