//! Exec probes. The exit code decides; a command that could not be run says nothing about the container.

use std::{future::Future, time::Duration};

use container::cri::ExecSyncResponse;
use tonic::{Code, Status};

use super::{LONGEST, prober::ProbeTarget};

/// How often a probe is tried while its result is unknown, as upstream does.
const TRIES: usize = 3;

/// Why a probe did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The probe failed or timed out.
    Unhealthy(String),
    /// The probe could not be run; this says nothing about the container.
    Unknown(String),
}

impl Failure {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Unhealthy(text) | Self::Unknown(text) => text,
        }
    }
}

impl ProbeTarget {
    /// Runs a command in the container; its exit code is the result.
    pub(crate) async fn run_command(
        &self,
        command: &[String],
        limit: Duration,
    ) -> Result<(), Failure> {
        verdict(self.runtime.exec(&self.container, command.to_vec(), limit).await)
    }

    /// Runs a command as a probe: like `run_command`, but retried while the result is unknown.
    pub(crate) async fn probe_command(
        &self,
        command: &[String],
        limit: Duration,
    ) -> Result<(), Failure> {
        several(|| self.run_command(command, limit)).await
    }
}

async fn several<F: Future<Output = Result<(), Failure>>>(
    ask: impl Fn() -> F,
) -> Result<(), Failure> {
    let mut answer = ask().await;
    for _ in 1..TRIES {
        if !matches!(answer, Err(Failure::Unknown(_))) {
            break;
        }
        answer = ask().await;
    }
    answer
}

fn verdict(answer: Result<ExecSyncResponse, Status>) -> Result<(), Failure> {
    let answer = answer.map_err(|error| match error.code() {
        Code::DeadlineExceeded => Failure::Unhealthy(error.message().to_owned()),
        _ => Failure::Unknown(error.message().to_owned()),
    })?;
    if answer.exit_code == 0 {
        return Ok(());
    }
    let mut said = answer.stdout;
    said.extend(answer.stderr);
    said.truncate(LONGEST);
    Err(Failure::Unhealthy(String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Regression: an overlong error of another container once closed the shared connection, and this container was
    /// restarted for it.
    #[test]
    fn a_lost_connection_is_no_verdict() {
        let lost = verdict(Err(Status::unknown("h2 protocol error")));
        assert_eq!(lost, Err(Failure::Unknown("h2 protocol error".into())));
        let late = verdict(Err(Status::deadline_exceeded("late")));
        assert_eq!(late, Err(Failure::Unhealthy("late".into())));
        let code = |exit_code| ExecSyncResponse { exit_code, ..ExecSyncResponse::default() };
        assert_eq!(verdict(Ok(code(0))), Ok(()));
        assert_eq!(verdict(Ok(code(1))), Err(Failure::Unhealthy(String::new())));
    }

    #[tokio::test]
    async fn what_is_unknown_is_asked_again() {
        let asked = Cell::new(0);
        let answers = |unknown: usize, then: Result<(), Failure>| {
            asked.set(0);
            let (asked, then) = (&asked, then);
            move || {
                asked.set(asked.get() + 1);
                let lost = asked.get() <= unknown;
                let answer = if lost { Err(Failure::Unknown("lost".into())) } else { then.clone() };
                async move { answer }
            }
        };
        assert_eq!(several(answers(2, Ok(()))).await, Ok(()));
        assert_eq!(asked.get(), 3);
        let bad = Err(Failure::Unhealthy("bad".into()));
        assert_eq!(several(answers(0, bad.clone())).await, bad);
        assert_eq!(asked.get(), 1);
        assert_eq!(several(answers(9, Ok(()))).await, Err(Failure::Unknown("lost".into())));
        assert_eq!(asked.get(), 3);
    }
}
