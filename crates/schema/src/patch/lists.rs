//! Merges lists item by item, for strategic merge patches.
//!
//! The result has the patch's items in the patch's order, and the other items at their old
//! positions among them: `[a b c]` and a patch of `[c x]` give `[a b c x]`. If all items of the
//! patch are new, they come first: a patch of `[x]` gives `[x a b c]`.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use object::{Value, to_json};

use super::{
    PatchError, entry,
    patch_schema::{ListPatchMeta, format_go_v, go_type, shown_list},
    strategic::{DIRECTIVE, Mode, ORDER, merge_object, unknown_directive},
};

/// Merges the items of a patch into a list.
pub(super) fn merge_list(
    mut old: Vec<Value>,
    change: &mut [Value],
    rules: ListPatchMeta,
    deletes: bool,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    if old.is_empty() && change.is_empty() {
        return Ok(old);
    }
    check_types(&[&old, change])?;
    let objects = old.first().or(change.first()).is_some_and(Value::is_object);
    if !objects && deletes {
        return Ok(without(&old, change));
    } else if !objects {
        let all = old.iter().chain(&*change).cloned().collect();
        return in_order(unique(all), change, &old, "");
    }
    if rules.key.is_empty() {
        let kind = rules.of.kind();
        return Err(PatchError::Failed(format!("cannot merge lists without merge key for {kind}")));
    }
    let mut plain = Vec::with_capacity(change.len());
    let mut replace = false;
    for item in change {
        match entry(item, DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let key = key_of(item, rules.key)?.clone();
                    old.retain(|other| entry(other, rules.key) != Some(&key));
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    let message = "merging lists cannot yet be specified in the patch";
                    return Err(PatchError::Failed(message.to_owned()));
                }
                _ => return Err(unknown_directive(directive, item)),
            },
        }
    }
    if replace {
        old = plain.drain(..).map(|item| item.clone()).collect();
    }
    let before = old.clone();
    let order: Vec<_> = plain.iter().map(|item| (**item).clone()).collect();
    let mut places = places(&old, rules.key);
    for item in plain {
        key_of(item, rules.key)?;
        match places.entry(identity(item, rules.key)) {
            Entry::Occupied(at) => {
                if let Some(other) = old.get_mut(*at.get()) {
                    *other = merge_object(std::mem::take(other), item, rules.of, mode)?;
                }
            }
            Entry::Vacant(place) => {
                place.insert(old.len());
                old.push(item.clone());
            }
        }
    }
    in_order(old, &order, &before, rules.key)
}

/// Sorts the items that `order` contains by it, and places the others by their position in
/// `before`.
pub(super) fn in_order(
    items: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    if !key.is_empty() {
        for item in items.iter().chain(order).chain(before) {
            key_of(item, key)?;
        }
    }
    let (order, before) = (places(order, key), places(before, key));
    let place = |among: &Places, item: &Value| among.get(&identity(item, key)).copied();
    let (mut named, mut rest): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| place(&order, item).is_some());
    sort(&mut named, |item| place(&order, item));
    sort(&mut rest, |item| place(&before, item));
    let mut all = Vec::with_capacity(named.len() + rest.len());
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    while let (Some(left), Some(right)) = (rest.peek(), named.peek()) {
        let earlier = match (place(&before, left), place(&before, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        all.extend(if earlier { rest.next() } else { named.next() });
    }
    all.extend(rest);
    all.extend(named);
    Ok(all)
}

/// Sorts by position like Go's comparison, in which an item without a position is less than every
/// other.
fn sort(items: &mut [Value], place: impl Fn(&Value) -> Option<usize>) {
    if items.len() > 20 {
        return items.sort_by_cached_key(place);
    }
    let mut places: Vec<_> = items.iter().map(place).collect();
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            let [before, this] = [at - 1, at].map(|at| places.get(at).copied().flatten());
            if this.zip(before).is_some_and(|(this, before)| this >= before) {
                break;
            }
            items.swap(at, at - 1);
            places.swap(at, at - 1);
        }
    }
}

/// Checks that all items of a patch are in the order that it sets.
pub(super) fn check_order(change: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in change.iter().filter(|item| entry(item, DIRECTIVE).is_none()) {
        let mut found = false;
        while !found && let Some(next) = wanted.next() {
            if !key.is_empty() {
                key_of(item, key)?;
                key_of(next, key)?;
            }
            found = same(next, item, key);
        }
        if !found {
            let (change, order) = (shown_list(change), shown_list(order));
            return Err(PatchError::Failed(format!(
                "The order in patch list:\n{change}\n doesn't match {ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Checks that all items are found in an order before its first element that is not an object.
pub(super) fn check_found(items: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    let Some(end) = order.iter().position(|item| !item.is_object()) else { return Ok(()) };
    let found = places(order.get(..end).unwrap_or_default(), key);
    if key.is_empty() || items.iter().all(|item| found.contains_key(&identity(item, key))) {
        return Ok(());
    }
    Err(PatchError::Failed(format!("value for key {end} is not a map")))
}

/// Checks that all items have one type, and that none is a list.
pub(super) fn check_types(lists: &[&[Value]]) -> Result<(), PatchError> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Err(PatchError::Failed("no elements in any of the given slices".to_owned()));
    };
    if matches!(first, Value::List(_)) {
        return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| go_type(item) != go_type(first)) {
        let lists: Vec<_> = lists.iter().map(|list| shown_list(list)).collect();
        let lists = lists.join(" ");
        let message = format!("list element types are not identical: [{lists}]");
        return Err(PatchError::Failed(message));
    }
    Ok(())
}

/// The merge key of an item.
pub(super) fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    if !item.is_object() {
        let found = go_type(item);
        let message = format!("expected a map[string]interface {{}}, but received a {found}");
        return Err(PatchError::Failed(message));
    }
    entry(item, key).ok_or_else(|| {
        let item = format_go_v(item);
        PatchError::Failed(format!("map: {item} does not contain declared merge key: {key}"))
    })
}

/// Whether two items have the same merge key.
pub(super) fn same(a: &Value, b: &Value, key: &str) -> bool {
    if key.is_empty() { a == b } else { entry(a, key) == entry(b, key) }
}

/// Removes duplicates.
pub(super) fn unique(items: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items.into_iter().filter(|item| seen.insert(identity(item, ""))).collect()
}

/// `items` without those that are in `others`.
pub(super) fn without(items: &[Value], others: &[Value]) -> Vec<Value> {
    let others = places(others, "");
    items.iter().filter(|item| !others.contains_key(&identity(item, ""))).cloned().collect()
}

/// The first position of each item in a list, hashed to avoid quadratic time.
type Places = HashMap<Vec<u8>, usize>;

fn places(items: &[Value], key: &str) -> Places {
    let mut places = Places::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        places.entry(identity(item, key)).or_insert(at);
    }
    places
}

/// The identity of an item: its merge key, or the whole item.
fn identity(item: &Value, key: &str) -> Vec<u8> {
    to_json(if key.is_empty() { item } else { item.get(key) })
}
