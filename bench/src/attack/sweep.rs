//! The order in which every field of every kind has its turn. The opening is short: each field of each struct once, the
//! values that have done the most harm first, so that an old fault that is back is found within a minute.

use std::collections::{BTreeMap, BTreeSet};

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
    turn: usize,
}

impl Sweep {
    /// The opening has the name of every kind, then trees, integers, times and quantities, then texts, each where the
    /// fewest names lead to it. Every other field of every kind follows.
    pub(crate) fn new(kinds: &[Kind], random: &mut Random) -> Self {
        let (mut first, mut all) = (BTreeMap::new(), Vec::new());
        for (at, kind) in kinds.iter().enumerate() {
            for found in damage::paths(&kind.definition.shape) {
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
        let mut places: Vec<Place> = first.into_iter().map(|(_, place)| place).collect();
        let known: BTreeSet<Place> = places.iter().cloned().collect();
        all.retain(|place| !known.contains(place));
        shuffle(&mut all, random);
        places.extend(all);
        Self { places, opening, turn: 0 }
    }

    /// How many fields have had their turn, of how many.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.turn.min(self.places.len()), self.places.len())
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.turn < self.opening
    }

    pub(crate) fn next(&mut self) -> Place {
        let place = self.places[self.turn % self.places.len()].clone();
        self.turn += 1;
        place
    }
}

/// What has done the most harm comes first.
fn class(ty: &Type) -> u8 {
    match ty {
        Type::Any => 1,
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::Float => 2,
        Type::Time | Type::MicroTime | Type::Duration | Type::Quantity | Type::IntOrString => 3,
        Type::Text | Type::Bytes | Type::Enum(_) => 4,
        _ => 5,
    }
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}
