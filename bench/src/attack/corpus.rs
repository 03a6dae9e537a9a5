//! The corpus: sequences that reached new code, and mutations of them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::Result;
use serde_json::Value;

use super::{
    damage,
    generate::Generator,
    kinds::Kind,
    request::{self, Body, Caller, Sequence},
    values,
};
use crate::random::Random;

/// Maximum number of sequences in memory; the oldest are dropped.
const MOST: usize = 20_000;

/// The corpus of a campaign.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    folder: Option<PathBuf>,
    sequences: Vec<Sequence>,
    /// What the corpus has reached: edges of the program, or kinds of responses if edges are not counted.
    pub(crate) edges: BTreeSet<u32>,
    answers: BTreeSet<String>,
}

impl Corpus {
    /// Reads the corpus of earlier attacks.
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Self> {
        let mut corpus = Self { folder, ..Self::default() };
        if let Some(folder) = &corpus.folder {
            fs::create_dir_all(folder)?;
            let mut files: Vec<PathBuf> =
                fs::read_dir(folder)?.flatten().map(|file| file.path()).collect();
            files.sort();
            for file in files {
                corpus.sequences.extend(request::read(&file).unwrap_or_default());
            }
        }
        Ok(corpus)
    }

    pub(crate) fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// Keeps a sequence that has reached something new. Returns whether it has.
    pub(crate) fn note(
        &mut self,
        sequence: &Sequence,
        edges: &[u32],
        codes: &[u16],
        guided: bool,
    ) -> Result<bool> {
        let before = self.edges.len() + self.answers.len();
        self.edges.extend(edges);
        if !guided {
            for (request, code) in sequence.requests.iter().zip(codes) {
                let path: Vec<&str> = request
                    .bare_path()
                    .split('/')
                    .filter(|part| !part.starts_with("fz-"))
                    .collect();
                let ty = request
                    .headers
                    .iter()
                    .find(|(name, _)| name == "content-type")
                    .map_or("", |(_, value)| value);
                self.answers.insert(format!("{} {path:?} {ty} {code}", request.method));
            }
        }
        let new = self.edges.len() + self.answers.len() > before;
        if new {
            if self.sequences.len() >= MOST {
                self.sequences.remove(0);
            }
            self.sequences.push(sequence.clone());
            if let (Some(folder), true) = (&self.folder, guided) {
                let file = folder.join(format!("{:08}.jsonl", self.edges.len()));
                request::write(&file, "", std::slice::from_ref(sequence))?;
            }
        }
        Ok(new)
    }

    /// A mutation of a sequence of the corpus, probably a recent one; `None` if the corpus is empty.
    pub(crate) fn mutated(&self, generator: &mut Generator) -> Option<Sequence> {
        let mut random = generator.random.clone();
        let pick = |random: &mut Random| {
            let last = self.sequences.len().min(if random.one_in(2) { 200 } else { usize::MAX });
            let at = self.sequences.len() - 1 - random.below(last);
            self.sequences[at].clone()
        };
        if self.sequences.is_empty() {
            return None;
        }
        let mut sequence = pick(&mut random);
        for _ in 0..=random.below(3) {
            mutate(&mut sequence, &pick(&mut random), &generator.kinds, &mut random);
        }
        generator.random = random;
        Some(sequence)
    }
}

fn mutate(sequence: &mut Sequence, other: &Sequence, kinds: &[Kind], random: &mut Random) {
    if sequence.requests.is_empty() {
        sequence.requests.clone_from(&other.requests);
        return;
    }
    let at = random.below(sequence.requests.len());
    match random.below(12) {
        0 if sequence.requests.len() < 12 => {
            sequence.requests.extend(other.requests.iter().cloned());
        }
        1 if sequence.requests.len() < 12 => {
            sequence.requests.insert(at, sequence.requests[at].clone());
        }
        2 if sequence.requests.len() > 1 => drop(sequence.requests.remove(at)),
        3 => sequence.at_once = !sequence.at_once,
        4 => {
            sequence.requests[at].user =
                [Caller::Admin, Caller::Tenant, Caller::Node][random.below(3)];
        }
        5 => super::queries::decorate(&mut sequence.requests[at], random),
        _ => body(sequence, at, other, kinds, random),
    }
}

/// Damages the body of a request, by its kind's schema if the kind is known from the path.
fn body(sequence: &mut Sequence, at: usize, other: &Sequence, kinds: &[Kind], random: &mut Random) {
    let path = sequence.requests[at].bare_path().to_owned();
    let Body::Text(text) = &mut sequence.requests[at].body else { return };
    let Ok(mut tree) = serde_json::from_str::<Value>(text) else { return };
    let kind = kinds
        .iter()
        .find(|kind| ["a", "b"].iter().any(|name| path.starts_with(&kind.collection(name))));
    match kind {
        Some(kind) if tree.is_object() && !random.one_in(4) => {
            damage::damage(&kind.definition.schema, &mut tree, random);
        }
        _ => anywhere(&mut tree, other, random),
    }
    *text = tree.to_string();
}

/// Replaces a value in the tree by a hostile one, or by a part of another request.
fn anywhere(tree: &mut Value, other: &Sequence, random: &mut Random) {
    let mut at = tree;
    for _ in 0..random.below(8) {
        let count = match at {
            Value::Object(map) => map.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if count == 0 {
            break;
        }
        let which = random.below(count);
        at = match at {
            Value::Object(map) => match map.iter_mut().nth(which) {
                Some((_, inner)) => inner,
                None => return,
            },
            Value::Array(items) => &mut items[which],
            _ => return,
        };
    }
    let stolen = other.requests.iter().find_map(|one| match &one.body {
        Body::Text(text) => serde_json::from_str::<Value>(text).ok(),
        _ => None,
    });
    *at = match (random.below(5), stolen) {
        (0, _) => values::tree(random),
        (1, _) => values::number(random),
        (2, Some(stolen)) => stolen["spec"].clone(),
        _ => values::text("", random),
    };
}
