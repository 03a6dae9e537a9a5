//! Prints tables that the server sends, with the columns that kubectl adds.

use object::Value;

use super::{json, tabwriter::TABLE, terminal};

/// Options of a table.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes")]
pub(crate) struct Options {
    pub(crate) wide: bool,
    pub(crate) no_headers: bool,
    pub(crate) with_namespace: bool,
    /// Kind that is printed before names, such as `pod`.
    pub(crate) with_kind: Option<String>,
    pub(crate) show_labels: bool,
    pub(crate) label_columns: Vec<String>,
    /// Type of the watch event, printed in a first column.
    pub(crate) event: Option<String>,
}

/// Formats a table as text with tabs. `headers`: print the headers.
pub(crate) fn text(table: &Value, columns: &[Value], options: &Options, headers: bool) -> String {
    let rows = table["rows"].items();
    if rows.is_empty() {
        return String::new();
    }
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| options.wide || columns[*at]["priority"].as_i64().unwrap_or(0) == 0)
        .collect();
    let mut out = String::new();
    if headers {
        let mut names = Vec::new();
        names.extend(options.event.as_ref().map(|_| "EVENT".to_owned()));
        names.extend(options.with_namespace.then(|| "NAMESPACE".to_owned()));
        names.extend(
            shown.iter().map(|at| columns[*at]["name"].as_str().unwrap_or_default().to_uppercase()),
        );
        names.extend(
            options
                .label_columns
                .iter()
                .map(|label| label.rsplit('/').next().unwrap_or_default().to_uppercase()),
        );
        names.extend(options.show_labels.then(|| "LABELS".to_owned()));
        out += &(names.join("\t") + "\n");
    }
    let name_column = columns
        .iter()
        .position(|c| c["format"].as_str() == Some("name") && c["type"].as_str() == Some("string"));
    for row in rows {
        let meta = &row["object"]["metadata"];
        let mut cells = Vec::new();
        cells.extend(options.event.as_ref().map(|event| format!("{event:<8}")));
        cells.extend(
            options
                .with_namespace
                .then(|| meta["namespace"].as_str().unwrap_or_default().to_owned()),
        );
        for at in &shown {
            let cell = row["cells"].items().get(*at).unwrap_or(&object::NULL);
            let text = cell_text(cell);
            cells.push(match &options.with_kind {
                Some(kind) if name_column == Some(*at) => format!("{kind}/{text}"),
                _ => text,
            });
        }
        let label =
            |name: &String| meta["labels"][name.as_str()].as_str().unwrap_or_default().to_owned();
        cells.extend(options.label_columns.iter().map(label));
        cells.extend(options.show_labels.then(|| labels(&meta["labels"])));
        out += &(cells.join("\t") + "\n");
    }
    out
}

/// Aligns text with tabs into columns.
pub(crate) fn align(text: &str) -> String {
    TABLE.align(text)
}

/// Formats labels: `a=b,c=d`, or `<none>`.
pub(crate) fn labels(labels: &Value) -> String {
    if labels.entries().len() == 0 {
        return "<none>".to_owned();
    }
    let pairs: Vec<String> = labels
        .entries()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.join(",")
}

/// Formats a cell on one line, without terminal control characters.
fn cell_text(cell: &Value) -> String {
    let text = match cell {
        Value::Null => return String::new(),
        Value::Text(text) => text.to_string(),
        other => json::compact(other),
    };
    let cut = match text.find(['\n', '\r', '\u{c}']) {
        Some(at) => format!("{}...", &text[..at]),
        None => text,
    };
    terminal::escape(&cut).into_owned()
}
