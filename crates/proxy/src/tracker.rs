//! Tracks the table of one IP family and computes the differences when services change. Only
//! changed services are planned again.

use crate::base_table::{self, shared, shared_set};
use crate::service_rules::{ServiceRules, service_rules};
use crate::{NodeConfig, Service, ServiceName};
use std::collections::{BTreeMap, BTreeSet};
use sys::nft::{Batch, Data, Family, Key, Table, diff};

/// A shared set and a key in it.
type SharedElement = (&'static str, Key);

/// The whole table for these services, of one IP family.
pub fn plan(services: &[Service], node: &NodeConfig, family: Family) -> Table {
    let mut tracker = TableTracker::new(node.clone(), family);
    tracker.update(services.iter().map(|service| (&service.name, Some(service))));
    tracker.table()
}

/// The state of one table.
#[derive(Debug, Clone)]
pub struct TableTracker {
    node: NodeConfig,
    family: Family,
    service_rules: BTreeMap<ServiceName, ServiceRules>,
    /// Several services may claim the same element (a pod behind two services, or the same external
    /// IP): the first by name gets it, and the next one when that service is deleted.
    element_claims: BTreeMap<SharedElement, BTreeMap<ServiceName, Option<Data>>>,
}

impl TableTracker {
    pub fn new(node: NodeConfig, family: Family) -> Self {
        Self { node, family, service_rules: BTreeMap::new(), element_claims: BTreeMap::new() }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// The whole table in its current state.
    pub fn table(&self) -> Table {
        let mut table = base_table::table(self.family, &self.node);
        for part in self.service_rules.values() {
            table.chains.extend(part.chains.clone());
            table.sets.extend(part.sets.clone());
        }
        for (set, key) in self.element_claims.keys() {
            insert_element(&mut table, set, key, self.winning_claim(&(*set, key.clone())));
        }
        table
    }

    /// Applies changed services (`None`: deleted) and returns the batch from the old table to the
    /// new one.
    pub fn update<'a>(
        &mut self,
        changed: impl IntoIterator<Item = (&'a ServiceName, Option<&'a Service>)>,
    ) -> Batch {
        let mut before = self.empty_shared_sets();
        let mut after = self.empty_shared_sets();
        let mut touched: BTreeMap<SharedElement, Option<Option<Data>>> = BTreeMap::new();
        for (name, service) in changed {
            let old = self.service_rules.remove(name).unwrap_or_default();
            let planned = |service| service_rules(service, &self.node, self.family, Some(&old));
            // a panic on one service does not affect the others
            let new = service.and_then(|service| panics::catch("proxy", || planned(service)).ok());
            let new = new.unwrap_or_default();
            let keys: BTreeSet<&SharedElement> =
                old.elements.keys().chain(new.elements.keys()).collect();
            for key in keys.into_iter().filter(|key| old.elements.get(key) != new.elements.get(key))
            {
                touched.entry(key.clone()).or_insert_with(|| self.winning_claim(key).cloned());
                self.claim(name, key, new.elements.get(key));
            }
            before.chains.extend(old.chains);
            before.sets.extend(old.sets);
            if new != ServiceRules::default() {
                after.chains.extend(new.chains.clone());
                after.sets.extend(new.sets.clone());
                self.service_rules.insert(name.clone(), new);
            }
        }
        for (key, was) in touched {
            insert_element(&mut before, key.0, &key.1, was.as_ref());
            insert_element(&mut after, key.0, &key.1, self.winning_claim(&key));
        }
        diff(Some(&before), &after)
    }

    /// A table with the empty shared sets only, so that a difference consists of elements.
    fn empty_shared_sets(&self) -> Table {
        let mut table = Table::new(self.family, &self.node.table);
        for name in shared::ALL {
            table.sets.insert(name.to_owned(), shared_set(self.family, name));
        }
        table
    }

    fn winning_claim(&self, key: &SharedElement) -> Option<&Option<Data>> {
        self.element_claims.get(key)?.values().next()
    }

    fn claim(&mut self, name: &ServiceName, key: &SharedElement, data: Option<&Option<Data>>) {
        let claims = self.element_claims.entry(key.clone()).or_default();
        match data {
            Some(data) => claims.insert(name.clone(), data.clone()),
            None => claims.remove(name),
        };
        if claims.is_empty() {
            self.element_claims.remove(key);
        }
    }
}

#[expect(clippy::expect_used, reason = "every fragment has the shared sets")]
fn insert_element(table: &mut Table, set: &str, key: &Key, data: Option<&Option<Data>>) {
    if let Some(data) = data {
        let set = table.sets.get_mut(set).expect("every fragment has the shared sets");
        set.elements.insert(key.clone(), data.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;
    use crate::service_rules::tests::{node, service};
    use std::net::IpAddr;

    /// A number of services with distinct addresses.
    fn services(count: u16, endpoints: u8) -> Vec<Service> {
        (0..count)
            .map(|n| {
                let [high, low] = n.to_be_bytes();
                let mut it = service(&format!("s{n}"), 80);
                it.cluster_ips = vec![[172, 30, high, low].into()];
                it.ports[0].endpoints = (1..=endpoints)
                    .map(|e| Endpoint::ready([10, high, low, e].into(), 8080, e == 1))
                    .collect();
                it
            })
            .collect()
    }

    fn loaded(services: &[Service]) -> TableTracker {
        let mut tracker = TableTracker::new(node(), Family::Ip);
        tracker.update(services.iter().map(|s| (&s.name, Some(s))));
        tracker
    }

    #[test]
    fn one_endpoint_among_five_thousand_services_touches_few_elements() {
        let mut all = services(5000, 3);
        let mut tracker = loaded(&all);
        let it = &mut all[2500];
        it.ports[0].endpoints.push(Endpoint::ready([10, 200, 0, 9].into(), 8080, true));
        let added = tracker.update([(&it.name, Some(&*it))]);
        assert!(added.change_count() <= 10, "{}", added.change_count());
        it.ports[0].endpoints.remove(0);
        let removed = tracker.update([(&it.name, Some(&*it))]);
        assert!(removed.change_count() <= 10, "{}", removed.change_count());
        assert!(tracker.update([(&it.name, Some(&*it))]).is_empty());
    }

    #[test]
    fn one_endpoint_of_a_thousand_moves_no_other() {
        let mut all = services(1, 0);
        let at = |n: u16| {
            let [high, low] = n.to_be_bytes();
            Endpoint::ready([10, 1, high, low].into(), 8080, false)
        };
        all[0].ports[0].endpoints = (0..1000).map(at).collect();
        let mut tracker = loaded(&all);
        all[0].ports[0].endpoints.remove(10);
        let batch = tracker.update([(&all[0].name, Some(&all[0]))]);
        assert!(batch.change_count() <= 10, "{}", batch.change_count());
    }

    #[test]
    fn steps_add_up_to_the_plan() {
        let all = services(4, 2);
        let mut tracker = loaded(&all[..2]);
        tracker.update([(&all[3].name, Some(&all[3])), (&all[0].name, None)]);
        tracker.update([(&all[2].name, Some(&all[2])), (&all[1].name, Some(&all[1]))]);
        assert_eq!(tracker.table(), plan(&all[1..], &node(), Family::Ip));
    }

    /// A user who can create services requests the address of another service, or of a pod.
    #[test]
    fn nobody_takes_the_clusters_own_addresses() {
        let all = services(2, 1);
        let mut hostile = all[0].clone();
        hostile.name.name = "a".to_owned(); // the first by name
        hostile.cluster_ips = vec![[172, 30, 9, 9].into()];
        let own = loaded(std::slice::from_ref(&hostile)).table();
        hostile.external_ips = vec![[172, 30, 0, 1].into(), [172, 30, 7, 7].into()];
        hostile.load_balancer_ips = vec![[10, 0, 1, 1].into()];
        let table = loaded(std::slice::from_ref(&hostile)).table();
        assert_eq!(table, own, "no address of the cluster's ranges counts");
        hostile.external_ips.push([203, 0, 113, 1].into());
        let table = loaded(&[hostile]).table();
        let count = |table: &Table| table.sets[shared::SERVICE_IPS].elements.len();
        assert_eq!(count(&table), count(&own) + 1, "others do");
    }

    #[test]
    fn a_shared_element_stays_while_one_service_needs_it() {
        let mut all = services(2, 1);
        let pod: IpAddr = [10, 9, 9, 9].into();
        for it in &mut all {
            it.ports[0].endpoints = vec![Endpoint::ready(pod, 8080, true)];
        }
        let mut tracker = loaded(&all);
        let hairpins = |t: &TableTracker| t.table().sets[shared::HAIRPIN].elements.len();
        assert_eq!(hairpins(&tracker), 1);
        tracker.update([(&all[0].name, None)]);
        assert_eq!(hairpins(&tracker), 1);
        tracker.update([(&all[1].name, None)]);
        assert_eq!(hairpins(&tracker), 0);
        assert_eq!(tracker.table(), base_table::table(Family::Ip, &node()));
    }
}
