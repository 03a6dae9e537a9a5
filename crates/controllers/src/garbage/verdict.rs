//! What is to become of an object, by what has become of its owners. Pure.

use client::Propagation;
use object::Text;

use super::graph::Node;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Owner {
    Solid,
    /// It is being deleted, and waits for what it owns.
    Waiting,
    Gone,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    Delete(Propagation, &'static str),
    /// Its owner waits for it, and what it owns waits too: a circle in which nobody would
    /// ever go. It holds its owners back no longer, and is deleted.
    BreakCircle,
    /// Others own it still; these references are to go.
    Disown(Vec<Text>),
    /// Whatever it owns is to lose the reference to it; then it may go.
    Orphan,
    /// Nothing holds it back any more.
    LetGo,
    /// These must go first.
    Wait(Vec<Text>),
}

pub(super) fn judge(node: &Node, owners: &[(Text, Owner)], owned: &[Node]) -> Verdict {
    if node.terminating {
        return going(node, owned);
    }
    let of = |what: Owner| {
        let some = owners.iter().filter(move |(_, owner)| *owner == what);
        some.map(|(uid, _)| uid.clone()).collect::<Vec<_>>()
    };
    let (solid, waiting, gone) = (of(Owner::Solid), of(Owner::Waiting), of(Owner::Gone));
    match (owners, &*solid, &*waiting, &*gone) {
        ([], ..) | (_, _, [], []) => Verdict::Keep,
        (_, [_, ..], ..) => Verdict::Disown([gone, waiting].concat()),
        (_, [], [_, ..], _) if owned.iter().any(Node::is_waiting) => Verdict::BreakCircle,
        (_, [], [_, ..], _) if !owned.is_empty() => {
            Verdict::Delete(Propagation::Foreground, "its owner waits for it")
        }
        (_, [], [_, ..], _) => Verdict::Delete(own_wish(node), "its owner waits for it"),
        (_, [], [], _) => Verdict::Delete(own_wish(node), "all its owners are gone"),
    }
}

/// It is being deleted: what does it wait for?
fn going(node: &Node, owned: &[Node]) -> Verdict {
    if node.has(ORPHAN) {
        return Verdict::Orphan;
    }
    if !node.has(FOREGROUND) {
        return Verdict::Keep;
    }
    let blocking: Vec<_> =
        owned.iter().filter(|one| one.blocks(&node.uid)).map(|one| one.uid.clone()).collect();
    let started = |uid: &Text| owned.iter().any(|one| one.uid == *uid && one.terminating);
    if blocking.is_empty() {
        Verdict::LetGo
    } else {
        Verdict::Wait(blocking.into_iter().filter(|uid| !started(uid)).collect())
    }
}

/// Finalizers that somebody put there beforehand say how it shall be deleted.
fn own_wish(node: &Node) -> Propagation {
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

    fn owners(all: &[Owner]) -> Vec<(Text, Owner)> {
        all.iter().enumerate().map(|(at, owner)| (at.to_string().into(), *owner)).collect()
    }

    #[test]
    fn owners_decide() {
        use Owner::{Gone, Solid, Waiting};
        use Propagation::{Background, Foreground};
        let (none, some) = (vec![], vec![Node::default()]);
        let cases = [
            (vec![], &none, Verdict::Keep),
            (vec![Solid], &none, Verdict::Keep),
            (vec![Solid, Gone, Waiting], &none, Verdict::Disown(vec!["1".into(), "2".into()])),
            (vec![Gone], &some, Verdict::Delete(Background, "all its owners are gone")),
            (vec![Gone, Waiting], &none, Verdict::Delete(Background, "its owner waits for it")),
            (vec![Waiting], &some, Verdict::Delete(Foreground, "its owner waits for it")),
        ];
        let circle = vec![Node {
            terminating: true,
            finalizers: vec![FOREGROUND.into()],
            ..Node::default()
        }];
        assert_eq!(judge(&node(&[], false), &owners(&[Waiting]), &circle), Verdict::BreakCircle);
        for (what, owned, verdict) in cases {
            assert_eq!(judge(&node(&[], false), &owners(&what), owned), verdict, "{what:?}");
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
        assert_eq!(judge(&waiting, &[], &[blocking(false)]), Verdict::Wait(vec!["p".into()]));
        assert_eq!(judge(&waiting, &[], &[blocking(true)]), Verdict::Wait(vec![]));
        assert_eq!(judge(&waiting, &[], &[free]), Verdict::LetGo);
        assert_eq!(judge(&node(&[ORPHAN], true), &[], &[]), Verdict::Orphan);
        assert_eq!(judge(&node(&["other"], true), &[], &[]), Verdict::Keep);
    }
}
