//! The order in which every field of every kind is attacked. The opening is short: each field of each struct once,
//! the most harmful values first, so that a regression of a known fault is found within a minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use object::Type;

use super::{damage, kinds::Kind};
use crate::random::Random;

/// A field: the index of its kind, and its path.
pub(crate) type Place = (usize, Vec<String>);

/// The fields in the order of the attack.
#[derive(Debug)]
pub(crate) struct Sweep {
    places: Vec<Place>,
    /// Number of fields in the opening.
    opening: usize,
    /// Positions of the fields that get long lists.
    lists: Range<usize>,
    turn: usize,
}

impl Sweep {
    /// Orders the fields. The opening has the name of every kind, then trees, integers, times and quantities, then
    /// lists and texts, each field of a struct at its shortest path. All other fields of every kind follow.
    pub(crate) fn new(kinds: &[Kind], random: &mut Random) -> Self {
        let (mut first, mut all) = (BTreeMap::new(), Vec::new());
        for (at, kind) in kinds.iter().enumerate() {
            for found in damage::paths(&kind.definition.schema) {
                let path: Vec<String> = found.path.into_iter().map(str::to_owned).collect();
                let is_name = path == ["metadata", "name"];
                let key = (found.owner, path.last().cloned(), is_name.then_some(at));
                let class = if is_name { 0 } else { class(found.ty) };
                // the status is dropped when an object is created
                let rank = (path[0] == "status", class, path.len());
                let best = first.entry(key).or_insert_with(|| (rank, (at, path.clone())));
                if rank < best.0 {
                    *best = (rank, (at, path.clone()));
                }
                all.push((at, path));
            }
        }
        let mut first: Vec<_> = first.into_values().collect();
        shuffle(&mut first, random);
        first.sort_by_key(|(rank, _)| *rank);
        // a created object has no status: these fields are not part of the opening
        let opening = first.iter().take_while(|((is_status, ..), _)| !is_status).count();
        let before =
            |limit: u8| first.partition_point(|((status, class, _), _)| !status && *class < limit);
        let lists = before(LISTS)..before(LISTS + 1);
        let mut places: Vec<Place> = first.into_iter().map(|(_, place)| place).collect();
        let known: BTreeSet<Place> = places.iter().cloned().collect();
        all.retain(|place| !known.contains(place));
        shuffle(&mut all, random);
        places.extend(all);
        Self { places, opening, lists, turn: 0 }
    }

    /// Number of fields that were attacked, and number of all.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.turn.min(self.places.len()), self.places.len())
    }

    /// Whether the opening is not over yet.
    pub(crate) fn is_opening(&self) -> bool {
        self.turn < self.opening
    }

    /// Whether the next field gets a long list.
    pub(crate) fn is_list(&self) -> bool {
        self.lists.contains(&self.turn)
    }

    /// The next field to attack.
    pub(crate) fn next(&mut self) -> Place {
        let place = self.places[self.turn % self.places.len()].clone();
        self.turn += 1;
        place
    }
}

/// The class of lists. Each is sent alone, so that its CPU time can be measured.
const LISTS: u8 = 5;

/// The class of a type; the most harmful come first.
fn class(ty: &Type) -> u8 {
    match ty {
        Type::Any => 1,
        // most of them are seconds
        Type::Int64 | Type::UInt64 => 2,
        Type::Int32 | Type::Float => 3,
        Type::Time | Type::MicroTime | Type::Duration | Type::Quantity | Type::IntOrString => 4,
        Type::List(_) => LISTS,
        Type::Text | Type::Bytes | Type::Enum(_) => 6,
        _ => 7,
    }
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}

/// Attacks that have killed a server before are among the first five hundred fields, so that they come within a
/// minute.
#[test]
fn the_worst_comes_first() {
    let kinds = super::kinds::all().expect("kinds");
    let sweep = Sweep::new(&kinds, &mut Random::new(1));
    let first = |path: &[&str]| {
        sweep
            .places
            .iter()
            .position(|(_, own)| own.iter().map(String::as_str).eq(path.iter().copied()))
    };
    println!("{} places in the opening, lists {:?}", sweep.opening, sweep.lists);
    for path in [
        &["metadata", "name"][..],
        &["metadata", "managedFields", "fieldsV1"],
        &["spec", "activeDeadlineSeconds"],
    ] {
        let at = first(path);
        println!("{path:?} at {at:?}");
        assert!(at.is_some_and(|at| at < 500), "{path:?} at {at:?}");
    }
}
