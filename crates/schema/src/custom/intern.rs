//! Interns the names of custom resources for the lifetime of the process.
//!
//! Built-in kinds are named by constants, so all code takes `&'static str`. The names of a CRD are
//! leaked to get the same type. Each string is leaked once, and all of them together take at most
//! `MAX_INTERNED_BYTES`; further CRDs with new names are rejected.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

use crate::Subresource;

/// Enough for some hundred thousand CRDs with different names.
const MAX_INTERNED_BYTES: usize = 64 << 20;

static INTERNER: LazyLock<Mutex<Interner>> = LazyLock::new(Mutex::default);

/// The interned values.
#[derive(Default)]
struct Interner {
    texts: HashSet<&'static str>,
    lists: HashSet<&'static [&'static str]>,
    subresources: HashSet<&'static [Subresource]>,
    bytes: usize,
}

/// The limit of interned names is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many custom resource definitions have been seen since the server was started")]
pub struct InternBudgetExceeded;

/// Interns a string.
pub(super) fn text(text: &str) -> Result<&'static str, InternBudgetExceeded> {
    INTERNER.lock().unwrap_or_else(PoisonError::into_inner).text(text)
}

/// Interns a list of strings.
pub(super) fn texts<'a>(
    texts: impl Iterator<Item = &'a str>,
) -> Result<&'static [&'static str], InternBudgetExceeded> {
    let mut kept = INTERNER.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.map(|text| kept.text(text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(known) = kept.lists.get(&*texts) {
        return Ok(known);
    }
    kept.charge(size_of_val(&*texts))?;
    let list: &'static [&'static str] = Box::leak(texts.into_boxed_slice());
    kept.lists.insert(list);
    Ok(list)
}

/// Interns a list of subresources.
pub(super) fn subresources(
    parts: Vec<Subresource>,
) -> Result<&'static [Subresource], InternBudgetExceeded> {
    let mut kept = INTERNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.subresources.get(&*parts) {
        return Ok(known);
    }
    kept.charge(size_of_val(&*parts))?;
    let list: &'static [Subresource] = Box::leak(parts.into_boxed_slice());
    kept.subresources.insert(list);
    Ok(list)
}

impl Interner {
    fn text(&mut self, text: &str) -> Result<&'static str, InternBudgetExceeded> {
        if let Some(known) = self.texts.get(text) {
            return Ok(known);
        }
        self.charge(text.len())?;
        let text: &'static str = Box::leak(text.into());
        self.texts.insert(text);
        Ok(text)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), InternBudgetExceeded> {
        let spent = self.bytes + bytes + 64; // and the entry of the set
        if spent > MAX_INTERNED_BYTES {
            return Err(InternBudgetExceeded);
        }
        self.bytes = spent;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let (a, b) = (text("gadgets").expect("room"), text("gadgets").expect("room"));
        assert!(std::ptr::eq(a, b));
        let list = || texts(["a", "b"].into_iter()).expect("room");
        assert!(std::ptr::eq(list(), list()));
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut kept = Interner { bytes: MAX_INTERNED_BYTES - 70, ..Interner::default() };
        assert_eq!(kept.text("abc"), Ok("abc"));
        assert_eq!(kept.text("abcd"), Err(InternBudgetExceeded));
    }
}
