//! ResourceQuota: what a namespace uses stays within what it may.

mod scope;
mod usage;

use std::collections::BTreeSet;

use api::core::ResourceQuota as Quota;
use object::{Quantity, Status, Text, Value, View};
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Call, Operation, User};
use store::Version;

use self::{
    scope::in_scope,
    usage::{Amounts, constraints, counted, matching, usage},
};
use super::all;

#[derive(Debug)]
pub(super) struct ResourceQuota;

impl Admit for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        Box::pin(decide(admission))
    }
}

async fn decide(admission: &Admission<'_>) -> Result<(), Status> {
    let writes = matches!(admission.operation, Operation::Create | Operation::Update);
    if !writes || admission.namespace.is_empty() || !counted(admission) {
        return Ok(());
    }
    let quotas = all(admission, "", "resourcequotas", &admission.namespace)?;
    let mut interesting = Vec::new();
    for quota in &quotas {
        let quota = Quota::view(&quota.object);
        let hard: Vec<Text> = quota.status().hard().iter().map(|(name, _)| name.into()).collect();
        let mine = matching(admission, &hard);
        if mine.is_empty() || !in_scope(admission, quota) {
            continue;
        }
        let name = quota.metadata().name();
        constraints(admission, &mine)
            .map_err(|why| admission.forbid(&format!("failed quota: {name}: {why}")))?;
        let used = quota.status().used();
        if mine.iter().any(|resource| used.get(resource).is_none()) {
            let names = mine.iter().map(Text::as_str).collect::<Vec<_>>().join(",");
            let why = format!("status unknown for quota: {name}, resources: {names}");
            return Err(admission.forbid(&why));
        }
        interesting.push(name.to_owned());
    }
    if interesting.is_empty() {
        return Ok(());
    }
    let now = admission.registry.clock().now();
    let mut delta = usage(admission, &admission.object, now);
    if let Some(old) = admission.old {
        for (name, before) in usage(admission, old, now) {
            if let Some(amount) = delta.get_mut(&name) {
                *amount -= &before;
            }
        }
    }
    delta.retain(|_, amount| amount.sign() > 0);
    if delta.is_empty() {
        return Ok(());
    }
    for name in &interesting {
        charge(admission, name, &delta).await?;
    }
    Ok(())
}

/// Books what is asked for, if there is room.
async fn charge(admission: &Admission<'_>, name: &str, delta: &Amounts) -> Result<(), Status> {
    let registry = admission.registry;
    let kind = registry.kind("", "resourcequotas")?;
    let key = (&*admission.namespace, name);
    let change = |old: &Version<Value>| {
        let mut object = old.object.clone();
        let quota = Quota::view(&old.object);
        let mut used = quota.status().used().clone();
        let mut exceeded = BTreeSet::new();
        for (resource, hard) in quota.status().hard().iter() {
            let Some(asked) = delta.get(resource) else { continue };
            let mut sum: Quantity = used.get(resource).unwrap_or_default();
            sum += asked;
            if sum > hard {
                exceeded.insert(Text::from(resource));
            }
            used.insert(resource, sum);
        }
        if !exceeded.is_empty() {
            let status = quota.status();
            let asked = shown(&exceeded, |name| delta.get(name).cloned());
            let used = shown(&exceeded, |name| status.used().get(name));
            let hard = shown(&exceeded, |name| status.hard().get(name));
            let why = format!(
                "exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"
            );
            return Err(admission.forbid(&why));
        }
        Quota::ref_cast_mut(&mut object).status_mut().set_used(used);
        Ok(object)
    };
    let own = User::new("system:apiserver", &["system:masters"]);
    let mut call = Call::new(own, "kube-apiserver");
    call.dry_run = admission.dry_run;
    registry.change(&mut call, &kind, key, "status", change).await.map(drop)
}

fn shown(names: &BTreeSet<Text>, of: impl Fn(&str) -> Option<Quantity>) -> String {
    let each = names.iter().filter_map(|name| Some(format!("{name}={}", of(name)?)));
    each.collect::<Vec<_>>().join(",")
}
