//! Normalisation of aligned tables: cells are normalised, then columns are aligned again with their original gaps, so
//! that alignment is compared too.

use std::sync::LazyLock;

use regex::Regex;

use super::normal::{Normal, regex};

/// Headers of columns that contain ages.
const AGES: [&str; 6] = ["AGE", "LAST SEEN", "FIRST SEEN", "LAST SCHEDULE", "SAILED", "Age"];

static HEADER: LazyLock<Regex> = LazyLock::new(|| regex(r"^[A-Z][A-Z0-9 ()/:._%-]*$"));
static GAP: LazyLock<Regex> = LazyLock::new(|| regex(r"\S {2,}\S"));
static WIDE_GAP: LazyLock<Regex> = LazyLock::new(|| regex(r" {3,}"));
static INNER: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^ +(?:Type +Reason +Age +From +Message|Namespace +Name +CPU Requests +.* Age)$")
});
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:\d+[ydhms])+"));
static AGE_CELL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:\d+[ydhms])+(?: \(x(\d+) over (?:\d+[ydhms])+\))?$"));

fn is_header(line: &str) -> bool {
    HEADER.is_match(line) && GAP.is_match(line)
}

/// Number of lines, from the first, that form a table with a header; 0 if the first is no header.
pub(crate) fn length(lines: &[&str]) -> usize {
    let Some((head, rows)) = lines.split_first() else { return 0 };
    let inner = INNER.is_match(head);
    if !inner && !is_header(head) {
        return 0;
    }
    let indent = head.len() - head.trim_start_matches(' ').len();
    let belongs = |line: &&&str| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        !line.trim().is_empty() && !is_header(line) && (!inner || spaces == indent)
    };
    1 + rows.iter().take_while(belongs).count()
}

/// The lines of a table with normalised cells; `None` if a cell is wider than its column.
pub(crate) fn align(normal: &Normal, lines: &[&str]) -> Option<Vec<String>> {
    let lines: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
    let starts = starts(lines.first()?);
    let ends: Vec<usize> = starts.iter().skip(1).copied().collect();
    let mut grid = vec![];
    for line in &lines {
        let end_of = |nth: usize| ends.get(nth).copied().unwrap_or(usize::MAX);
        let cell = |(nth, start): (usize, &usize)| {
            let (start, end) = ((*start).min(line.len()), end_of(nth).min(line.len()));
            line[start..end].iter().collect::<String>()
        };
        let cells: Vec<String> = starts.iter().enumerate().map(cell).collect();
        let too_wide = |(cell, end): (&String, &usize)| line.len() > *end && !cell.ends_with(' ');
        if cells.iter().zip(&ends).any(too_wide) {
            return None;
        }
        grid.push(cells);
    }
    let bare = |cell: &String| normal.line(cell.trim_end_matches(' '));
    let mut new: Vec<Vec<String>> = grid.iter().map(|row| row.iter().map(bare).collect()).collect();
    for (nth, name) in grid[0].iter().enumerate() {
        if AGES.contains(&name.trim()) {
            new[1..].iter_mut().for_each(|row| row[nth] = ages(&row[nth]));
        }
    }
    let widest = |grid: &[Vec<String>], nth: usize| {
        grid.iter()
            .map(|row| row[nth].trim_end_matches(' ').chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = ends
        .iter()
        .enumerate()
        .map(|(nth, end)| widest(&new, nth) + (end - starts[nth]) - widest(&grid, nth))
        .collect();
    let last = *starts.last()?;
    Some(
        lines
            .iter()
            .zip(&new)
            .map(|(line, cells)| join(line, cells, (starts[0], last), &widths))
            .collect(),
    )
}

/// Formats a row of normalised cells, with the trailing spaces that the line had.
fn join(
    line: &[char],
    cells: &[String],
    (first, last): (usize, usize),
    widths: &[usize],
) -> String {
    let mut out = " ".repeat(first);
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(&format!("{cell:width$}"));
    }
    let end = cells.last().map(String::as_str).unwrap_or_default();
    out.push_str(end);
    let spaces = line.iter().rev().take_while(|letter| **letter == ' ').count();
    if line.len() < last {
        out.truncate(out.trim_end_matches(' ').len());
        out.push_str(if spaces > 0 { " " } else { "" });
    } else if !end.is_empty() {
        out.push_str(&" ".repeat(spaces));
    }
    out
}

/// Start positions of the columns: at the start, and after two spaces.
fn starts(head: &[char]) -> Vec<usize> {
    let space = |at: usize| head[at].is_whitespace();
    let begins =
        |at: &usize| !space(*at) && (*at == 0 || (*at > 1 && space(at - 1) && space(at - 2)));
    (0..head.len()).filter(begins).collect()
}

/// Replaces ages that are separate words within a cell.
fn ages(cell: &str) -> String {
    let joins = |letter: char| letter.is_alphanumeric() || "_.:-".contains(letter);
    let (mut out, mut rest) = (String::new(), cell);
    while let Some(letter) = rest.chars().next() {
        let alone = !out.chars().next_back().is_some_and(joins);
        let age = AGE.find(rest).filter(|age| alone && !rest[age.end()..].starts_with(joins));
        if let Some(age) = age {
            out.push_str("<age>");
            rest = &rest[age.end()..];
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// Normalises a table without a header: ages, and the spaces between columns if there are ages.
pub(crate) fn without_header(text: &str) -> String {
    let mut changed = false;
    let mut cell = |cell: &str| {
        let Some(found) = AGE_CELL.captures(cell) else { return cell.to_owned() };
        changed = true;
        found
            .get(1)
            .map_or("<age>".to_owned(), |times| format!("<age> (x{} over <age>)", times.as_str()))
    };
    let mut line = |line: &str| WIDE_GAP.split(line).map(&mut cell).collect::<Vec<_>>().join("   ");
    let lines: Vec<String> = text.split('\n').map(&mut line).collect();
    if changed { lines.join("\n") } else { text.to_owned() }
}
