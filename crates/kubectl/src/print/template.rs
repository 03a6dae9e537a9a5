//! Go templates, as far as they are used to print objects: fields, variables, `if`, `range`, `with`, pipelines and
//! the usual functions.

mod functions;
mod parse;
mod run;

use object::Value;

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    nodes: Vec<Node>,
    /// Whether a missing field is an error.
    pub(crate) strict: bool,
}

/// A node of a template.
#[derive(Clone, Debug)]
enum Node {
    Text(String),
    /// A pipeline whose value is printed, unless it is assigned to a variable.
    Print(Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
}

/// A pipeline of commands, each of which gets the value of the previous one as its last argument.
#[derive(Clone, Debug, Default)]
struct Pipeline {
    /// Variables to assign: `$a := …`, `$a = …`; `range` assigns up to two.
    variables: Vec<String>,
    declares: bool,
    commands: Vec<Vec<Term>>,
}

/// A term of a command: its function or one of its arguments.
#[derive(Clone, Debug)]
enum Term {
    /// A field path of the current value: `.a.b`, and `.` itself.
    Field(Vec<String>),
    /// A variable with a field path: `$x.a`.
    Variable(String, Vec<String>),
    Literal(Value),
    Function(String),
    /// A pipeline in parentheses with a field path: `(…).a`.
    Group(Pipeline, Vec<String>),
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { nodes: parse::parse(text)?, strict: false })
    }

    pub(crate) fn render(&self, value: &Value) -> Result<String, String> {
        run::run(&self.nodes, value, self.strict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str) -> String {
        let json = br#"{"kind":"List","items":[{"name":"a","n":1},{"name":"b","n":2}],"data":{"x":"aGk=","z":"1"},"none":[]}"#;
        let value = object::from_json(json).expect("JSON");
        Template::parse(template)
            .and_then(|t| t.render(&value))
            .unwrap_or_else(|e| format!("error: {e}"))
    }

    #[test]
    fn renders_as_go_does() {
        for (template, right) in [
            ("{{.kind}}", "List"),
            ("{{.nope}} {{.nope.deeper}}", "<no value> <no value>"),
            ("{{range .items}}{{.name}}{{\"\\n\"}}{{end}}", "a\nb\n"),
            ("{{range $i, $p := .items}}{{$i}}={{$p.name}};{{end}}", "0=a;1=b;"),
            ("{{range .none}}x{{else}}none{{end}}", "none"),
            ("{{range .items}}{{if eq .name \"b\"}}{{.n}}{{else}}-{{end}}{{end}}", "-2"),
            ("{{(index .items 0).name}} {{index .data \"z\"}}", "a 1"),
            ("{{.data.x | base64decode}}", "hi"),
            ("{{.kind | printf \"%q\"}}", "\"List\""),
            ("{{.data}}", "map[x:aGk= z:1]"),
            ("{{with .data}}{{.z}}{{end}}{{$x := 5}}{{$x}}", "15"),
            ("a {{- \" b \" -}} c", "a b c"),
            ("{{len .items}}{{if and (gt (len .items) 1) (not .nope)}}!{{end}}", "2!"),
            ("{{html \"<a href='x'>&\"}}", "&lt;a href=&#39;x&#39;&gt;&amp;"),
            ("{{js \"it's <b>\"}}", "it\\'s \\u003Cb\\u003E"),
            ("{{urlquery \"a b&c=ü\"}}", "a+b%26c%3D%C3%BC"),
            ("{{slice .kind 1 3}} {{slice .items 0 1 | len}}", "is 1"),
            ("{{slice .kind 3 1}}", "error: error calling slice: invalid slice index: 3 > 1"),
            ("{{slice .kind 9}}", "error: error calling slice: index out of range: 9"),
            ("{{print \"a\" \"b\" 1 2}} {{printf \"%05d|%s\" 7 1}}", "ab1 2 00007|%!s(int=1)"),
            ("{{", "error: template: output:1: unclosed action"),
            ("{{if .x}}", "error: template: output:1: unexpected EOF"),
        ] {
            assert_eq!(render(template), right, "{template}");
        }
    }
}
