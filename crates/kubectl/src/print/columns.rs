//! Custom columns: `-o custom-columns=NAME:.metadata.name,…`.

use object::Value;

use super::{jsonpath, jsonpath::Template, tabwriter::TABLE, terminal};

/// Headers and JSONPath templates of custom columns.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    headers: Vec<String>,
    paths: Vec<Template>,
}

impl Columns {
    pub(crate) fn parse(spec: &str) -> Result<Self, String> {
        if spec.is_empty() {
            return Err("custom-columns format specified but no custom columns given".to_owned());
        }
        let (mut headers, mut paths) = (Vec::new(), Vec::new());
        for part in spec.split(',') {
            let Some((header, path)) = part.split_once(':') else {
                return Err(format!(
                    "unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
                ));
            };
            headers.push(header.to_owned());
            paths.push(Template::parse_relaxed(path)?);
        }
        Ok(Self { headers, paths })
    }

    /// Parses a file with a line of headers and a line of paths below them.
    pub(crate) fn parse_file(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut words = || {
            lines.next().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let (Some(headers), Some(paths)) = (words(), words()) else {
            return Err("invalid template, missing spec line. Expected format is:\n\t{header 1} {header 2} ... {header n}\n\t{json path 1} {json path 2} ... {json path n}".to_owned());
        };
        if headers.len() != paths.len() {
            return Err(format!(
                "number of headers ({}) and field specifications ({}) don't match",
                headers.len(),
                paths.len()
            ));
        }
        let paths =
            paths.iter().map(|path| Template::parse_relaxed(path)).collect::<Result<_, _>>()?;
        Ok(Self { headers, paths })
    }

    pub(crate) fn render(&self, objects: &[Value], headers: bool) -> Result<String, String> {
        let mut out = String::new();
        if headers {
            out += &(self.headers.join("\t") + "\n");
        }
        for object in objects {
            let mut cells = Vec::new();
            for path in &self.paths {
                let found: Vec<Value> = path.find_results(object)?.into_iter().flatten().collect();
                let texts: Vec<String> =
                    found.iter().map(|value| terminal::escape(&cell(value)).into_owned()).collect();
                cells.push(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") });
            }
            out += &(cells.join("\t") + "\n");
        }
        Ok(TABLE.align(&out))
    }
}

/// Formats a cell as Go's `%v` does: maps and lists without commas; `<none>` if missing.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(format_go_value).collect();
            format!("[{}]", items.join(" "))
        }
        value => format_go_value(value),
    }
}

/// Formats a value as Go's `%v` does.
pub(crate) fn format_go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(format_go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(_) | Value::Map(_) => {
            let pairs: Vec<String> = value
                .entries()
                .map(|(name, value)| format!("{name}:{}", format_go_value(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
        value => jsonpath::format_value(value),
    }
}

#[test]
fn prints_columns() {
    let object =
        object::from_json(br#"{"metadata":{"name":"a"},"l":[1,2],"m":{"x":"y"}}"#).expect("JSON");
    let columns = Columns::parse("NAME:.metadata.name,L:.l[*],M:.m,X:.x.y").expect("well formed");
    assert_eq!(
        columns.render(&[object], true).expect("found"),
        "NAME   L     M          X\na      1,2   map[x:y]   <none>\n"
    );
    assert_eq!(
        Columns::parse("X").expect_err("no path"),
        "unexpected custom-columns spec: X, expected <header>:<json-path-expr>"
    );
}
