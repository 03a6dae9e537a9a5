//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: others may change or refuse
//! what is written. Who is asked, and what is done when nobody answers, is said by
//! configurations that are objects themselves.

mod call;
mod hook;
mod review;

use std::sync::Arc;

use object::Status;
use server::{Admission, Admit, Admitting};
use tracing::warn;

use self::{
    call::{Failure, call},
    hook::{Hook, Invocation, hooks},
    review::{Verdict, apply, request},
};
use super::policy::HookConditions;

#[derive(Debug)]
pub(super) struct Mutating(pub(super) Arc<HookConditions>);

#[derive(Debug)]
pub(super) struct Validating(pub(super) Arc<HookConditions>);

impl Admit for Mutating {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        Box::pin(self.run(admission))
    }
}

impl Admit for Validating {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        Box::pin(self.run(admission))
    }
}

impl Mutating {
    /// One hook after the other, each seeing what those before it made. In the second
    /// round only those that want it are asked, if anything has changed since.
    async fn run(&self, admission: &mut Admission<'_>) -> Result<(), Status> {
        let again = admission.reinvocation.round > 0;
        let last = admission.reinvocation.last.take();
        let mut changed = again && last.as_ref() != Some(&admission.object);
        for hook in hooks(admission, "mutatingwebhookconfigurations")? {
            let Some(invocation) = hook.matches(admission, &self.0)? else { continue };
            let known = admission.reinvocation.invoked.contains(&hook.id);
            if again && !(changed && known) {
                continue;
            }
            let reinvocable = hook.is("reinvocationPolicy", "IfNeeded");
            match mutate_once(admission, &hook, &invocation).await {
                Ok(true) => {
                    changed = true;
                    admission.reinvocation.wanted = true;
                }
                Ok(false) => {}
                Err(failure) => failed(&hook, failure)?,
            }
            if reinvocable && !known {
                admission.reinvocation.invoked.push(hook.id.clone());
            }
        }
        admission.reinvocation.last = Some(admission.object.clone());
        Ok(())
    }
}

async fn mutate_once(
    admission: &mut Admission<'_>,
    hook: &Hook,
    invocation: &Invocation,
) -> Result<bool, Failure> {
    let verdict = ask(admission, hook, invocation, true).await?;
    if verdict.patch.is_null() {
        return Ok(false);
    }
    let before = admission.object.clone();
    apply(admission, hook, invocation, &verdict.patch)?;
    Ok(before != admission.object)
}

impl Validating {
    /// All hooks at once; the first refusal counts.
    async fn run(&self, admission: &Admission<'_>) -> Result<(), Status> {
        let mut asked = Vec::new();
        for hook in hooks(admission, "validatingwebhookconfigurations")? {
            if let Some(invocation) = hook.matches(admission, &self.0)? {
                asked.push((hook, invocation));
            }
        }
        let asking = asked.iter().map(|(hook, invocation)| async move {
            match ask(admission, hook, invocation, false).await {
                Ok(_) => Ok(()),
                Err(failure) => failed(hook, failure),
            }
        });
        let mut asking: Vec<_> = asking.map(Box::pin).collect();
        let mut done: Vec<Option<Result<(), Status>>> = vec![None; asking.len()];
        std::future::poll_fn(|cx| {
            let mut pending = false;
            for (one, done) in asking.iter_mut().zip(&mut done) {
                if done.is_none() {
                    match one.as_mut().poll(cx) {
                        std::task::Poll::Ready(answer) => *done = Some(answer),
                        std::task::Poll::Pending => pending = true,
                    }
                }
            }
            if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        done.into_iter().flatten().collect()
    }
}

/// Asks a hook, and tells what it says besides yes and no.
async fn ask(
    admission: &Admission<'_>,
    hook: &Hook,
    invocation: &Invocation,
    mutating: bool,
) -> Result<Verdict, Failure> {
    if admission.dry_run
        && !(hook.is("sideEffects", "None") || hook.is("sideEffects", "NoneOnDryRun"))
    {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failure::Refused(Status::bad_request(why)));
    }
    let (uid, review) = request(admission, invocation);
    let answer = call(admission.registry, hook, &review).await?;
    let verdict = Verdict::read(&answer, &uid, mutating)
        .map_err(|why| Failure::Calling(format!("received invalid webhook response: {why}")))?;
    for warning in &verdict.warnings {
        admission.warn(warning.as_str());
    }
    for (key, value) in &verdict.annotations {
        admission.annotate(&format!("{}/{key}", hook.name), value.clone());
    }
    if verdict.allowed {
        return Ok(verdict);
    }
    Err(Failure::Refused(verdict.refusal(&hook.name)))
}

/// A hook that says no has said no; one that does not answer counts as its policy says.
fn failed(hook: &Hook, failure: Failure) -> Result<(), Status> {
    match failure {
        Failure::Refused(status) => Err(status),
        Failure::Calling(why) => {
            let why = format!("failed calling webhook {:?}: {why}", hook.name);
            if hook.is("failurePolicy", "Ignore") {
                warn!(%why, "going on without it");
                return Ok(());
            }
            Err(Status::internal(why))
        }
    }
}
