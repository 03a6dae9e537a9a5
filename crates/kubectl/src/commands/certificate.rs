//! `certificate`: approves and denies CertificateSigningRequests.

use object::{Value, quote::quote};

use super::{Command, FILES, create::tree};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat},
    resources::escape,
    select::BuilderOptions,
    workload::push,
};

const FLAGS: &[&[Flag]] = &[FILES, print::FLAGS, &[Flag::bool("force")]];

pub(crate) const COMMAND: Command = Command::group(
    "certificate",
    &[
        Command::new("approve", FLAGS, |call| run(call, &APPROVE)),
        Command::new("deny", FLAGS, |call| run(call, &DENY)),
    ],
);

/// A decision, and the condition that records it.
struct Decision {
    condition: &'static str,
    opposite: &'static str,
    reason: &'static str,
    message: &'static str,
    done: &'static str,
}

const APPROVE: Decision = Decision {
    condition: "Approved",
    opposite: "Denied",
    reason: "KubectlApprove",
    message: "This CSR was approved by kubectl certificate approve.",
    done: "approved",
};
const DENY: Decision = Decision {
    condition: "Denied",
    opposite: "Approved",
    reason: "KubectlDeny",
    message: "This CSR was denied by kubectl certificate deny.",
    done: "denied",
};

/// Number of attempts in case of conflicts.
const TRIES: usize = 10;

fn run(call: &Invocation<'_>, decision: &Decision) -> Result {
    let output = OutputFormat::of(call, false)?;
    if call.args().is_empty() && !call.has_files() {
        return Err(CommandError::error(
            "one or more CSRs must be specified as <name> or -f <filename>",
        ));
    }
    let how = BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() };
    let (mut infos, mut fails) = (Vec::new(), Vec::new());
    if call.has_files() {
        (infos, fails) = call.select_plain(&[], how)?;
    }
    if !call.args().is_empty() {
        let mut words: Vec<String> = call.args().to_vec();
        if !words.iter().all(|word| word.contains('/')) {
            words.insert(0, "certificatesigningrequests".to_owned());
        }
        let (more, wrong) = call.select_words(&words, how, false)?;
        infos.extend(more);
        fails.extend(wrong);
    }
    if infos.is_empty() && fails.is_empty() {
        call.print("No resources found\n");
    }
    for info in infos {
        if info.resource.kind != "CertificateSigningRequest" {
            fails.push(CommandError::error(format!(
                "can only handle CertificateSigningRequest.certificates.k8s.io objects, got {}",
                kind_and_group(&info.resource.kind, &info.resource.group)
            )));
            continue;
        }
        match decide(call, &info.name, decision) {
            Ok(()) => output.print(call, &info.object, decision.done)?,
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

fn kind_and_group(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn decide(call: &Invocation<'_>, name: &str, decision: &Decision) -> Result {
    let path = format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{}", escape(name));
    let mut tries = 0;
    loop {
        let mut request = call.server()?.get(&path)?;
        let has = |request: &Value, kind: &str| {
            request["status"]["conditions"].items().iter().any(|c| c["type"].as_str() == Some(kind))
        };
        if has(&request, decision.opposite) {
            return Err(CommandError::error(format!(
                "certificate signing request {} is already {}",
                quote(name),
                decision.opposite
            )));
        }
        let there = has(&request, decision.condition);
        if there && !call.flags.is_true("force") {
            return Ok(());
        }
        if !there {
            let mut condition = tree("{status: \"True\"}");
            condition["type"] = decision.condition.into();
            condition["reason"] = decision.reason.into();
            condition["message"] = decision.message.into();
            condition["lastUpdateTime"] =
                jiff::Timestamp::from_second(call.now()).unwrap_or_default().to_string().into();
            push(&mut request["status"]["conditions"], condition);
        }
        match call.server()?.put(&format!("{path}/approval"), &request) {
            Ok(_) => return Ok(()),
            Err(CommandError::Server { status, .. })
                if status.has_reason("Conflict") && tries < TRIES =>
            {
                tries += 1;
            }
            Err(fail) => return Err(fail),
        }
    }
}
