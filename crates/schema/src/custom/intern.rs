//! Names of kinds that came with a CRD, kept for as long as the process lives.
//!
//! A built-in kind names itself by constants, and so everything that handles kinds takes
//! constants. A CRD's names become such by being kept for ever. Each text is kept once,
//! and all of them together take at most `BUDGET`: who makes more CRDs under ever new
//! names than fit into it is refused.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

use crate::Subresource;

/// Some hundred thousand CRDs under different names.
const BUDGET: usize = 64 << 20;

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Kept {
    texts: HashSet<&'static str>,
    lists: HashSet<&'static [&'static str]>,
    parts: HashSet<&'static [Subresource]>,
    bytes: usize,
}

/// There is no room for further names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many custom resource definitions have been seen since the server was started")]
pub struct Full;

/// The same text, for ever.
pub(super) fn text(text: &str) -> Result<&'static str, Full> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).text(text)
}

/// The same texts, for ever.
pub(super) fn texts<'a>(
    texts: impl Iterator<Item = &'a str>,
) -> Result<&'static [&'static str], Full> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.map(|text| kept.text(text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(known) = kept.lists.get(&*texts) {
        return Ok(known);
    }
    kept.spend(size_of_val(&*texts))?;
    let list: &'static [&'static str] = Box::leak(texts.into_boxed_slice());
    kept.lists.insert(list);
    Ok(list)
}

/// The same subresources, for ever.
pub(super) fn subresources(parts: Vec<Subresource>) -> Result<&'static [Subresource], Full> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.parts.get(&*parts) {
        return Ok(known);
    }
    kept.spend(size_of_val(&*parts))?;
    let list: &'static [Subresource] = Box::leak(parts.into_boxed_slice());
    kept.parts.insert(list);
    Ok(list)
}

impl Kept {
    fn text(&mut self, text: &str) -> Result<&'static str, Full> {
        if let Some(known) = self.texts.get(text) {
            return Ok(known);
        }
        self.spend(text.len())?;
        let text: &'static str = Box::leak(text.into());
        self.texts.insert(text);
        Ok(text)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Full> {
        let spent = self.bytes + bytes + 64; // and what the set itself takes
        if spent > BUDGET {
            return Err(Full);
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
        let mut kept = Kept { bytes: BUDGET - 70, ..Kept::default() };
        assert_eq!(kept.text("abc"), Ok("abc"));
        assert_eq!(kept.text("abcd"), Err(Full));
    }
}
