//! Decides what the garbage collector does with an object, by the state of its owners. Pure.

use client::Propagation;
use object::Text;

use super::graph::Node;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OwnerState {
    Solid,
    /// The owner is terminating and waits for its dependents (foreground deletion).
    WaitingForDependents,
    Gone,
}

/// What the garbage collector does with an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GcDecision {
    Keep,
    Delete(Propagation, &'static str),
    /// Its owner waits for it, and one of its dependents waits too: a deadlock. Clear
    /// blockOwnerDeletion of its owner references, then delete it.
    BreakCycle,
    /// It has other owners; remove these owner references.
    RemoveOwnerReferences(Vec<Text>),
    /// Remove the owner references of its dependents to it, then its `orphan` finalizer.
    Orphan,
    /// Remove its `foregroundDeletion` finalizer: no dependent blocks it.
    RemoveFinalizer,
    /// It waits for these dependents; process them.
    Wait(Vec<Text>),
}

/// Decides what to do with an object that has these owners and dependents.
pub(super) fn decide(node: &Node, owners: &[(Text, OwnerState)], owned: &[Node]) -> GcDecision {
    if node.terminating {
        return decide_terminating(node, owned);
    }
    let of = |what: OwnerState| {
        let some = owners.iter().filter(move |(_, owner)| *owner == what);
        some.map(|(uid, _)| uid.clone()).collect::<Vec<_>>()
    };
    let (solid, waiting, gone) =
        (of(OwnerState::Solid), of(OwnerState::WaitingForDependents), of(OwnerState::Gone));
    match (owners, &*solid, &*waiting, &*gone) {
        ([], ..) | (_, _, [], []) => GcDecision::Keep,
        (_, [_, ..], ..) => GcDecision::RemoveOwnerReferences([gone, waiting].concat()),
        (_, [], [_, ..], _) if owned.iter().any(Node::is_waiting) => GcDecision::BreakCycle,
        (_, [], [_, ..], _) if !owned.is_empty() => {
            GcDecision::Delete(Propagation::Foreground, "its owner waits for it")
        }
        (_, [], [_, ..], _) => {
            GcDecision::Delete(propagation_from_finalizers(node), "its owner waits for it")
        }
        (_, [], [], _) => {
            GcDecision::Delete(propagation_from_finalizers(node), "all its owners are gone")
        }
    }
}

/// Decides what to do with a terminating object.
fn decide_terminating(node: &Node, owned: &[Node]) -> GcDecision {
    if node.has(ORPHAN) {
        return GcDecision::Orphan;
    }
    if !node.has(FOREGROUND) {
        return GcDecision::Keep;
    }
    let blocking: Vec<_> =
        owned.iter().filter(|one| one.blocks(&node.uid)).map(|one| one.uid.clone()).collect();
    let started = |uid: &Text| owned.iter().any(|one| one.uid == *uid && one.terminating);
    if blocking.is_empty() {
        GcDecision::RemoveFinalizer
    } else {
        GcDecision::Wait(blocking.into_iter().filter(|uid| !started(uid)).collect())
    }
}

/// The propagation policy that the object's finalizers already demand.
fn propagation_from_finalizers(node: &Node) -> Propagation {
    if node.has(ORPHAN) {
        Propagation::Orphan
    } else if node.has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

#[cfg(test)]
mod tests {
    use object::OwnerReference;

    use super::*;

    fn node(finalizers: &[&str], terminating: bool) -> Node {
        let finalizers = finalizers.iter().map(|name| Text::from(*name)).collect();
        Node { uid: "n".into(), finalizers, terminating, ..Node::default() }
    }

    fn owners(all: &[OwnerState]) -> Vec<(Text, OwnerState)> {
        all.iter().enumerate().map(|(at, owner)| (at.to_string().into(), *owner)).collect()
    }

    #[test]
    fn owners_decide() {
        use OwnerState::{Gone, Solid, WaitingForDependents};
        use Propagation::{Background, Foreground};
        let (none, some) = (vec![], vec![Node::default()]);
        let cases = [
            (vec![], &none, GcDecision::Keep),
            (vec![Solid], &none, GcDecision::Keep),
            (
                vec![Solid, Gone, WaitingForDependents],
                &none,
                GcDecision::RemoveOwnerReferences(vec!["1".into(), "2".into()]),
            ),
            (vec![Gone], &some, GcDecision::Delete(Background, "all its owners are gone")),
            (
                vec![Gone, WaitingForDependents],
                &none,
                GcDecision::Delete(Background, "its owner waits for it"),
            ),
            (
                vec![WaitingForDependents],
                &some,
                GcDecision::Delete(Foreground, "its owner waits for it"),
            ),
        ];
        let circle = vec![Node {
            terminating: true,
            finalizers: vec![FOREGROUND.into()],
            ..Node::default()
        }];
        assert_eq!(
            decide(&node(&[], false), &owners(&[WaitingForDependents]), &circle),
            GcDecision::BreakCycle
        );
        for (what, owned, verdict) in cases {
            assert_eq!(decide(&node(&[], false), &owners(&what), owned), verdict, "{what:?}");
        }
    }

    #[test]
    fn those_that_wait_are_let_go_in_the_end() {
        let blocking = |terminating| Node {
            uid: "p".into(),
            terminating,
            owners: vec![OwnerReference::new().with_uid("n").with_block_owner_deletion(true)],
            ..Node::default()
        };
        let free = Node { uid: "q".into(), ..Node::default() };
        let waiting = node(&[FOREGROUND], true);
        assert_eq!(decide(&waiting, &[], &[blocking(false)]), GcDecision::Wait(vec!["p".into()]));
        assert_eq!(decide(&waiting, &[], &[blocking(true)]), GcDecision::Wait(vec![]));
        assert_eq!(decide(&waiting, &[], &[free]), GcDecision::RemoveFinalizer);
        assert_eq!(decide(&node(&[ORPHAN], true), &[], &[]), GcDecision::Orphan);
        assert_eq!(decide(&node(&["other"], true), &[], &[]), GcDecision::Keep);
    }
}
