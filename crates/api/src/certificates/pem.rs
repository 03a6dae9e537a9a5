//! Blocks of PEM, as Go reads them: whatever stands around them is skipped.

use object::Bytes;

/// One block.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// Whether it has headers before its content.
    pub(super) has_headers: bool,
    pub(super) content: Vec<u8>,
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The blocks of a text, in their order. What looks like a block and is none is skipped.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = begin(rest)?;
            rest = &rest[start + BEGIN.len()..];
            if let Some((block, after)) = block(rest) {
                rest = after;
                return Some(block);
            }
        }
    })
}

/// Where the next block begins: at the beginning of a line.
fn begin(text: &str) -> Option<usize> {
    if text.starts_with(BEGIN) {
        return Some(0);
    }
    text.find(&format!("\n{BEGIN}")).map(|at| at + 1)
}

/// The block whose label comes next, and what comes after it.
fn block(text: &str) -> Option<(Block<'_>, &str)> {
    let (line, body) = text.split_once('\n')?;
    let label = line.trim_end().strip_suffix(DASHES)?;
    let (body, end) = match body.strip_prefix(END) {
        Some(end) => ("", end),
        None => body.split_once(&format!("\n{END}"))?,
    };
    let after = end.strip_prefix(label)?.strip_prefix(DASHES)?;
    let is_header = |line: &&str| line.contains(':');
    let headers = body.lines().take_while(is_header).count();
    let content: String = body.lines().skip(headers).flat_map(str::split_whitespace).collect();
    let content = Bytes::decode(&content)?;
    Some((Block { label, has_headers: headers > 0, content }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_text() {
        let text = "hello\n-----BEGIN A-----\nYWJj\n-----END A-----\n-----BEGIN B-----\nK: v\n\nYQ==\n\
                    -----END B-----\n-----BEGIN C-----\n";
        let found: Vec<_> = blocks(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label, found[0].content.as_slice()), ("A", b"abc".as_slice()));
        assert!(found[1].has_headers && !found[0].has_headers);
    }
}
