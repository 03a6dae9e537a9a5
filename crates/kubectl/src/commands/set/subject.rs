//! `set subject`: adds users, groups and service accounts to a role binding.

use std::collections::BTreeSet;

use object::Value;

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, SetMessages, change_all, check_dry_run,
    objects, print,
};
use crate::{
    commands::{DryRun, SELECTOR, create::tree},
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    workload::push,
};

pub(super) const COMMAND: Command = Command::new(
    "subject",
    &[
        FILES,
        ALL,
        SELECTOR,
        LOCAL,
        DRY_RUN,
        FIELD_MANAGER,
        print::FLAGS,
        &[
            Flag::new("user", FlagType::StringArray),
            Flag::new("group", FlagType::StringArray),
            Flag::new("serviceaccount", FlagType::StringArray),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let infos = objects(call, call.args())?;
    check_dry_run(call, DryRun::of(call)?)?;
    let cluster = infos.iter().any(|info| info.resource.kind == "ClusterRoleBinding");
    let subjects = subjects(call, cluster)?;
    let setting = SetMessages {
        done: "subjects updated",
        failed: "failed to patch subjects to rolebinding:",
        always: false,
    };
    change_all(call, infos, &setting, |object, _| {
        if !matches!(object["kind"].as_str(), Some("RoleBinding" | "ClusterRoleBinding")) {
            return Err(CommandError::error(
                "setting subjects is only supported for RoleBinding/ClusterRoleBinding",
            ));
        }
        let mut changed = false;
        for subject in &subjects {
            if !object["subjects"].items().contains(subject) {
                push(&mut object["subjects"], subject.clone());
                changed = true;
            }
        }
        Ok(changed)
    })
}

/// The subjects that the flags name, each once. `cluster`: whether service accounts must have an explicit namespace.
fn subjects(call: &Invocation<'_>, cluster: bool) -> Result<Vec<Value>> {
    let sorted = |flag: &str| call.flags.all(flag).iter().cloned().collect::<BTreeSet<String>>();
    let (users, groups) = (sorted("user"), sorted("group"));
    let accounts = sorted("serviceaccount");
    if users.is_empty() && groups.is_empty() && accounts.is_empty() {
        return Err(CommandError::error(
            "you must specify at least one value of user, group or serviceaccount",
        ));
    }
    let mut all = Vec::new();
    for (kind, names) in [("User", users), ("Group", groups)] {
        for name in names {
            let mut subject = tree("{apiGroup: rbac.authorization.k8s.io}");
            subject["kind"] = kind.into();
            subject["name"] = name.as_str().into();
            all.push(subject);
        }
    }
    for account in accounts {
        let parts: Vec<&str> = account.split(':').collect();
        let (namespace, name) = match parts[..] {
            [namespace, name] if !name.is_empty() => (namespace, name),
            _ => return Err(CommandError::error("serviceaccount must be <namespace>:<name>")),
        };
        if namespace.is_empty() && cluster {
            return Err(CommandError::error(
                "serviceaccount must be <namespace>:<name>, namespace must be specified",
            ));
        }
        let mut subject = tree("{kind: ServiceAccount}");
        subject["name"] = name.into();
        subject["namespace"] = match namespace {
            "" => call.namespace()?.as_str().into(),
            given => given.into(),
        };
        all.push(subject);
    }
    Ok(all)
}
