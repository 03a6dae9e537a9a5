//! Aligns cells that are terminated by tabs, as Go's text/tabwriter does: a column is as wide as its widest cell in
//! consecutive lines, and the last cell of a line belongs to no column.

/// The layout of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TabWriter {
    pub(crate) min_width: usize,
    pub(crate) padding: usize,
}

/// The layout of `get`.
pub(crate) const TABLE: TabWriter = TabWriter { min_width: 6, padding: 3 };
/// The layout of `describe`.
pub(crate) const SHEET: TabWriter = TabWriter { min_width: 0, padding: 2 };

impl TabWriter {
    /// Aligns the cells of `text`.
    pub(crate) fn align(self, text: &str) -> String {
        let lines: Vec<Vec<&str>> =
            text.split('\n').map(|line| line.split('\t').collect()).collect();
        let mut out = String::with_capacity(text.len() * 2);
        self.block(&lines, &mut Vec::new(), &mut out);
        out.pop(); // the newline after the last line, which had none
        out
    }

    /// Aligns lines of a table, in columns no narrower than those of earlier calls.
    pub(crate) fn align_with_widths(self, text: &str, widths: &mut Vec<usize>) -> String {
        let mut out = String::new();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        for line in &lines {
            for (at, cell) in line.iter().enumerate().take(line.len().saturating_sub(1)) {
                let width = (cell.chars().count() + self.padding).max(self.min_width);
                match widths.get_mut(at) {
                    Some(old) => *old = width.max(*old),
                    None => widths.push(width),
                }
            }
        }
        for line in &lines {
            write_line(line, &widths[..line.len() - 1], &mut out);
        }
        out
    }

    /// Writes lines that share the columns in `widths`.
    fn block(self, lines: &[Vec<&str>], widths: &mut Vec<usize>, out: &mut String) {
        let column = widths.len();
        let mut at = 0;
        while at < lines.len() {
            let has = |line: &Vec<&str>| column + 1 < line.len();
            let length = lines[at..].iter().take_while(|line| has(line)).count();
            if length == 0 {
                write_line(&lines[at], widths, out);
                at += 1;
                continue;
            }
            let cells = lines[at..at + length].iter().map(|line| line[column].chars().count());
            let width = cells.map(|width| width + self.padding).max().unwrap_or_default();
            widths.push(width.max(self.min_width));
            self.block(&lines[at..at + length], widths, out);
            widths.pop();
            at += length;
        }
    }
}

fn write_line(line: &[&str], widths: &[usize], out: &mut String) {
    for (at, cell) in line.iter().enumerate() {
        out.push_str(cell);
        if let Some(width) = widths.get(at) {
            let used = cell.chars().count();
            out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
        }
    }
    out.push('\n');
}

#[test]
fn columns_end_where_lines_differ() {
    assert_eq!(TABLE.align("NAME\tAGE\nlong-name\t5d\n"), "NAME        AGE\nlong-name   5d\n");
    assert_eq!(
        SHEET.align("a:\tb\nlong:\tc\n\nx:\ty\n"),
        "a:    b\nlong:  c\n\nx:  y\n".replace("a:    b", "a:     b")
    );
    assert_eq!(SHEET.align("no tabs\na\tb"), "no tabs\na  b");
}
