//! Regular expressions in RE2 syntax, with limits on their size and work.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::sync::{LazyLock, Mutex, PoisonError};

use object::Recent;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::work_budget::{self, Exhausted};

/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_SIZE: usize = 1 << 20;
/// Maximum number of states of a pattern; slightly more than fit into that size.
const MOST_STATES: u64 = 100_000;
/// Maximum number of states of all cached patterns, about 32 MiB.
const CACHED: usize = 500_000;
/// Maximum work of one match: bytes of the text times states of the pattern.
const MATCH: u64 = 1 << 28;
/// How much of that work is one unit of the work budget.
const PER_EFFORT: u64 = 500;

/// A compiled pattern, or RE2's error message.
type Compiled = Result<Pattern, String>;

/// Recently compiled patterns: each is part of an object that is used again and again.
static CACHE: LazyLock<Mutex<Recent<String, Compiled>>> =
    LazyLock::new(|| Mutex::new(Recent::new(CACHED)));

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    states: u64,
}

impl Pattern {
    pub fn is_match(&self, text: &str) -> Result<bool, Exhausted> {
        self.spend(text)?;
        Ok(self.regex.is_match(text))
    }

    /// The first match.
    pub fn find<'t>(&self, text: &'t str) -> Result<Option<&'t str>, Exhausted> {
        self.spend(text)?;
        Ok(self.regex.find(text).map(|found| found.as_str()))
    }

    /// The first `most` matches. Each search may scan all of the rest.
    pub fn find_all<'t>(&self, text: &'t str, most: usize) -> Result<Vec<&'t str>, Exhausted> {
        self.spend(text)?;
        let (mut all, mut looked_at) = (Vec::new(), 0);
        for found in self.regex.find_iter(text).take(most) {
            let rest = (text.len() - found.start()) as u64;
            looked_at += rest;
            if looked_at > MATCH {
                return Err(Exhausted);
            }
            work_budget::spend(rest / 1000)?;
            all.push(found.as_str());
        }
        Ok(all)
    }

    /// The approximate number of states of the compiled pattern.
    pub fn states(&self) -> u64 {
        self.states
    }

    fn spend(&self, text: &str) -> Result<(), Exhausted> {
        let steps = self.states.saturating_mul(text.len() as u64);
        if steps > MATCH {
            return Err(Exhausted);
        }
        work_budget::spend(steps / PER_EFFORT)
    }
}

/// Compiles `pattern` or takes it from the cache; the error is RE2's, as Go prints it.
pub fn compile(pattern: &str) -> Compiled {
    match cached(pattern) {
        Some(compiled) => compiled,
        None => compile_anew(pattern),
    }
}

/// The compiled pattern, if it is cached.
pub fn cached(pattern: &str) -> Option<Compiled> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(pattern).cloned()
}

fn compile_anew(pattern: &str) -> Compiled {
    let length = pattern.len() as u64;
    work_budget::spend(50 + length / 4).map_err(|why| why.to_string())?;
    let translated = translate(pattern)?;
    let large = || format!("error parsing regexp: expression too large: `{pattern}`");
    let invalid = |error: &dyn std::fmt::Display| match range(pattern) {
        Some(range) if error.to_string().contains("class range") => {
            format!("error parsing regexp: invalid character class range: `{range}`")
        }
        _ => format!("error parsing regexp: invalid syntax: `{pattern}`"),
    };
    let compiled = regex_syntax::parse(&translated).map_err(|error| invalid(&error));
    let compiled = compiled.and_then(|parsed| {
        let states = states(&parsed);
        if states > MOST_STATES {
            return Err(large());
        }
        work_budget::spend(states).map_err(|why| why.to_string())?;
        let built = RegexBuilder::new(&translated).size_limit(MAX_COMPILED_SIZE).build();
        let regex = built.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => large(),
            error => invalid(&error),
        })?;
        Ok(Pattern { regex, states })
    });
    let exhausted = matches!(&compiled, Err(why) if *why == Exhausted.to_string());
    if !exhausted {
        let weight = compiled.as_ref().map_or(1, Pattern::states) + length;
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let weight = usize::try_from(weight).unwrap_or(usize::MAX);
        cache.insert(pattern.to_owned(), compiled.clone(), weight);
    }
    compiled
}

/// The approximate number of states of the automaton.
fn states(pattern: &Hir) -> u64 {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) if class.is_ascii() => 1,
        HirKind::Class(Class::Unicode(class)) => 4 * class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            states(&repetition.sub).saturating_add(1).saturating_mul(times.into())
        }
        HirKind::Capture(capture) => states(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(states).fold(1, u64::saturating_add)
        }
    }
}

/// Translates the pattern to the syntax of the `regex` crate: character classes are ASCII, brackets
/// do not nest, and what RE2 rejects is rejected.
#[expect(clippy::too_many_lines, reason = "an arm for each sign")]
fn translate(pattern: &str) -> Result<String, String> {
    let wrong = |what: &str, part: &str| Err(format!("error parsing regexp: {what}: `{part}`"));
    let chars: Vec<char> = pattern.chars().collect();
    let text = |from: usize, to: usize| -> String { part(&chars, from, to).iter().collect() };
    // the end of the last named class; none is searched for beyond it
    let last_named = chars.windows(2).rposition(|two| two == [':', ']']).unwrap_or_default();
    let mut out = String::with_capacity(pattern.len());
    let (mut at, mut depth, mut repeated) = (0, 0_usize, None);
    let mut atom = false;
    while let Some(&sign) = chars.get(at) {
        let start = at;
        match sign {
            '\\' => {
                at = escape(&chars, at, &mut out, false)?;
                (atom, repeated) = (true, None);
            }
            '[' => {
                at = class(&chars, at, last_named, &mut out)?;
                (atom, repeated) = (true, None);
            }
            '(' => {
                if let Some(look) = looks(part(&chars, at, chars.len())) {
                    let part = text(at, at + look);
                    return wrong("invalid or unsupported Perl syntax", &part);
                }
                depth += 1;
                out.push('(');
                at += 1;
                (atom, repeated) = (false, None);
                let has_flags = chars.get(start + 1) == Some(&'?');
                while has_flags && let Some(&flag) = chars.get(at) {
                    out.push(flag);
                    at += 1;
                    if flag == ')' {
                        depth -= 1;
                    }
                    if matches!(flag, ':' | ')' | '>') {
                        break;
                    }
                }
            }
            ')' => {
                if depth == 0 {
                    return wrong("unexpected )", pattern);
                }
                depth -= 1;
                out.push(')');
                at += 1;
                (atom, repeated) = (true, None);
            }
            '*' | '+' | '?' | '{' => {
                let end = if sign == '{' { bounds(&chars, at) } else { Some(at + 1) };
                let Some(mut end) = end else {
                    out.push_str("\\{");
                    at += 1;
                    (atom, repeated) = (true, None);
                    continue;
                };
                if chars.get(end) == Some(&'?') {
                    end += 1;
                }
                if let Some(first) = repeated {
                    return wrong("invalid nested repetition operator", &text(first, end));
                }
                if !atom {
                    return wrong("missing argument to repetition operator", &text(at, at + 1));
                }
                let part = text(at, end);
                if part.trim_matches(['{', '}', '?']).split(',').any(too_often) {
                    return wrong("invalid repeat count", &part);
                }
                out.push_str(&part);
                repeated = Some(at);
                at = end;
            }
            '|' => {
                out.push('|');
                at += 1;
                (atom, repeated) = (false, None);
            }
            c => {
                let special = matches!(c, '^' | '$' | '.');
                if !special && regex_syntax_needs_escape(c) {
                    out.push('\\');
                }
                out.push(c);
                at += 1;
                (atom, repeated) = (true, None);
            }
        }
    }
    if depth > 0 {
        return wrong("missing closing )", pattern);
    }
    Ok(out)
}

/// The characters between two indexes.
fn part(chars: &[char], from: usize, to: usize) -> &[char] {
    chars.get(from..to.min(chars.len())).unwrap_or_default()
}

/// The length of the start of a look-around group, which RE2 rejects.
fn looks(rest: &[char]) -> Option<usize> {
    match rest {
        ['(', '?', '=' | '!', ..] => Some(3),
        ['(', '?', '<', '=' | '!', ..] => Some(4),
        _ => None,
    }
}

fn too_often(count: &str) -> bool {
    !count.is_empty()
        && count.parse::<u32>().map_or(true, |count| count > 1000)
        && count.bytes().all(|b| b.is_ascii_digit())
}

fn regex_syntax_needs_escape(c: char) -> bool {
    matches!(c, ']' | '}' | '#' | '&' | '~' | '-')
}

/// The first character range that ends before it begins.
fn range(pattern: &str) -> Option<String> {
    let chars: Vec<char> = pattern.chars().collect();
    let is_wrong = |part: &&[char]| matches!(part, [low, '-', high] if low > high);
    let found = chars.windows(3).find(is_wrong)?;
    Some(found.iter().collect())
}

/// The end of a repetition `{n,m}`; `None` if it is none.
fn bounds(chars: &[char], at: usize) -> Option<usize> {
    let within = |c: &char| c.is_ascii_digit() || *c == ',';
    let close = at + 1 + chars.iter().skip(at + 1).take_while(|c| within(c)).count();
    if chars.get(close) != Some(&'}') {
        return None;
    }
    let inner: String = part(chars, at + 1, close).iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!low.is_empty() && digits(low) && digits(high)).then_some(close + 1)
}

/// Translates an escape sequence.
fn escape(chars: &[char], at: usize, out: &mut String, class: bool) -> Result<usize, String> {
    let wrong = |what: &str, end: usize| {
        let part: String = part(chars, at, end).iter().collect();
        Err(format!("error parsing regexp: {what}: `{part}`"))
    };
    let Some(&c) = chars.get(at + 1) else {
        return Err("error parsing regexp: trailing backslash at end of expression: ``".to_owned());
    };
    let ascii = match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\x0C\\r ]",
        'S' => "[^\\t\\n\\x0C\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'b' if !class => "(?-u:\\b)",
        'B' if !class => "(?-u:\\B)",
        'A' if !class => "\\A",
        'z' if !class => "\\z",
        _ => "",
    };
    if !ascii.is_empty() {
        out.push_str(ascii);
        return Ok(at + 2);
    }
    match c {
        'Q' => {
            let rest = part(chars, at + 2, chars.len());
            let length = rest.windows(2).position(|two| two == ['\\', 'E']).unwrap_or(rest.len());
            let quoted: String = rest.iter().take(length).collect();
            out.push_str(&regex::escape(&quoted));
            Ok((at + 2 + length + 2).min(chars.len()))
        }
        'p' | 'P' | 'x' => {
            let braced = chars.get(at + 2) == Some(&'{');
            let close = || chars.iter().skip(at).position(|c| *c == '}');
            let end = match c {
                _ if braced => close().map_or(chars.len(), |end| at + end + 1),
                'x' => at + 4,
                _ => at + 3,
            };
            out.extend(part(chars, at, end));
            Ok(end.min(chars.len()))
        }
        'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
            out.push('\\');
            out.push(c);
            Ok(at + 2)
        }
        '0'..='7' => {
            let mut end = at + 1;
            let mut value = 0_u32;
            while end < at + 4
                && let Some(digit) = chars.get(end).and_then(|c| c.to_digit(8))
            {
                value = value * 8 + digit;
                end += 1;
            }
            if c != '0' && end < at + 3 {
                return wrong("invalid escape sequence", at + 2);
            }
            out.push_str(&format!("\\x{{{value:x}}}"));
            Ok(end)
        }
        c if c.is_ascii_punctuation() => {
            out.push('\\');
            out.push(c);
            Ok(at + 2)
        }
        _ => wrong("invalid escape sequence", at + 2),
    }
}

/// Translates a bracket expression. No named class ends after `last_named`.
fn class(
    chars: &[char],
    start: usize,
    last_named: usize,
    out: &mut String,
) -> Result<usize, String> {
    let mut at = start + 1;
    out.push('[');
    if chars.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let mut first = true;
    loop {
        let Some(&c) = chars.get(at) else {
            let part: String = chars.iter().skip(start).collect();
            return Err(format!("error parsing regexp: missing closing ]: `{part}`"));
        };
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(at + 1);
            }
            '[' if chars.get(at + 1) == Some(&':') => {
                let rest = part(chars, at, chars.len());
                let mut ends = rest.windows(2);
                let end =
                    if at <= last_named { ends.position(|two| two == [':', ']']) } else { None };
                let Some(end) = end else {
                    out.push_str("\\[");
                    at += 1;
                    first = false;
                    continue;
                };
                out.extend(rest.iter().take(end + 2));
                at += end + 2;
            }
            '\\' => at = escape(chars, at, out, true)?,
            ']' | '[' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(c);
                at += 1;
            }
            '-' if chars.get(at + 1) == Some(&'-') || first || chars.get(at + 1) == Some(&']') => {
                out.push_str("\\-");
                at += 1;
            }
            c => {
                out.push(c);
                at += 1;
            }
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_patterns_as_re2_does() {
        for (pattern, text, found) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"[[a]", "[", true),
            (r"a{,3}", "a{,3}", true),
            (r"\Qa.b\E", "a.b", true),
            (r"^[a-z&&b]$", "&", true),
            (r"(?i)ABC", "xabcx", true),
            (r"^(?P<x>a)|b$", "b", true),
            (r"^[^\w]$", "é", true),
            (r"a-b#c", "a-b#c", true),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), Ok(found), "{pattern} on {text}");
        }
    }

    #[test]
    fn refuses_in_gos_words() {
        for (pattern, error) in [
            ("(", "error parsing regexp: missing closing ): `(`"),
            (")", "error parsing regexp: unexpected ): `)`"),
            ("[", "error parsing regexp: missing closing ]: `[`"),
            ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
            (r"\8", r"error parsing regexp: invalid escape sequence: `\8`"),
        ] {
            assert_eq!(compile(pattern).err().as_deref(), Some(error), "{pattern}");
        }
    }

    #[test]
    fn large_patterns_are_refused_before_they_are_compiled() {
        let refused = |pattern: &str| compile(pattern).expect_err(pattern);
        assert!(refused(r"\pL{1000}\pN{1000}").contains("expression too large"));
        assert!(refused(r"(a{1000}[^b]{900}){900}").contains("error parsing regexp"));
        assert!(refused(r"^[\p{Han}\p{Latin}]{0,999}$").contains("expression too large"));
        assert!(compile("^.{0,1024}$").is_err() || compile("^.{0,1000}$").is_ok());
        assert!(compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$").is_ok());
    }

    /// If each character scanned all of the rest, this would take minutes.
    #[test]
    fn a_long_pattern_is_read_in_linear_time() {
        for part in ["{", "{1", r"\Q\E", "[:", r"\p", "(?"] {
            let pattern = format!("[[:{}", part.repeat(400_000 / part.len()));
            assert!(compile(&pattern).is_err(), "{part}");
            let pattern = part.repeat(400_000 / part.len());
            drop(translate(&pattern));
        }
    }

    #[test]
    fn a_request_compiles_only_so_much() {
        let pattern = |n: usize| format!("^.{{0,400}}x{n}$");
        let compiled = work_budget::within(30_000, || {
            (0..100).filter(|n| compile(&pattern(*n)).is_ok()).count()
        });
        assert!((2..50).contains(&compiled), "{compiled}");
        assert!(compile(&pattern(99)).is_ok(), "what was refused is not remembered");
    }

    #[test]
    fn a_long_text_is_not_matched_by_a_large_pattern() {
        let large = compile("^(.{0,900}|x)$").expect("a pattern");
        assert_eq!(large.is_match(&"x".repeat(1 << 20)), Err(Exhausted));
        assert_eq!(large.is_match(&"x".repeat(1 << 10)), Ok(false));
        let again = compile(".*[^A-Z]|[A-Z]").expect("a pattern");
        assert_eq!(again.find_all(&"A".repeat(1 << 20), usize::MAX), Err(Exhausted));
        assert_eq!(again.find_all("AA", 1), Ok(vec!["A"]));
    }
}
