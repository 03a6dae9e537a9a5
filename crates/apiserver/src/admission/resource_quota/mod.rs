//! ResourceQuota: what a namespace uses stays within what it may.

mod limited;
mod scope;
mod usage;

use std::collections::BTreeSet;

use anyhow::Result as Configured;
use api::core::ResourceQuota as Quota;
use object::{Quantity, Status, Text, Value, View};
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Call, Operation, User};
use store::Version;

use self::{
    limited::Limited,
    scope::{in_scope, selected},
    usage::{Amounts, constraints, counted, matching, usage},
};
use super::all;

#[derive(Debug)]
pub(super) struct ResourceQuota {
    limited: Vec<Limited>,
}

impl ResourceQuota {
    /// From a `ResourceQuotaConfiguration`, if there is one.
    pub(super) fn new(config: &Value) -> Configured<Self> {
        Ok(Self { limited: limited::read(config)? })
    }
}

impl Admit for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        Box::pin(self.decide(admission))
    }
}

impl ResourceQuota {
    async fn decide(&self, admission: &Admission<'_>) -> Result<(), Status> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if !writes || admission.namespace.is_empty() || !counted(admission) {
            return Ok(());
        }
        let quotas = all(admission, "", "resourcequotas", &admission.namespace)?;
        if quotas.is_empty() && self.limited.is_empty() {
            return Ok(());
        }
        let asked = Asked::of(admission);
        let (mut scopes, mut covered, mut bills) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for quota in &quotas {
            let quota = Quota::view(&quota.object);
            scopes.extend(selected(admission, quota));
            let hard: Vec<Text> =
                quota.status().hard().iter().map(|(name, _)| name.into()).collect();
            let mine = matching(admission, &hard);
            if mine.is_empty() || !in_scope(admission, &admission.object, quota) {
                continue;
            }
            known(admission, quota, &mine)?;
            covered.extend(mine);
            bills.push((quota, asked.for_quota(admission, quota)));
        }
        asked.is_sensible(admission)?;
        let free = |delta: &Amounts| delta.is_empty();
        if if bills.is_empty() { free(&asked.more) } else { bills.iter().all(|(_, own)| free(own)) }
        {
            return Ok(());
        }
        self.covers(admission, &asked.all, &covered, &scopes)?;
        bills.retain(|(_, delta)| !free(delta));
        // All have room, or none is changed.
        for (quota, delta) in &bills {
            has_room(admission, quota, delta)?;
        }
        if !admission.dry_run {
            for (quota, delta) in bills {
                charge(admission, quota.metadata().name(), &delta).await?;
            }
        }
        Ok(())
    }

    /// Whether there is a quota for everything that must not be used without.
    fn covers(
        &self,
        admission: &Admission<'_>,
        asked: &Amounts,
        covered: &BTreeSet<Text>,
        scopes: &BTreeSet<String>,
    ) -> Result<(), Status> {
        let wanted = limited::amounts(&self.limited, admission, asked);
        let open: Vec<&str> = wanted.difference(covered).map(Text::as_str).collect();
        if !open.is_empty() {
            let why = format!("insufficient quota to consume: {}", open.join(","));
            return Err(admission.forbid(&why));
        }
        match limited::uncovered(&self.limited, admission, scopes) {
            None => Ok(()),
            Some(open) => {
                let why = format!("insufficient quota to match these scopes: {open}");
                Err(Status::failure(500, "", why))
            }
        }
    }
}

/// What an object takes: all of it, and how much more than before.
struct Asked {
    all: Amounts,
    more: Amounts,
}

impl Asked {
    fn of(admission: &Admission) -> Self {
        let now = admission.registry.clock().now();
        let mut all = usage(admission, &admission.object, now);
        let mut more = all.clone();
        for (name, before) in
            admission.old.map(|old| usage(admission, old, now)).unwrap_or_default()
        {
            if let Some(amount) = more.get_mut(&name) {
                *amount -= &before;
            }
        }
        all.retain(|_, amount| amount.sign() != 0);
        more.retain(|_, amount| amount.sign() > 0);
        Self { all, more }
    }

    /// What a quota has not counted before.
    fn for_quota(&self, admission: &Admission, quota: &Quota) -> Amounts {
        match admission.old {
            Some(old) if in_scope(admission, old, quota) => self.more.clone(),
            _ => self.all.clone(),
        }
    }

    fn is_sensible(&self, admission: &Admission) -> Result<(), Status> {
        let below = self.all.iter().filter(|(_, amount)| amount.sign() < 0);
        let below: Vec<&str> = below.map(|(name, _)| name.as_str()).collect();
        if below.is_empty() {
            return Ok(());
        }
        let below = below.join(",");
        Err(admission.forbid(&format!("quota usage is negative for resource(s): {below}")))
    }
}

/// Whether the object says what the quota counts, and the quota knows what it has counted.
fn known(admission: &Admission, quota: &Quota, mine: &BTreeSet<Text>) -> Result<(), Status> {
    let name = quota.metadata().name();
    constraints(admission, mine)
        .map_err(|why| admission.forbid(&format!("failed quota: {name}: {why}")))?;
    let used = quota.status().used();
    if mine.iter().all(|resource| used.get(resource).is_some()) {
        return Ok(());
    }
    let names = mine.iter().map(Text::as_str).collect::<Vec<_>>().join(",");
    Err(admission.forbid(&format!("status unknown for quota: {name}, resources: {names}")))
}

fn has_room(admission: &Admission, quota: &Quota, delta: &Amounts) -> Result<(), Status> {
    let status = quota.status();
    let exceeds = |name: &str, hard: &Quantity| {
        delta.get(name).is_some_and(|asked| {
            let mut sum: Quantity = status.used().get(name).unwrap_or_default();
            sum += asked;
            sum > *hard
        })
    };
    let exceeded: BTreeSet<Text> = status
        .hard()
        .iter()
        .filter(|(name, hard)| exceeds(name, hard))
        .map(|(name, _)| name.into())
        .collect();
    // What is said of a volume that has grown is true already.
    if exceeded.is_empty() || admission.subresource == "status" {
        return Ok(());
    }
    let name = quota.metadata().name();
    let asked = shown(&exceeded, |name| delta.get(name).cloned());
    let used = shown(&exceeded, |name| status.used().get(name));
    let hard = shown(&exceeded, |name| status.hard().get(name));
    Err(admission.forbid(&format!(
        "exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"
    )))
}

/// Books what is asked for, if there is still room.
async fn charge(admission: &Admission<'_>, name: &str, delta: &Amounts) -> Result<(), Status> {
    let registry = admission.registry;
    let kind = registry.kind("", "resourcequotas")?;
    let key = (&*admission.namespace, name);
    let change = |old: &Version<Value>| {
        let mut object = old.object.clone();
        let quota = Quota::view(&old.object);
        has_room(admission, quota, delta)?;
        let mut used = quota.status().used().clone();
        for (resource, _) in quota.status().hard().iter() {
            let Some(asked) = delta.get(resource) else { continue };
            let mut sum: Quantity = used.get(resource).unwrap_or_default();
            sum += asked;
            used.insert(resource, sum);
        }
        Quota::ref_cast_mut(&mut object).status_mut().set_used(used);
        Ok(object)
    };
    let own = User::new("system:apiserver", &["system:masters"]);
    let mut call = Call::new(own, "kube-apiserver");
    registry.change(&mut call, &kind, key, "status", change).await.map(drop)
}

fn shown(names: &BTreeSet<Text>, of: impl Fn(&str) -> Option<Quantity>) -> String {
    let each = names.iter().filter_map(|name| Some(format!("{name}={}", of(name)?)));
    each.collect::<Vec<_>>().join(",")
}
