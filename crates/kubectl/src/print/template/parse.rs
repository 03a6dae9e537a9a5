//! Parses the text of a template into nodes.

use object::Value;

use super::{Node, Pipeline, Term};

pub(super) fn parse(text: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser { pieces: split(text)?, at: 0 };
    let (nodes, end) = parser.nodes()?;
    match end {
        End::Text => Ok(nodes),
        End::Word(word) => Err(wrong(&format!("unexpected {{{{{word}}}}}"))),
    }
}

fn wrong(says: &str) -> String {
    format!("template: output:1: {says}")
}

/// A piece of a template: text, or the content of `{{…}}`.
enum Piece {
    Text(String),
    Action(String),
}

/// Splits a template into text and actions; `{{-` and `-}}` trim adjacent white space.
fn split(mut text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut trim = false;
    loop {
        let Some(start) = text.find("{{") else {
            pieces.push(Piece::Text(if trim { text.trim_start() } else { text }.to_owned()));
            return Ok(pieces);
        };
        let mut before = &text[..start];
        let mut rest = &text[start + 2..];
        if trim {
            before = before.trim_start();
        }
        if let Some(inside) = rest.strip_prefix("- ") {
            before = before.trim_end();
            rest = inside;
        }
        pieces.push(Piece::Text(before.to_owned()));
        let end = action_end(rest).ok_or_else(|| wrong("unclosed action"))?;
        let mut inside = rest[..end].trim();
        trim = inside.ends_with(" -") || inside == "-";
        if trim {
            inside = inside[..inside.len() - 1].trim_end();
        }
        if !inside.starts_with("/*") {
            pieces.push(Piece::Action(inside.to_owned()));
        }
        text = &rest[end + 2..];
    }
}

/// The position of `}}` outside of quotes.
fn action_end(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && open == '"' && !escaped;
            }
            None if c == '"' || c == '`' => quote = Some(c),
            None if text[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

/// What ended a list of nodes: the end of the template, or an `end` or `else` action.
enum End {
    Text,
    Word(String),
}

/// Parses pieces into nodes.
struct Parser {
    pieces: Vec<Piece>,
    at: usize,
}

impl Parser {
    /// Parses nodes up to the end of the template, an `end` or an `else`.
    fn nodes(&mut self) -> Result<(Vec<Node>, End), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.at) {
            self.at += 1;
            let action = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.clone()));
                    continue;
                }
                Piece::Action(action) => action.clone(),
            };
            let (word, rest) = action.split_once(char::is_whitespace).unwrap_or((&action, ""));
            match word {
                "end" | "else" => return Ok((nodes, End::Word(action.clone()))),
                "if" | "range" | "with" => nodes.push(self.block(word, rest)?),
                "define" | "template" | "block" | "break" | "continue" => {
                    return Err(wrong(&format!("{word} is not supported")));
                }
                _ => nodes.push(Node::Print(pipeline(&action)?)),
            }
        }
        Ok((nodes, End::Text))
    }

    fn block(&mut self, word: &str, condition: &str) -> Result<Node, String> {
        let condition = pipeline(condition)?;
        let (then, end) = self.nodes()?;
        let otherwise = match end {
            End::Text => return Err(wrong("unexpected EOF")),
            End::Word(end) if end == "end" => Vec::new(),
            End::Word(end) => match end.strip_prefix("else").map(str::trim).unwrap_or_default() {
                "" => match self.nodes()? {
                    (nodes, End::Word(end)) if end == "end" => nodes,
                    (_, End::Word(end)) => return Err(wrong(&format!("unexpected {{{{{end}}}}}"))),
                    (_, End::Text) => return Err(wrong("unexpected EOF")),
                },
                more => {
                    let (word, rest) = more.split_once(char::is_whitespace).unwrap_or((more, ""));
                    vec![self.block(word, rest)?]
                }
            },
        };
        Ok(match word {
            "if" => Node::If(condition, then, otherwise),
            "with" => Node::With(condition, then, otherwise),
            "range" => Node::Range(condition, then, otherwise),
            other => return Err(wrong(&format!("unexpected <{other}> in else"))),
        })
    }
}

fn pipeline(text: &str) -> Result<Pipeline, String> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0 };
    let mut pipeline = Pipeline::default();
    let start = reader.at;
    // the variables of `$a, $b := …`
    loop {
        reader.space();
        if reader.peek() != Some('$') {
            break;
        }
        reader.at += 1;
        pipeline.variables.push(reader.word());
        reader.space();
        match (reader.peek(), reader.chars.get(reader.at + 1)) {
            (Some(','), _) => reader.at += 1,
            (Some(':'), Some('=')) => {
                reader.at += 2;
                pipeline.declares = true;
                break;
            }
            (Some('='), _) => {
                reader.at += 1;
                break;
            }
            _ => {
                pipeline.variables.clear();
                reader.at = start;
                break;
            }
        }
    }
    pipeline.commands = reader.commands()?;
    match reader.peek() {
        None => Ok(pipeline),
        Some(c) => Err(wrong(&format!("unexpected {c:?} in command"))),
    }
}

/// Parses the text of an action.
struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    /// Parses a field path, such as `.a.b`.
    fn fields(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while self.peek() == Some('.') {
            self.at += 1;
            let word = self.word();
            if word.is_empty() {
                break;
            }
            fields.push(word);
        }
        fields
    }

    fn commands(&mut self) -> Result<Vec<Vec<Term>>, String> {
        let mut commands = vec![Vec::new()];
        loop {
            self.space();
            match self.peek() {
                None | Some(')') => break,
                Some('|') => {
                    self.at += 1;
                    commands.push(Vec::new());
                }
                Some(_) => {
                    let term = self.term()?;
                    commands.last_mut().expect("there is one").push(term);
                }
            }
        }
        if commands.iter().any(Vec::is_empty) {
            return Err(wrong("missing value for command"));
        }
        Ok(commands)
    }

    fn term(&mut self) -> Result<Term, String> {
        match self.peek() {
            Some('.') => Ok(Term::Field(self.fields())),
            Some('$') => {
                self.at += 1;
                let name = self.word();
                Ok(Term::Variable(name, self.fields()))
            }
            Some('(') => {
                self.at += 1;
                let commands = self.commands()?;
                if self.peek() != Some(')') {
                    return Err(wrong("unclosed left paren"));
                }
                self.at += 1;
                Ok(Term::Group(Pipeline { commands, ..Pipeline::default() }, self.fields()))
            }
            Some(quote @ ('"' | '`')) => self.quoted(quote),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' => self.number(),
            Some(c) if c == '_' || c.is_alphabetic() => {
                let word = self.word();
                Ok(match word.as_str() {
                    "true" => Term::Literal(Value::Bool(true)),
                    "false" => Term::Literal(Value::Bool(false)),
                    "nil" => Term::Literal(Value::Null),
                    _ if !super::run::FUNCTIONS.contains(&word.as_str()) => {
                        return Err(wrong(&format!("function {word:?} not defined")));
                    }
                    _ => Term::Function(word),
                })
            }
            other => Err(wrong(&format!("unexpected {other:?} in command"))),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Term, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else { return Err(wrong("unterminated quoted string")) };
            self.at += 1;
            match c {
                c if c == quote => return Ok(Term::Literal(Value::from(text.as_str()))),
                '\\' if quote == '"' => {
                    let escaped = self.peek().unwrap_or_default();
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                c => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Result<Term, String> {
        let start = self.at;
        self.at += 1;
        while self.peek().is_some_and(|c| c == '.' || c.is_alphanumeric()) {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let whole = text.parse::<i64>().map(Value::Int).ok();
        let number = whole.or(text.parse().map(Value::Float).ok());
        number.map(Term::Literal).ok_or_else(|| wrong(&format!("bad number syntax: {text:?}")))
    }
}
