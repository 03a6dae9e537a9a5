//! Startup, liveness and readiness probes of containers.

mod command;
mod grpc;
mod metrics;
mod prober;

use std::{sync::Arc, time::Duration};

use api::core::{Container, Pod, Probe, ProbeHandler};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

use self::command::Failure;
pub(crate) use self::{
    metrics::ProbeMetrics,
    prober::{ProbeTarget, run_hook},
};

/// Maximum number of bytes that are read of a container's answer to a probe.
const LONGEST: usize = 10 << 10;

/// Type of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeType {
    Startup,
    Liveness,
    Readiness,
}

/// A probe result that the pod worker must handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeEvent {
    Started,
    Ready(bool),
    /// The container must be killed, with the probe's own grace period if it has one.
    Failed(ProbeType, Option<i64>),
    /// One probe failed, with this output.
    Unhealthy(ProbeType, String),
    /// The probe could not be run, for this reason.
    Errored(ProbeType, String),
}

/// Counts consecutive results against `successThreshold` and `failureThreshold`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThresholdCounter {
    good: i32,
    bad: i32,
}

impl ThresholdCounter {
    /// Counts a result. `Some` once a threshold is reached.
    pub fn count(&mut self, probe: &Probe, good: bool) -> Option<bool> {
        if good {
            (self.good, self.bad) = (self.good.saturating_add(1), 0);
            (self.good >= probe.success_threshold()).then_some(true)
        } else {
            (self.good, self.bad) = (0, self.bad.saturating_add(1));
            (self.bad >= probe.failure_threshold()).then_some(false)
        }
    }
}

impl ProbeType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// Runs all probes of a running container until the future is dropped. Sends results with the container's id, and
/// counts them in the metrics. `began` is the time since the container started. Once `ending` is true, only the
/// readiness probe goes on: endpoints must follow it, but a terminating container need not be killed.
pub(crate) async fn run(
    target: ProbeTarget,
    (pod, container): (Pod, Container),
    began: Duration,
    ending: watch::Receiver<bool>,
    (tally, findings): (Arc<ProbeMetrics>, mpsc::Sender<(String, ProbeEvent)>),
) {
    let (started, on_start) = watch::channel(container.startup_probe().is_none());
    let start = Instant::now().checked_sub(began).unwrap_or_else(Instant::now);
    let one = |role: ProbeType, probe: Option<&Probe>| {
        let probe = probe.cloned();
        let prober = Prober {
            role,
            target: target.clone(),
            pod: pod.clone(),
            container: container.clone(),
            tally: tally.clone(),
            findings: findings.clone(),
            start,
        };
        let (started, mut on_start, mut ending) =
            (started.clone(), on_start.clone(), ending.clone());
        async move {
            let Some(probe) = probe else { return };
            if role != ProbeType::Startup && on_start.wait_for(|up| *up).await.is_err() {
                return;
            }
            tokio::select! {
                () = prober.run(&probe, &started) => {}
                _ = ending.wait_for(|ending| *ending), if role != ProbeType::Readiness => {}
            }
        }
    };
    futures_util::future::join3(
        one(ProbeType::Startup, container.startup_probe()),
        one(ProbeType::Liveness, container.liveness_probe()),
        one(ProbeType::Readiness, container.readiness_probe()),
    )
    .await;
}

/// Runs one probe of a container periodically.
struct Prober {
    role: ProbeType,
    target: ProbeTarget,
    pod: Pod,
    container: Container,
    tally: Arc<ProbeMetrics>,
    findings: mpsc::Sender<(String, ProbeEvent)>,
    start: Instant,
}

impl Prober {
    async fn run(&self, probe: &Probe, started: &watch::Sender<bool>) {
        let seconds = |n: i32| Duration::from_secs(n.max(1).unsigned_abs().into());
        let delay = Duration::from_secs(probe.initial_delay_seconds().unsigned_abs().into());
        sleep_until(self.start + delay).await;
        let (mut counter, mut last) = (ThresholdCounter::default(), None);
        loop {
            let limit = seconds(probe.timeout_seconds());
            let asked = Instant::now();
            let ask = panics::contain("probe", self.ask(probe.probe_handler(), limit)).await;
            let answer = match ask {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Failure::Unhealthy(said))) => Err(said),
                Ok(Err(Failure::Unknown(why))) => {
                    self.say(ProbeEvent::Errored(self.role, why)).await;
                    sleep(seconds(probe.period_seconds())).await;
                    continue;
                }
                Err(_) => {
                    sleep(seconds(probe.period_seconds())).await; // says nothing about the container
                    continue;
                }
            };
            let (name, good) = (self.container.name(), answer.is_ok());
            self.tally.count((&self.pod, name, self.role), good, asked.elapsed());
            let result = counter.count(probe, good);
            if let Err(said) = answer {
                self.say(ProbeEvent::Unhealthy(self.role, said)).await;
            }
            let changed = result.filter(|result| last != Some(*result));
            match (self.role, changed) {
                (ProbeType::Startup, Some(true)) => {
                    self.say(ProbeEvent::Started).await;
                    started.send_replace(true);
                    return;
                }
                (ProbeType::Readiness, Some(ready)) => self.say(ProbeEvent::Ready(ready)).await,
                (ProbeType::Startup | ProbeType::Liveness, Some(false)) => {
                    let grace = probe.termination_grace_period_seconds();
                    self.say(ProbeEvent::Failed(self.role, grace)).await;
                    return;
                }
                _ => {}
            }
            last = result.or(last);
            sleep(seconds(probe.period_seconds())).await;
        }
    }

    async fn ask(&self, handler: &ProbeHandler, limit: Duration) -> Result<(), Failure> {
        if let Some(exec) = handler.exec() {
            let command: Vec<_> = exec.command().iter().map(str::to_owned).collect();
            return self.target.probe_command(&command, limit).await;
        }
        let asked = self.target.run_probe(&self.pod, &self.container, handler, limit);
        asked.await.map_err(Failure::Unhealthy)
    }

    async fn say(&self, finding: ProbeEvent) {
        // the send fails if the worker has ended
        let _ = self.findings.send((self.target.container.clone(), finding)).await;
    }
}

#[test]
fn thresholds_decide() {
    let tree = object::yaml::from_yaml("{successThreshold: 2, failureThreshold: 3}").unwrap();
    let (probe, mut counter) = (Probe::from(tree), ThresholdCounter::default());
    let results = [true, true, false, true, false, false, false, false];
    let got: Vec<_> = results.iter().map(|good| counter.count(&probe, *good)).collect();
    let bad = Some(false);
    assert_eq!(got, [None, Some(true), None, None, None, None, bad, bad]);
}
