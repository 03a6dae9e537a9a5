//! Tests of read-modify-write loops with preconditions.

use std::sync::Arc;

use bytes::Bytes;

use super::{EngineFixture, key};
use crate::{Error, Version, WatchCache, Write};

/// Why nothing was written.
#[derive(Debug, PartialEq)]
enum Refused {
    Absent,
    /// The caller rejected the current value.
    Unfit,
}

/// The version that the caller has cached, if any.
type Belief = Option<(u64, Bytes)>;

/// Writes what `think` returns for the current value. The first attempt uses the caller's cached version; after each
/// conflict the current version is read. Returns the revision and the number of attempts.
async fn change(
    on: &EngineFixture,
    things: &WatchCache<Bytes>,
    name: &str,
    believed: Belief,
    mut think: impl AsyncFnMut(Option<&Bytes>) -> Option<Option<Bytes>>,
) -> Result<(u64, u32), Refused> {
    let read = || belief(things.get(&key(name)).as_ref());
    let (mut there, mut certain) = (believed.clone().or_else(read), believed.is_none());
    for thoughts in 1.. {
        let Some(next) = think(there.as_ref().map(|(_, bytes)| bytes)).await else {
            if certain {
                return Err(Refused::Unfit);
            }
            (there, certain) = (read(), true); // the cached version may be stale
            continue;
        };
        let expect = there.as_ref().map_or(0, |(revision, _)| *revision);
        let write = match next {
            Some(bytes) => Write::put(key(name), expect, bytes.clone(), bytes),
            None if expect == 0 => return Err(Refused::Absent),
            None => Write::delete(key(name), expect),
        };
        match on.engine.write(write).await {
            Ok(revision) => return Ok((revision, thoughts)),
            Err(Error::Conflict { have, .. }) => {
                (there, certain) = (read(), true);
                let seen = there.as_ref().map_or(0, |(revision, _)| *revision);
                assert!(seen >= have, "what it lost against, {have}, can be read, not {seen}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("one of many always wins")
}

fn belief(version: Option<&Arc<Version<Bytes>>>) -> Belief {
    version.map(|version| (version.revision, version.object.clone()))
}

/// A deletion with an up-to-date, a stale and no cached version.
pub(super) async fn a_deletion_is_of_what_there_is(on: &EngineFixture) {
    let things = on.serve();
    let any = async |_: Option<&Bytes>| Some(None);
    assert_eq!(change(on, &things, "a/x", None, any).await, Err(Refused::Absent));
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let first = things.get(&key("a/x"));
    let (gone, thoughts) =
        change(on, &things, "a/x", belief(first.as_ref()), any).await.expect("there");
    assert!(gone > made && thoughts == 1 && things.get(&key("a/x")).is_none());
    // The cached version was deleted meanwhile.
    let again = change(on, &things, "a/x", belief(first.as_ref()), any).await;
    assert_eq!(again, Err(Refused::Absent));
    // The cached version was changed: the caller gets a conflict, and deletes the current version.
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let first = things.get(&key("a/x"));
    on.put("a/x", made, "2").await.expect("as expected");
    let (_, thoughts) =
        change(on, &things, "a/x", belief(first.as_ref()), any).await.expect("there");
    assert!(thoughts == 2 && things.get(&key("a/x")).is_none());
}

/// A deletion's condition is checked against the current value, not the cached one.
pub(super) async fn a_condition_is_judged_by_what_there_is(on: &EngineFixture) {
    let things = on.serve();
    let only = |text: &'static [u8]| {
        async move |there: Option<&Bytes>| {
            (there.is_some_and(|there| there == text)).then_some(None)
        }
    };
    let made = on.put("a/x", 0, "mine").await.expect("absent");
    let first = things.get(&key("a/x"));
    assert_eq!(change(on, &things, "a/x", None, only(b"other")).await, Err(Refused::Unfit));
    on.put("a/x", made, "other").await.expect("as expected");
    // The cached value meets the condition, the current one does not.
    let refused = change(on, &things, "a/x", belief(first.as_ref()), only(b"mine")).await;
    assert_eq!(refused, Err(Refused::Unfit));
    assert_eq!(things.get(&key("a/x")).map(|there| there.object.clone()), Some("other".into()));
    // The cached value does not meet the condition, the current one does.
    let done = change(on, &things, "a/x", belief(first.as_ref()), only(b"other")).await;
    assert!(done.is_ok_and(|(_, thoughts)| thoughts == 2) && things.is_empty());
    // The value changes between read and write.
    on.put("a/x", 0, "1").await.expect("absent");
    let mut before = true;
    let (_, thoughts) = change(on, &things, "a/x", None, async |there: Option<&Bytes>| {
        if std::mem::take(&mut before) {
            let made = things.get(&key("a/x")).expect("there").revision;
            on.put("a/x", made, "2").await.expect("as expected");
        } else {
            assert_eq!(there, Some(&"2".into()));
        }
        Some(None)
    })
    .await
    .expect("there");
    assert!(thoughts == 2 && things.is_empty());
}

/// An update creates an absent key, changes an existing one, and gets a conflict if another writer was faster.
pub(super) async fn an_update_is_of_what_there_is(on: &EngineFixture) {
    let things = on.serve();
    let add = async |there: Option<&Bytes>| {
        let mut next = there.map(|there| there.to_vec()).unwrap_or_default();
        next.push(b'+');
        Some(Some(Bytes::from(next)))
    };
    let (made, _) = change(on, &things, "a/x", None, add).await.expect("made");
    let first = things.get(&key("a/x"));
    assert_eq!(belief(first.as_ref()), Some((made, "+".into())));
    let (second, thoughts) =
        change(on, &things, "a/x", belief(first.as_ref()), add).await.expect("changed");
    assert!(second > made && thoughts == 1);
    // By the cached version it would be the second update; it is the third.
    let (_, thoughts) =
        change(on, &things, "a/x", belief(first.as_ref()), add).await.expect("changed");
    assert_eq!((thoughts, things.get(&key("a/x")).expect("there").object.len()), (2, 3));
    // A caller that rejects the value is asked once, or twice if its cached version was stale.
    let mut thoughts = 0;
    let nothing = change(on, &things, "a/x", belief(first.as_ref()), async |_: Option<&Bytes>| {
        thoughts += 1;
        None
    })
    .await;
    assert_eq!((nothing, thoughts), (Err(Refused::Unfit), 2));
    assert_eq!(things.get(&key("a/x")).expect("there").object.len(), 3);
    // Two concurrent updates: the later one retries, and both take effect.
    let mut before = true;
    let (_, thoughts) = change(on, &things, "a/x", None, async |there: Option<&Bytes>| {
        if std::mem::take(&mut before) {
            change(on, &things, "a/x", None, add).await.expect("changed");
        }
        add(there).await
    })
    .await
    .expect("changed");
    assert_eq!((thoughts, things.get(&key("a/x")).expect("there").object.len()), (2, 5));
}

/// The count of objects is right after any sequence of writes.
pub(super) async fn how_many_there_are_is_known(on: &EngineFixture) {
    let things = on.serve();
    assert!(things.is_empty());
    let x = on.put("a/x", 0, "1").await.expect("absent");
    let y = on.put("b/y", 0, "1").await.expect("absent");
    assert_eq!((things.len(), things.snapshot().count(super::PREFIX, None)), (2, 2));
    let x = on.put("a/x", x, "longer").await.expect("as expected");
    assert!(on.put("a/x", 0, "1").await.is_err() && on.delete("a/z", 7).await.is_err());
    assert_eq!(things.len(), 2, "neither a change nor a refusal counts");
    on.delete("a/x", x).await.expect("as expected");
    assert!(on.delete("a/x", x).await.is_err());
    assert_eq!((things.len(), things.snapshot().count(&key("b/"), None)), (1, 1));
    on.delete("b/y", y).await.expect("as expected");
    assert!(things.is_empty() && things.snapshot().count(super::PREFIX, None) == 0);
}
