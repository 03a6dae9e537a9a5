//! Evicts or deletes pods in parallel: a pod that a PodDisruptionBudget protects does not delay the others.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::Method;
use object::{Value, quote::quote};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{full_name, is_skipped, names};
use crate::{
    commands::{DryRun, create::tree},
    error::{CommandError, Result},
    invocation::Invocation,
    server::Server,
};

/// Interval before an eviction that was rejected is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Interval of polls for the deletion of a pod.
const INTERVAL: Duration = Duration::from_secs(1);

/// Evicts or deletes pods, and waits until they have been deleted.
pub(super) fn pods(call: &Invocation<'_>, pods: &[Value], dry_run: DryRun) -> Result {
    if pods.is_empty() {
        return Ok(());
    }
    let server = call.server()?;
    server.wait(async {
        let timeout = call.flags.duration("timeout");
        let until =
            (timeout > 0).then(|| Instant::now() + Duration::from_nanos(timeout.unsigned_abs()));
        let removal = Removal { call, server, dry_run, until };
        if call.flags.is_true("disable-eviction") {
            return removal.delete(pods).await;
        }
        let done = join_all(pods.iter().map(|pod| removal.evict(pod))).await;
        let mut failures: Vec<String> = Vec::new();
        for failure in done.into_iter().filter_map(std::result::Result::err) {
            if !failures.contains(&failure.message()) {
                failures.push(failure.message());
            }
        }
        CommandError::collect(failures.into_iter().map(CommandError::error).collect())
    })
}

/// The eviction or deletion of pods.
struct Removal<'a> {
    call: &'a Invocation<'a>,
    server: &'a Server,
    dry_run: DryRun,
    /// The end of `--timeout`.
    until: Option<Instant>,
}

impl Removal<'_> {
    fn options(&self) -> Value {
        let mut options = tree("{apiVersion: v1, kind: DeleteOptions}");
        let grace = self.call.flags.int("grace-period");
        if grace >= 0 {
            options["gracePeriodSeconds"] = grace.into();
        }
        if self.dry_run == DryRun::Server {
            options["dryRun"] = tree("[All]");
        }
        options
    }

    /// The result of `work`, or `None` after the timeout.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.until {
            Some(until) => timeout_at(until, work).await.ok(),
            None => Some(work.await),
        }
    }

    async fn delete(&self, pods: &[Value]) -> Result {
        for pod in pods {
            match self.server.ask(Method::DELETE, &path(pod), Some(&self.options())).await {
                Err(fail) if !fail.is_not_found() => return Err(fail),
                _ => {}
            }
        }
        if self.dry_run == DryRun::Server {
            return Ok(());
        }
        let gone = join_all(pods.iter().map(|pod| self.until_gone(pod)));
        let gone: Option<Vec<Result>> = self.in_time(gone).await;
        gone.ok_or_else(|| CommandError::error("context deadline exceeded"))?.into_iter().collect()
    }

    async fn evict(&self, pod: &Value) -> Result {
        let (namespace, name) = names(pod);
        let (quoted, space) = (quote(name), quote(namespace));
        let Some(evicted) = self.in_time(self.request_eviction(pod)).await else {
            return Err(CommandError::error(format!(
                "error when evicting pods/{quoted} -n {space}: global timeout reached: {}",
                self.call.flags.text("timeout")
            )));
        };
        let Some(pod) = evicted? else { return Ok(()) };
        if self.dry_run == DryRun::Server {
            return Ok(());
        }
        let why = match self.in_time(self.until_gone(&pod)).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(fail)) => fail.message(),
            None => "context deadline exceeded".to_owned(),
        };
        Err(CommandError::error(format!(
            "error when waiting for pod {quoted} in namespace {space} to terminate: {why}"
        )))
    }

    /// Requests the eviction until it is accepted. Returns the evicted pod, or `None` if it does not exist any more.
    async fn request_eviction(&self, pod: &Value) -> Result<Option<Value>> {
        let (namespace, name) = names(pod);
        let mut eviction = tree("{apiVersion: policy/v1, kind: Eviction, metadata: {}}");
        eviction["metadata"]["name"] = name.into();
        eviction["metadata"]["namespace"] = namespace.into();
        eviction["deleteOptions"] = self.options();
        let mut pod = pod.clone();
        loop {
            self.call.print(&format!(
                "evicting pod {}{}\n",
                full_name(&pod),
                if self.dry_run == DryRun::Server { " (server dry run)" } else { "" }
            ));
            let path = format!("{}/eviction", path(&pod));
            let fail = match self.server.ask(Method::POST, &path, Some(&eviction)).await {
                Ok(_) => return Ok(Some(pod)),
                Err(fail) if fail.is_not_found() => return Ok(None),
                Err(fail) => fail,
            };
            let (quoted, space) = (quote(name), quote(namespace));
            match after(&fail, !pod["metadata"]["deletionTimestamp"].is_null()) {
                After::Wait => return Ok(Some(pod)),
                After::Retry => self.call.print_err(&format!(
                    "error when evicting pods/{quoted} -n {space} (will retry after 5s): {}",
                    fail.message()
                )),
                After::RetryInNamespace => self.call.print_err(&format!(
                    "error when evicting pod {quoted} from terminating namespace {space} (will retry after 5s): {}",
                    fail.message()
                )),
                After::Fail => {
                    return Err(CommandError::error(format!(
                        "error when evicting pods/{quoted} -n {space}: {}",
                        fail.message()
                    )));
                }
            }
            sleep(RETRY).await;
            if let Ok(fresh) = self.server.ask(Method::GET, &self::path(&pod), None).await {
                pod = fresh;
            }
        }
    }

    /// Waits until a pod has been deleted; another pod of the same name is ignored.
    async fn until_gone(&self, pod: &Value) -> Result {
        let name = names(pod).1;
        let usual = if self.call.flags.is_true("disable-eviction") { "deleted" } else { "evicted" };
        loop {
            let next = Instant::now() + INTERVAL;
            match self.server.ask(Method::GET, &path(pod), None).await {
                Err(fail) if fail.is_not_found() => break,
                Err(fail) => return Err(fail),
                Ok(now) if now["metadata"]["uid"] != pod["metadata"]["uid"] => break,
                Ok(now) if is_skipped(self.call, &now) => {
                    self.call.print(&format!(
                        "pod {} has DeletionTimestamp older than {} seconds, skipping\n",
                        quote(name),
                        self.call.flags.int("skip-wait-for-delete-timeout")
                    ));
                    return Ok(());
                }
                Ok(_) => sleep_until(next).await,
            }
        }
        self.call.print(&format!("pod/{name} {usual}\n"));
        Ok(())
    }
}

/// What to do after an eviction was rejected.
#[derive(Debug, PartialEq)]
enum After {
    Retry,
    /// The namespace is terminating, so no eviction can be created; retries until the pod is being deleted.
    RetryInNamespace,
    Wait,
    Fail,
}

fn after(fail: &CommandError, is_deleted: bool) -> After {
    let CommandError::Server { status, .. } = fail else { return After::Fail };
    let causes = status.details();
    let terminating = status.has_reason("Forbidden")
        && causes.is_some_and(|details| {
            details.causes().iter().any(|cause| cause.reason() == "NamespaceTerminating")
        });
    match terminating {
        _ if status.code() == 429 || status.has_reason("TooManyRequests") => After::Retry,
        true if is_deleted => After::Wait,
        true => After::RetryInNamespace,
        false => After::Fail,
    }
}

fn path(pod: &Value) -> String {
    let (namespace, name) = names(pod);
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}
