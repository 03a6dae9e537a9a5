//! `auth`: checks permissions (`can-i`), reports the user (`whoami`), and reconciles RBAC objects.

mod reconcile;

use object::Value;

use super::{ALL_NAMESPACES, Command, create::tree};
use crate::{
    describe::rule_rows,
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat, table},
};

pub(crate) const COMMAND: Command = Command::group(
    "auth",
    &[
        Command::new(
            "can-i",
            &[
                ALL_NAMESPACES,
                &[
                    Flag::bool("list"),
                    Flag::bool("quiet").short('q'),
                    Flag::text("subresource"),
                    Flag::bool("no-headers"),
                ],
            ],
            can_i,
        ),
        Command::new("whoami", &[print::FLAGS], whoami),
        reconcile::COMMAND,
    ],
);

const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "bind",
    "impersonate",
    "*",
    "approve",
    "sign",
    "escalate",
    "attest",
];

/// Verbs for non-resource URLs.
const PATH_VERBS: &[&str] = &["get", "put", "post", "head", "options", "delete", "patch", "*"];

#[expect(clippy::too_many_lines, reason = "the checks of upstream, in its order")]
fn can_i(call: &Invocation<'_>) -> Result {
    if call.flags.is_true("list") {
        if !call.args().is_empty() {
            return Err(CommandError::error("list option must be specified with no arguments"));
        }
        let others = ["quiet", "all-namespaces"].iter().any(|flag| call.flags.is_true(flag));
        if others || !call.flags.text("subresource").is_empty() {
            return Err(CommandError::error(
                "list option can't be specified with neither quiet, all-namespaces nor subresource options",
            ));
        }
        return list(call);
    }
    let [verb, target] = call.args() else {
        return Err(CommandError::error(
            "you must specify two arguments: verb resource or verb resource/resourceName.\nSee 'kubectl auth can-i -h' for help and examples.",
        ));
    };
    let mut review =
        tree("{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {}}");
    if target.starts_with('/') {
        if !call.flags.text("subresource").is_empty() {
            return Err(CommandError::error("--subresource can not be used with NonResourceURL"));
        }
        if !PATH_VERBS.contains(&verb.as_str()) {
            call.print_err(&format!("Warning: verb '{verb}' is not a known verb\n"));
        }
        review["spec"]["nonResourceAttributes"]["path"] = target.as_str().into();
        review["spec"]["nonResourceAttributes"]["verb"] = verb.as_str().into();
    } else {
        let (word, in_target) = target.split_once('/').unwrap_or((target, ""));
        let attributes = &mut review["spec"]["resourceAttributes"];
        let (group, plural);
        if word == "*" {
            (group, plural) = ("*".to_owned(), "*".to_owned());
        } else if let Ok(resource) = call.resources()?.find(word) {
            (group, plural) = (resource.group.clone(), resource.plural.clone());
            if !resource.namespaced && !call.flags.is_true("all-namespaces") {
                call.print_err(&match group.as_str() {
                    "" => format!("Warning: resource '{plural}' is not namespace scoped\n"),
                    group => format!(
                        "Warning: resource '{plural}' is not namespace scoped in group '{group}'\n"
                    ),
                });
            }
        } else {
            let (name, in_group) = word.split_once('.').unwrap_or((word, ""));
            match in_group {
                "" if matches!(name, "users" | "groups") => {}
                "" => call.print_err(&format!(
                    "Warning: the server doesn't have a resource type '{name}'\n"
                )),
                group => call.print_err(&format!(
                    "Warning: the server doesn't have a resource type '{name}' in group '{group}'\n"
                )),
            }
            (plural, group) = (name.to_owned(), in_group.to_owned());
        }
        if !VERBS.contains(&verb.as_str()) && !call.flags.is_true("all-namespaces") {
            call.print_err(&format!("Warning: verb '{verb}' is not a known verb\n"));
        }
        attributes["verb"] = verb.as_str().into();
        attributes["group"] = group.as_str().into();
        attributes["resource"] = plural.as_str().into();
        attributes["name"] = in_target.into();
        attributes["subresource"] = call.flags.text("subresource").into();
        if !call.flags.is_true("all-namespaces") {
            attributes["namespace"] = call.namespace()?.as_str().into();
        }
    }
    if call.flags.is_true("no-headers") {
        return Err(CommandError::error("--no-headers cannot be set without --list specified"));
    }
    let answer =
        call.server()?.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)?;
    let status = &answer["status"];
    let allowed = status["allowed"].as_bool() == Some(true);
    if !call.flags.is_true("quiet") {
        let mut text = if allowed { "yes" } else { "no" }.to_owned();
        if let (false, Some(reason)) =
            (allowed, status["reason"].as_str().filter(|reason| !reason.is_empty()))
        {
            text += &format!(" - {reason}");
        }
        if let Some(error) = status["evaluationError"].as_str().filter(|error| !error.is_empty()) {
            text += &format!(" - {error}");
        }
        call.print(&(text + "\n"));
    }
    if allowed { Ok(()) } else { Err(CommandError::Code(1)) }
}

fn list(call: &Invocation<'_>) -> Result {
    let mut review =
        tree("{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectRulesReview, spec: {}}");
    review["spec"]["namespace"] = call.namespace()?.as_str().into();
    let answer =
        call.server()?.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &review)?;
    let status = &answer["status"];
    let rules = [status["resourceRules"].items(), status["nonResourceRules"].items()].concat();
    let mut text = if call.flags.is_true("no-headers") {
        String::new()
    } else {
        "Resources\tNon-Resource URLs\tResource Names\tVerbs\n".to_owned()
    };
    for (_, row) in rule_rows(&rules) {
        text += &format!("{row}\n");
    }
    call.print(&table::align(&text));
    Ok(())
}

fn whoami(call: &Invocation<'_>) -> Result {
    let output = OutputFormat::of(call, false)?;
    let review = tree("{apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview}");
    let answer =
        call.server()?.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)?;
    if !output.is_human() {
        return output.print_declared(call, &answer, "");
    }
    let user = &answer["status"]["userInfo"];
    let list = |list: &Value| {
        let texts: Vec<&str> = list.items().iter().filter_map(Value::as_str).collect();
        format!("[{}]", texts.join(" "))
    };
    let mut text = "ATTRIBUTE\tVALUE\n".to_owned();
    for (title, field) in [("Username", "username"), ("UID", "uid")] {
        if let Some(value) = user[field].as_str().filter(|value| !value.is_empty()) {
            text += &format!("{title}\t{value}\n");
        }
    }
    if !user["groups"].items().is_empty() {
        text += &format!("Groups\t{}\n", list(&user["groups"]));
    }
    for (name, values) in user["extra"].entries() {
        text += &format!("Extra: {name}\t{}\n", list(values));
    }
    call.print(&table::align(&text));
    Ok(())
}
