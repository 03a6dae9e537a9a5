//! Parser for command line flags, compatible with upstream's: `--name=value`, `--name value`, `-n value`, `-nvalue`,
//! several one-letter flags in a row, anywhere among the arguments.

use std::collections::BTreeMap;

use object::{Duration, quote::quote};

use crate::error::{CommandError, Result};

/// The declaration of a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: FlagType,
    /// The value if the flag is not given.
    pub(crate) default: &'static str,
    /// The value if the flag is given without one; only then may the value be omitted.
    pub(crate) no_opt_default: Option<&'static str>,
    /// The deprecation message, if the flag is deprecated.
    pub(crate) deprecated: &'static str,
    /// Whether the command fails without the flag.
    pub(crate) required: bool,
}

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FlagType {
    Bool,
    Text,
    Int32,
    Int64,
    Duration,
    /// May be given several times; commas separate values.
    StringSlice,
    /// May be given several times; commas are part of the value.
    StringArray,
}

impl Flag {
    pub(crate) const fn new(name: &'static str, kind: FlagType) -> Self {
        let bare = if matches!(kind, FlagType::Bool) { Some("true") } else { None };
        let default = match kind {
            FlagType::Bool => "false",
            FlagType::Int32 | FlagType::Int64 => "0",
            FlagType::Duration => "0s",
            _ => "",
        };
        Self {
            name,
            short: None,
            kind,
            default,
            no_opt_default: bare,
            deprecated: "",
            required: false,
        }
    }

    pub(crate) const fn bool(name: &'static str) -> Self {
        Self::new(name, FlagType::Bool)
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, FlagType::Text)
    }

    pub(crate) const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    pub(crate) const fn deprecated(self, deprecated: &'static str) -> Self {
        Self { deprecated, ..self }
    }

    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Sets the value for a flag that is given without one.
    pub(crate) const fn bare(self, bare: &'static str) -> Self {
        Self { no_opt_default: Some(bare), ..self }
    }

    fn check(&self, value: &str) -> std::result::Result<(), String> {
        let number = |text: &str, wide: bool| match text.parse::<i64>() {
            Ok(n) if wide || i32::try_from(n).is_ok() => Ok(()),
            Ok(_) => Err(format!("strconv.ParseInt: parsing {}: value out of range", quote(text))),
            Err(_) => Err(format!("strconv.ParseInt: parsing {}: invalid syntax", quote(text))),
        };
        match self.kind {
            FlagType::Bool => match value {
                "1" | "t" | "T" | "TRUE" | "true" | "True" | "0" | "f" | "F" | "FALSE"
                | "false" | "False" => Ok(()),
                _ => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", quote(value))),
            },
            FlagType::Int32 => number(value, false),
            FlagType::Int64 => number(value, true),
            FlagType::Duration => Duration::parse_nanos(value).map(drop),
            FlagType::Text | FlagType::StringSlice | FlagType::StringArray => Ok(()),
        }
    }
}

/// A parsed command line: the values of flags, and the arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedFlags {
    values: BTreeMap<&'static str, Vec<String>>,
    /// Every flag in the order in which it was given.
    pub(crate) order: Vec<(&'static str, String)>,
    /// Deprecation messages of the given flags.
    pub(crate) deprecations: Vec<String>,
    defaults: BTreeMap<&'static str, &'static str>,
    pub(crate) args: Vec<String>,
    /// Global flags whose names the command uses for other flags.
    shadowed: Vec<&'static str>,
    /// Number of arguments before `--`, if it was given.
    pub(crate) args_len_at_dash: Option<usize>,
}

impl ParsedFlags {
    /// The value of a global flag, unless the command has its own flag of that name.
    pub(crate) fn global(&self, name: &str) -> &str {
        if self.shadowed.contains(&name) { "" } else { self.text(name) }
    }

    /// Whether the flag was given on the command line.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.values.get(name).and_then(|values| values.last()) {
            Some(value) => value,
            None => self.defaults.get(name).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.text(name), "1" | "t" | "T" | "TRUE" | "true" | "True")
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// The value of a duration flag in nanoseconds.
    pub(crate) fn duration(&self, name: &str) -> i64 {
        Duration::parse_nanos(self.text(name)).unwrap_or_default()
    }

    /// All values of a flag that may be given several times.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Parses `args` for `command`, which has `flags`; of two flags with the same name the first wins.
pub(crate) fn parse(command: &str, flags: &[&[Flag]], args: &[String]) -> Result<ParsedFlags> {
    let wrong = |says: String| CommandError::Usage {
        says,
        command: command.to_owned(),
        help: "--help' for usage.",
    };
    let find = |name: &str| flags.iter().copied().flatten().find(|flag| flag.name == name);
    let letter = |c: char| flags.iter().copied().flatten().find(|flag| flag.short == Some(c));
    let mut given = ParsedFlags::default();
    for flag in flags.iter().rev().copied().flatten() {
        if given.defaults.insert(flag.name, flag.default).is_some() {
            given.shadowed.push(flag.name);
        }
    }
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            given.args_len_at_dash = Some(given.args.len());
            given.args.extend(args.by_ref().cloned());
        } else if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            if name.is_empty() || name.starts_with('-') {
                return Err(wrong(format!("bad flag syntax: {arg}")));
            }
            let Some(flag) = find(name) else {
                return Err(wrong(format!("unknown flag: --{name}")));
            };
            let value = match (value, flag.no_opt_default) {
                (Some(value), _) => value,
                (None, Some(bare)) => bare.to_owned(),
                (None, None) => match args.next() {
                    Some(value) => value.clone(),
                    None => return Err(wrong(format!("flag needs an argument: --{name}"))),
                },
            };
            let shown = match flag.short {
                Some(short) => format!("-{short}, --{name}"),
                None => format!("--{name}"),
            };
            given.put(flag, value, &shown).map_err(wrong)?;
        } else if arg.len() > 1 && arg.starts_with('-') {
            let letters = &arg[1..];
            for (at, c) in letters.char_indices() {
                let Some(flag) = letter(c) else {
                    return Err(wrong(format!(
                        "unknown shorthand flag: '{c}' in -{}",
                        &letters[at..]
                    )));
                };
                let rest = &letters[at + c.len_utf8()..];
                let shown = format!("-{c}, --{}", flag.name);
                let value = match (rest.strip_prefix('='), flag.no_opt_default) {
                    (Some(value), _) => value.to_owned(),
                    (None, Some(bare)) => {
                        given.put(flag, bare.to_owned(), &shown).map_err(wrong)?;
                        continue;
                    }
                    (None, None) if !rest.is_empty() => rest.to_owned(),
                    (None, None) => {
                        if let Some(value) = args.next() {
                            value.clone()
                        } else {
                            let left = &letters[at..];
                            return Err(wrong(format!("flag needs an argument: '{c}' in -{left}")));
                        }
                    }
                };
                given.put(flag, value, &shown).map_err(wrong)?;
                break;
            }
        } else {
            given.args.push(arg.clone());
        }
    }
    Ok(given)
}

impl ParsedFlags {
    fn put(&mut self, flag: &Flag, value: String, shown: &str) -> std::result::Result<(), String> {
        flag.check(&value).map_err(|why| {
            format!("invalid argument {} for \"{shown}\" flag: {why}", quote(&value))
        })?;
        self.order.push((flag.name, value.clone()));
        if !flag.deprecated.is_empty() {
            self.deprecations
                .push(format!("Flag --{} has been deprecated, {}", flag.name, flag.deprecated));
        }
        let values = self.values.entry(flag.name).or_default();
        match flag.kind {
            FlagType::StringSlice => {
                values.extend(value.split(',').map(str::to_owned).filter(|v| !v.is_empty()));
            }
            _ => values.push(value),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        Flag::text("output").short('o'),
        Flag::bool("watch").short('w'),
        Flag::new("replicas", FlagType::Int32),
        Flag::text("dry-run").bare("unchanged").default("none"),
        Flag::new("filename", FlagType::StringSlice).short('f'),
    ];

    fn read(args: &[&str]) -> Result<ParsedFlags> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse("get", &[FLAGS], &args)
    }

    #[test]
    fn reads_every_form() {
        let given =
            read(&["a", "-wo", "yaml", "--dry-run", "-f=x,y", "--filename", "z", "--", "-q"])
                .expect("fine");
        assert_eq!(given.args, ["a", "-q"]);
        assert_eq!(
            (given.text("output"), given.is_true("watch"), given.args_len_at_dash),
            ("yaml", true, Some(1))
        );
        assert_eq!(given.text("dry-run"), "unchanged");
        assert_eq!(given.all("filename"), ["x", "y", "z"]);
        assert_eq!(read(&["-oname"]).expect("fine").text("output"), "name");
        assert_eq!(read(&[]).expect("fine").text("dry-run"), "none");
    }

    #[test]
    fn says_what_upstream_says() {
        for (args, says) in [
            (&["--nosuch"][..], "unknown flag: --nosuch"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["-o"], "flag needs an argument: 'o' in -o"),
            (
                &["--replicas=x"],
                "invalid argument \"x\" for \"--replicas\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
        ] {
            let fail = read(args).expect_err("malformed").report().0;
            assert_eq!(fail, format!("error: {says}\nSee 'kubectl get --help' for usage.\n"));
        }
    }
}
