//! Difference of two tables: only the changes, in an order that the kernel accepts (objects are created before they are
//! referenced, and deleted after the last reference is gone).

use super::batch::ELEMENTS_PER_MESSAGE;
use super::{Batch, Data, Key, Operation, Set, Table};
use std::collections::BTreeMap;

/// The batch that turns `current` into `wanted`. Without `current`, the table that the kernel has under that name is
/// replaced in the same transaction.
pub fn diff(current: Option<&Table>, wanted: &Table) -> Batch {
    let mut batch = Batch::new();
    let empty = Table::new(wanted.family, wanted.name.clone());
    if current.is_none() {
        batch = Batch::remove_table(wanted.family, &wanted.name);
        batch.push(wanted.family, &wanted.name, Operation::AddTable);
    }
    let mut step = TableDiff { current: current.unwrap_or(&empty), desired: wanted, batch };
    step.remove_elements();
    step.flush_chains();
    step.remove_reshaped_sets();
    step.add_sets();
    step.add_chains();
    step.add_elements();
    step.add_rules();
    step.remove_chains();
    step.remove_sets();
    step.batch
}

/// Collects the operations that turn `current` into `desired`.
struct TableDiff<'a> {
    current: &'a Table,
    desired: &'a Table,
    batch: Batch,
}

impl TableDiff<'_> {
    fn push(&mut self, operation: Operation) {
        self.batch.push(self.desired.family, &self.desired.name, operation);
    }

    /// Deletes elements that disappear or change, in sets that stay.
    fn remove_elements(&mut self) {
        for (name, set) in &self.current.sets {
            let kept = self.desired.sets.get(name);
            let gone: Vec<Key> = match kept {
                Some(wanted) if wanted.same_shape(set) => changed(&set.elements, &wanted.elements),
                _ if set.data == [super::Type::Verdict] => set.elements.keys().cloned().collect(),
                _ => continue,
            };
            for part in gone.chunks(ELEMENTS_PER_MESSAGE) {
                self.push(Operation::DeleteElements { set: name.clone(), elements: part.to_vec() });
            }
        }
    }

    /// Flushes changed chains: rules are deleted before the sets and chains that they reference.
    fn flush_chains(&mut self) {
        for (name, chain) in &self.current.chains {
            let same = self.desired.chains.get(name) == Some(chain);
            if !same && !chain.rules.is_empty() {
                self.push(Operation::FlushChain { chain: name.clone() });
            }
        }
    }

    fn remove_reshaped_sets(&mut self) {
        for name in self.current.sets.keys() {
            if self.desired.sets.contains_key(name) && self.is_new_set(name) {
                self.push(Operation::DeleteSet { set: name.clone() });
            }
        }
    }

    fn add_sets(&mut self) {
        for (name, set) in &self.desired.sets {
            if self.is_new_set(name) {
                let shape = Set { elements: BTreeMap::new(), ..set.clone() };
                self.push(Operation::AddSet { set: name.clone(), shape });
            }
        }
    }

    fn add_chains(&mut self) {
        for (name, chain) in &self.desired.chains {
            if self.current.chains.get(name).is_none_or(|c| c.base != chain.base) {
                if self.current.chains.contains_key(name) {
                    self.push(Operation::DeleteChain { chain: name.clone() });
                }
                self.push(Operation::AddChain { chain: name.clone(), base: chain.base });
            }
        }
    }

    fn add_elements(&mut self) {
        let none = BTreeMap::new();
        for (name, set) in &self.desired.sets {
            let old = if self.is_new_set(name) { &none } else { &self.current.sets[name].elements };
            let added: Vec<(Key, Option<Data>)> = set
                .elements
                .iter()
                .filter(|(key, data)| old.get(*key) != Some(*data))
                .map(|(key, data)| (key.clone(), data.clone()))
                .collect();
            for part in added.chunks(ELEMENTS_PER_MESSAGE) {
                self.push(Operation::AddElements { set: name.clone(), elements: part.to_vec() });
            }
        }
    }

    fn add_rules(&mut self) {
        for (name, chain) in &self.desired.chains {
            if self.current.chains.get(name) == Some(chain) {
                continue;
            }
            for rule in &chain.rules {
                self.push(Operation::AddRule { chain: name.clone(), rule: rule.clone() });
            }
        }
    }

    fn remove_chains(&mut self) {
        for name in self.current.chains.keys() {
            if !self.desired.chains.contains_key(name) {
                self.push(Operation::DeleteChain { chain: name.clone() });
            }
        }
    }

    fn remove_sets(&mut self) {
        for name in self.current.sets.keys() {
            if !self.desired.sets.contains_key(name) {
                self.push(Operation::DeleteSet { set: name.clone() });
            }
        }
    }

    fn is_new_set(&self, name: &str) -> bool {
        let wanted = self.desired.sets.get(name);
        !self.current.sets.get(name).zip(wanted).is_some_and(|(old, new)| old.same_shape(new))
    }
}

fn changed(
    current: &BTreeMap<Key, Option<Data>>,
    wanted: &BTreeMap<Key, Option<Data>>,
) -> Vec<Key> {
    let gone = |(key, data): &(&Key, &Option<Data>)| wanted.get(*key) != Some(*data);
    current.iter().filter(gone).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Family, Rule, Type, Verdict};
    use super::*;

    fn table(ports: &[u16]) -> Table {
        let mut table = Table::new(Family::Ip, "t");
        for port in ports {
            let chain = format!("c{port}");
            table.chain(&chain).rule(Rule::new(Family::Ip).accept());
            let map = table.map("m", &[Type::Port], &[Type::Verdict]);
            map.add_verdict(Key::new().port(*port), Verdict::Goto(chain));
        }
        table
    }

    #[test]
    fn equal_tables_have_no_difference() {
        assert!(diff(Some(&table(&[1, 2])), &table(&[1, 2])).is_empty());
    }

    #[test]
    fn a_new_element_comes_after_its_chain_and_an_old_one_goes_before() {
        let batch = diff(Some(&table(&[1, 2])), &table(&[2, 3]));
        let said: Vec<String> = batch.operations().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "delete 1 elements of m",
                "flush chain c1",
                "add chain c3",
                "add 1 elements to m",
                "add rule to c3 ",
                "delete chain c1"
            ]
        );
        assert_eq!(batch.change_count(), 6);
    }
}
