//! The order in which every field of every kind has its turn. The opening is short: each field of each struct once, the
//! values that have done the most harm first, so that an old fault that is back is found within a minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use object::Type;

use super::{damage, kinds::Kind};
use crate::random::Random;

/// A kind, as its place among the kinds, and the path to a field of it.
pub(crate) type Place = (usize, Vec<String>);

#[derive(Debug)]
pub(crate) struct Sweep {
    places: Vec<Place>,
    /// How many of the places are the opening.
    opening: usize,
    /// Which of them are long lists.
    lists: Range<usize>,
    turn: usize,
}

impl Sweep {
    /// The opening has the name of every kind, then trees, integers, times and quantities, then lists and texts, each where the
    /// fewest names lead to it. Every other field of every kind follows.
    pub(crate) fn new(kinds: &[Kind], random: &mut Random) -> Self {
        let (mut first, mut all) = (BTreeMap::new(), Vec::new());
        for (at, kind) in kinds.iter().enumerate() {
            for found in damage::paths(&kind.definition.schema) {
                let path: Vec<String> = found.path.into_iter().map(str::to_owned).collect();
                let is_name = path == ["metadata", "name"];
                let key = (found.owner, path.last().cloned(), is_name.then_some(at));
                let class = if is_name { 0 } else { class(found.ty) };
                // what a status says is dropped where an object is created
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
        // a created object has no status: these are not worth the first minute
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

    /// How many fields have had their turn, of how many.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.turn.min(self.places.len()), self.places.len())
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.turn < self.opening
    }

    /// Whether the next field gets a long list.
    pub(crate) fn is_list(&self) -> bool {
        self.lists.contains(&self.turn)
    }

    pub(crate) fn next(&mut self) -> Place {
        let place = self.places[self.turn % self.places.len()].clone();
        self.turn += 1;
        place
    }
}

/// Lists are long, so that it is seen what takes too much time for them: each is sent alone.
const LISTS: u8 = 5;

/// What has done the most harm comes first.
fn class(ty: &Type) -> u8 {
    match ty {
        Type::Any => 1,
        // nearly all of them are seconds
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

/// What has ended a server before is in the first five hundred places, so that it is found within a minute.
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
