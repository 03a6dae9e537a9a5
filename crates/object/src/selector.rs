//! Label and field selectors.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod field;
mod parse;

use std::fmt;

pub use self::field::{FieldSelector, FieldTerm};
use crate::{Map, Text, Value, names, quote::quote};

/// A label selector: requirements that must all match, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    /// Set for an absent `LabelSelector`, which matches nothing.
    matches_nothing: bool,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: Text,
    pub operator: Operator,
    /// Sorted, without duplicates.
    pub values: Vec<Text>,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// A selector is invalid; the message is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Selector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), matches_nothing: true }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, matches_nothing: false }
    }

    /// Parses `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map_err(SelectorError)
    }

    /// Matches all of these labels, without validating them: the selector of a Service or ReplicationController.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let equals = |(key, value): (&str, &str)| Requirement {
            key: key.into(),
            operator: Operator::Equals,
            values: vec![value.into()],
        };
        Self::new(labels.into_iter().map(equals).collect())
    }

    /// Converts a `LabelSelector` object. An absent one matches nothing, an empty one everything.
    pub fn from_label_selector(tree: &Value) -> Result<Self, SelectorError> {
        if tree.is_null() {
            return Ok(Self::nothing());
        }
        let mut all = Vec::new();
        for (key, value) in tree["matchLabels"].entries() {
            let value = value.as_str().unwrap_or_default();
            all.push(Requirement::new(key, Operator::Equals, vec![value.into()])?);
        }
        for expression in tree["matchExpressions"].items() {
            let name = expression["operator"].as_str().unwrap_or_default();
            let operator = match name {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => {
                    let text = format!("{} is not a valid label selector operator", quote(name));
                    return Err(SelectorError(text));
                }
            };
            let values = expression["values"].items().iter().filter_map(Value::as_str);
            let key = expression["key"].as_str().unwrap_or_default();
            all.push(Requirement::new(key, operator, values.map(Text::from).collect())?);
        }
        Ok(Self::new(all))
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        !self.matches_nothing && self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &Map<String>) -> bool {
        self.matches_with(|key| labels.get(key))
    }

    /// Whether the selector matches labels that `label` looks up.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.matches_nothing && self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }

    /// The only value that the selector permits for `key`, if there is exactly one.
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|r| r.key == key)?;
        let exact =
            matches!(found.operator, Operator::Equals | Operator::DoubleEquals | Operator::In);
        found.values.first().filter(|_| exact && found.values.len() == 1).map(Text::as_str)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Requirement {
    /// Creates a requirement and validates its key and values.
    pub fn new(key: &str, operator: Operator, values: Vec<Text>) -> Result<Self, SelectorError> {
        let mut wrong = Vec::new();
        let bad = names::qualified_name(key);
        if !bad.is_empty() {
            wrong.push(format!("key: Invalid value: {}: {}", quote(key), bad.join("; ")));
        }
        if let Some(rule) = operator.value_count_error(&values) {
            let values: Vec<String> = values.iter().map(|value| quote(value)).collect();
            let values =
                if values.is_empty() { "null".into() } else { format!("[{}]", values.join(",")) };
            wrong.push(format!("values: Invalid value: {values}: {rule}"));
        }
        for (at, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan)
                && value.parse::<i64>().is_err()
            {
                wrong.push(format!("values[{at}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer", quote(value)));
            }
            let bad = names::label_value(value);
            if !bad.is_empty() {
                let bad = bad.join("; ");
                wrong.push(format!("values[{at}][{key}]: Invalid value: {}: {bad}", quote(value)));
            }
        }
        match wrong.len() {
            0 => Ok(Self { key: key.into(), operator, values }),
            1 => Err(SelectorError(wrong.remove(0))),
            _ => Err(SelectorError(format!("[{}]", wrong.join(", ")))),
        }
    }

    /// Whether the requirement matches a label's value, or its absence.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        let number = |label: &str| label.parse::<i64>().ok();
        let bound = self.values.first().and_then(|value| number(value));
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => label.and_then(number).zip(bound).is_some_and(|(n, b)| n > b),
            Operator::LessThan => label.and_then(number).zip(bound).is_some_and(|(n, b)| n < b),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort();
        let values = values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl Operator {
    /// The error message if there are too many or too few values.
    fn value_count_error(self, values: &[Text]) -> Option<&'static str> {
        let (fits, rule) = match self {
            Self::In | Self::NotIn => {
                (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Equals | Self::DoubleEquals | Self::NotEquals => {
                (values.len() == 1, "exact-match compatibility requires one single value")
            }
            Self::Exists | Self::DoesNotExist => {
                (values.is_empty(), "values set must be empty for exists and does not exist")
            }
            Self::GreaterThan | Self::LessThan => {
                (values.len() == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        (!fits).then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        Selector::parse(text)
            .map_or_else(|error| error.to_string(), |selector| selector.to_string())
    }

    #[test]
    fn reads_and_prints() {
        for (text, right) in [
            ("", ""),
            ("x=a,y=b", "x=a,y=b"),
            ("y,x==b", "x==b,y"),
            ("!z", "!z"),
            ("x in (b,a, a)", "x in (a,b)"),
            ("x notin ()", "x notin ()"),
            ("x in (,a)", "x in (,a)"),
            ("x=", "x="),
            ("x!=y,a.b/c>3", "a.b/c>3,x!=y"),
            ("in in (in)", "in in (in)"),
        ] {
            assert_eq!(printed(text), right, "{text}");
        }
    }

    #[test]
    fn says_what_upstream_says() {
        for (text, wrong) in [
            ("x=a||y=b", "unable to parse requirement: values[0][x]: Invalid value: \"a||y\""),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("x in", "unable to parse requirement: found '' expected: '('"),
            (
                "x y",
                "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            (
                "-a=b",
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist",
            ),
            ("x==a=b", "found '=', expected: ',' or 'end of string'"),
        ] {
            assert!(printed(text).starts_with(wrong), "{text}: {}", printed(text));
        }
    }

    #[test]
    fn matches_labels() {
        let labels: Map<String> = [("app", "web"), ("tier", "2")].into();
        for (text, matches) in [
            ("app=web", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (a,web),!gone", true),
            ("app notin (web)", false),
            ("tier>1", true),
            ("tier<2", false),
            ("app", true),
            ("gone", false),
        ] {
            let selector = Selector::parse(text).expect("well formed");
            assert_eq!(selector.matches(&labels), matches, "{text}");
        }
        assert!(!Selector::nothing().matches(&labels));
    }

    #[test]
    fn reads_objects() {
        let tree = crate::from_json(
            br#"{"matchLabels":{"b":"1"},"matchExpressions":[{"key":"a","operator":"In","values":["y","x"]},{"key":"c","operator":"Exists"}]}"#,
        )
        .expect("JSON");
        let selector = Selector::from_label_selector(&tree).expect("well formed");
        assert_eq!(selector.to_string(), "a in (x,y),b=1,c");
        assert_eq!(selector.required_value("b"), Some("1"));
        assert!(Selector::from_label_selector(&Value::object()).expect("empty").is_empty());
        assert_eq!(
            Selector::from_label_selector(&Value::Null).expect("absent"),
            Selector::nothing()
        );
        let tree = crate::from_json(br#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#);
        assert_eq!(
            Selector::from_label_selector(&tree.expect("JSON")).expect_err("no values").to_string(),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
        );
    }
}
