//! The ResourceQuota admission plugin: rejects writes that would exceed the quotas of the
//! namespace.

mod limited_resources;
mod scope;
mod usage;

use std::collections::BTreeSet;

use anyhow::Result as Configured;
use api::core::ResourceQuota as Quota;
use object::{Quantity, Status, Text, Value, View};
use ref_cast::RefCast;
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation, RequestContext, UserInfo,
};
use store::Version;

use self::{
    limited_resources::LimitedResource,
    scope::{in_scope, selected},
    usage::{ResourceList, affects_quota, check_required_resources, matching, usage},
};
use super::all;

#[derive(Debug)]
pub(super) struct ResourceQuota {
    limited: Vec<LimitedResource>,
}

impl ResourceQuota {
    /// Reads a `ResourceQuotaConfiguration`, if there is one.
    pub(super) fn new(config: &Value) -> Configured<Self> {
        Ok(Self { limited: limited_resources::read(config)? })
    }
}

impl AdmissionPlugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

impl ResourceQuota {
    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if !writes || admission.namespace.is_empty() || !affects_quota(admission) {
            return Ok(());
        }
        let quotas = all(admission, "", "resourcequotas", &admission.namespace)?;
        if quotas.is_empty() && self.limited.is_empty() {
            return Ok(());
        }
        let asked = UsageDelta::of(admission);
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
            check_quota_ready(admission, quota, &mine)?;
            covered.extend(mine);
            bills.push((quota, asked.for_quota(admission, quota)));
        }
        asked.reject_negative(admission)?;
        let free = |delta: &ResourceList| delta.is_empty();
        if if bills.is_empty() { free(&asked.more) } else { bills.iter().all(|(_, own)| free(own)) }
        {
            return Ok(());
        }
        self.covers(admission, &asked.all, &covered, &scopes)?;
        bills.retain(|(_, delta)| !free(delta));
        // All quotas are checked before the first one is updated.
        for (quota, delta) in &bills {
            has_room(admission, quota, delta)?;
        }
        if !admission.dry_run {
            for (quota, delta) in bills {
                reserve_usage(admission, quota.metadata().name(), &delta).await?;
            }
        }
        Ok(())
    }

    /// Checks that a quota covers every limited resource and scope that the object uses.
    fn covers(
        &self,
        admission: &AdmissionAttributes<'_>,
        asked: &ResourceList,
        covered: &BTreeSet<Text>,
        scopes: &BTreeSet<String>,
    ) -> Result<(), Status> {
        let wanted = limited_resources::amounts(&self.limited, admission, asked);
        let open: Vec<&str> = wanted.difference(covered).map(Text::as_str).collect();
        if !open.is_empty() {
            let why = format!("insufficient quota to consume: {}", open.join(","));
            return Err(admission.forbidden(&why));
        }
        match limited_resources::uncovered_scopes(&self.limited, admission, scopes) {
            None => Ok(()),
            Some(open) => {
                let why = format!("insufficient quota to match these scopes: {open}");
                Err(Status::failure(500, "", why))
            }
        }
    }
}

/// The usage of an object: the total, and the increase over its old version.
struct UsageDelta {
    all: ResourceList,
    more: ResourceList,
}

impl UsageDelta {
    fn of(admission: &AdmissionAttributes) -> Self {
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

    /// The usage to charge to a quota: the increase if it already counts the old object, else the
    /// total.
    fn for_quota(&self, admission: &AdmissionAttributes, quota: &Quota) -> ResourceList {
        match admission.old {
            Some(old) if in_scope(admission, old, quota) => self.more.clone(),
            _ => self.all.clone(),
        }
    }

    fn reject_negative(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        let below = self.all.iter().filter(|(_, amount)| amount.sign() < 0);
        let below: Vec<&str> = below.map(|(name, _)| name.as_str()).collect();
        if below.is_empty() {
            return Ok(());
        }
        let below = below.join(",");
        Err(admission.forbidden(&format!("quota usage is negative for resource(s): {below}")))
    }
}

/// Checks that the object specifies what the quota counts, and that the quota's status has been
/// calculated.
fn check_quota_ready(
    admission: &AdmissionAttributes,
    quota: &Quota,
    mine: &BTreeSet<Text>,
) -> Result<(), Status> {
    let name = quota.metadata().name();
    check_required_resources(admission, mine)
        .map_err(|why| admission.forbidden(&format!("failed quota: {name}: {why}")))?;
    let used = quota.status().used();
    if mine.iter().all(|resource| used.get(resource).is_some()) {
        return Ok(());
    }
    let names = mine.iter().map(Text::as_str).collect::<Vec<_>>().join(",");
    Err(admission.forbidden(&format!("status unknown for quota: {name}, resources: {names}")))
}

fn has_room(
    admission: &AdmissionAttributes,
    quota: &Quota,
    delta: &ResourceList,
) -> Result<(), Status> {
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
    // A status update reports the size of a volume that has already grown.
    if exceeded.is_empty() || admission.subresource == "status" {
        return Ok(());
    }
    let name = quota.metadata().name();
    let asked = shown(&exceeded, |name| delta.get(name).cloned());
    let used = shown(&exceeded, |name| status.used().get(name));
    let hard = shown(&exceeded, |name| status.hard().get(name));
    Err(admission.forbidden(&format!(
        "exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"
    )))
}

/// Adds the usage to the quota's status, if it still fits.
async fn reserve_usage(
    admission: &AdmissionAttributes<'_>,
    name: &str,
    delta: &ResourceList,
) -> Result<(), Status> {
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
    let own = UserInfo::new("system:apiserver", &["system:masters"]);
    let mut call = RequestContext::new(own, "kube-apiserver");
    registry.guaranteed_update(&mut call, &kind, key, "status", change).await.map(drop)
}

fn shown(names: &BTreeSet<Text>, of: impl Fn(&str) -> Option<Quantity>) -> String {
    let each = names.iter().filter_map(|name| Some(format!("{name}={}", of(name)?)));
    each.collect::<Vec<_>>().join(",")
}
