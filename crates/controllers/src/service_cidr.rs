//! ServiceCIDR controller: keeps a ServiceCIDR, by a finalizer, while Service IPs from it are in
//! use.

use std::{net::IpAddr, sync::Arc};

use api::networking::{IPAddress, ServiceCIDR};
use client::Error;
use object::{Clock, Condition, List, NamespacedName, Time, seconds_left, wait_seconds};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::{Config, conditions::Conditions};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Time after the deletion in which an IP may still be allocated, in seconds.
const GRACE: i64 = 10;
const ALLOCATOR: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

pub(crate) fn start(cx: &Context, config: &Config) {
    let ranges = ServiceCidrs {
        ranges: cx.cached_api(),
        addresses: cx.cached_api(),
        clock: config.clock.clone(),
    };
    let (by_range, by_address) = (ranges.ranges.clone(), ranges.ranges.clone());
    let going = |ranges: &CachedApi<ServiceCIDR>| -> Vec<NamespacedName> {
        let all = ranges.all().into_iter().filter(ServiceCIDR::is_terminating);
        all.map(|range| NamespacedName::from_meta(range.metadata())).collect()
    };
    Controller::new("service-cidr", cx, ranges)
        .queue_named("ipaddresses")
        .watches::<ServiceCIDR>(move |_| going(&by_range))
        .watches::<IPAddress>(move |_| going(&by_address))
        .start();
}

/// Reconciler of ServiceCIDRs.
#[derive(Debug)]
struct ServiceCidrs {
    ranges: CachedApi<ServiceCIDR>,
    addresses: CachedApi<IPAddress>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for ServiceCidrs {
    type Kind = ServiceCIDR;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        range: Option<ServiceCIDR>,
    ) -> Result<Requeue, Error> {
        let Some(mut range) = range else { return Ok(Requeue::OnChange) };
        let now = self.clock.now();
        if range.is_terminating() {
            return self.finalize(range, now).await;
        }
        if !range.metadata().finalizers().iter().any(|one| one == FINALIZER) {
            let because = range.write_cause("it must not go while it is used");
            range.metadata_mut().finalizers_mut().push(FINALIZER);
            range = self.ranges.with_cause(&because).update(range).await?;
        }
        self.report(range, ("True", "", "Kubernetes Service CIDR is ready"), now).await
    }
}

impl ServiceCidrs {
    async fn finalize(&self, mut range: ServiceCIDR, now: i64) -> Result<Requeue, Error> {
        if is_needed(&range, &self.ranges.all(), &self.addresses.all()) {
            let why = "There are still IPAddresses referencing the ServiceCIDR, please remove \
                       them or create a new ServiceCIDR";
            return self.report(range, ("False", "Terminating", why), now).await;
        }
        let since = range.metadata().deletion_timestamp().and_then(Time::parse_seconds);
        let left = seconds_left(since.unwrap_or(now), GRACE, now);
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        let known = range.metadata().finalizers();
        if known.iter().any(|one| one == FINALIZER) {
            let left: List<String> = known.iter().filter(|one| *one != FINALIZER).collect();
            let because = range.write_cause("none of its addresses is used");
            range.metadata_mut().set_finalizers(left);
            match self.ranges.with_cause(&because).update(range).await {
                Err(error) if error.is_not_found() => {}
                done => drop(done?),
            }
        }
        Ok(Requeue::OnChange)
    }

    async fn report(
        &self,
        mut range: ServiceCIDR,
        (verdict, reason, message): (&str, &str, &str),
        now: i64,
    ) -> Result<Requeue, Error> {
        let old = range.status().conditions().condition("Ready");
        let same = |old: &Condition| {
            (old.status(), old.reason(), old.message()) == (verdict, reason, message)
        };
        if old.is_some_and(same) {
            return Ok(Requeue::OnChange);
        }
        let condition = Condition::new()
            .with_type("Ready")
            .with_status(verdict)
            .with_reason(reason)
            .with_message(message);
        let because = range.write_cause("status has changed");
        range.status_mut().conditions_mut().set_condition(condition, now);
        self.ranges.with_cause(&because).update_status(range).await?;
        Ok(Requeue::OnChange)
    }
}

/// Whether an allocated IP is in this ServiceCIDR and in no other.
fn is_needed(range: &ServiceCIDR, all: &[ServiceCIDR], addresses: &[IPAddress]) -> bool {
    let cidrs =
        |range: &ServiceCIDR| range.spec().cidrs().iter().filter_map(parse).collect::<Vec<_>>();
    let others: Vec<_> = all
        .iter()
        .filter(|other| other.metadata().name() != range.metadata().name())
        .filter(|other| !other.is_terminating())
        .flat_map(cidrs)
        .collect();
    let own = cidrs(range);
    if own.iter().all(|own| others.iter().any(|other| other.1 <= own.1 && has(*other, own.0))) {
        return false;
    }
    let allocated =
        |address: &&IPAddress| address.metadata().labels().get(ALLOCATOR.0) == Some(ALLOCATOR.1);
    let used = addresses.iter().filter(allocated);
    let mut used = used.filter_map(|address| address.metadata().name().parse::<IpAddr>().ok());
    used.any(|ip| own.iter().any(|own| has(*own, ip)) && !others.iter().any(|it| has(*it, ip)))
}

fn parse(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    Some((ip.parse().ok()?, bits.parse().ok()?))
}

fn has((base, bits): (IpAddr, u8), ip: IpAddr) -> bool {
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let ((base, width), (ip, other)) = (number(base), number(ip));
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default();
    width == other && base & mask == ip & mask
}

#[cfg(test)]
mod tests {
    use api::networking::ServiceCIDRSpec;
    use object::ObjectMeta;

    use super::*;

    #[test]
    fn a_range_is_needed_for_what_no_other_has() {
        let range = |name: &str, cidr: &str| {
            ServiceCIDR::new()
                .with_metadata(ObjectMeta::new().with_name(name))
                .with_spec(ServiceCIDRSpec::new().with_cidrs([cidr]))
        };
        let address = |ip: &str| {
            let meta = ObjectMeta::new().with_name(ip).with_labels([ALLOCATOR]);
            IPAddress::new().with_metadata(meta)
        };
        let (own, used) = (range("a", "10.0.0.0/24"), [address("10.0.0.7")]);
        let needed = |others: &[ServiceCIDR], used: &[IPAddress]| {
            is_needed(&own, &[others, std::slice::from_ref(&own)].concat(), used)
        };
        assert!(needed(&[], &used) && !needed(&[], &[]));
        assert!(!needed(&[range("b", "10.0.0.0/16")], &used), "it is in a larger one");
        assert!(!needed(&[range("b", "10.0.0.0/29")], &used), "the address is in another");
        assert!(needed(&[range("b", "10.0.1.0/24")], &used));
        assert!(!needed(&[], &[address("fd00::1")]));
    }
}
