//! Env files: `fileKeyRef` takes a variable from a file that another container of the pod wrote into an
//! `emptyDir` volume.
//!
//! The format is a strict subset of the shell's: `KEY='value'`, where the value may have several lines and nothing
//! in it is escaped or expanded; comments begin with `#`.

use std::{collections::BTreeMap, io, path::Path};

use api::core::{Container, FileKeySelector, Pod};
use object::quote::quote;
use sys::container_file;

use super::{EnvFile, EnvSources};

/// Maximum size of an env file: no program can be given a larger environment.
const LARGEST_FILE: usize = 1 << 20;
/// Maximum size of all env files of a container together.
const LARGEST_SUM: usize = 8 << 20;
/// Maximum length of a line, as in upstream's line scanner.
const LONGEST_LINE: usize = 64 << 10;
/// Error for an invalid env file, shown to the pod's author. It does not reveal the contents of the file.
const UNPARSABLE: &str = "couldn't parse env file";

/// Reads every env file that a container's variables reference. `folder` returns the host directory of a volume.
pub(crate) fn read_all<'a>(
    pod: &Pod,
    container: &Container,
    folder: impl Fn(&str) -> Option<&'a Path>,
) -> Result<BTreeMap<(String, String), Option<EnvFile>>, String> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    for selector in container.env().iter().filter_map(|var| var.value_from()?.file_key_ref()) {
        let (name, path) = (selector.volume_name(), selector.path());
        let volumes = pod.spec().volumes();
        let is_empty_dir = volumes
            .iter()
            .any(|volume| volume.name() == name && volume.volume_source().empty_dir().is_some());
        let key = (name.to_owned(), path.to_owned());
        let Some(volume) = folder(name).filter(|_| is_empty_dir && !files.contains_key(&key))
        else {
            continue;
        };
        let file = read(volume, path)?;
        bytes += file.as_ref().map_or(0, |file| file.content.len());
        if bytes > LARGEST_SUM {
            return Err(format!("the env files are larger than {LARGEST_SUM} bytes"));
        }
        files.insert(key, file);
    }
    Ok(files)
}

/// Reads an env file below an `emptyDir` volume. Containers can write there, so symlinks are not followed in any
/// component of the path, only a regular file is opened, and the size is limited. `None`: the file does not exist.
fn read(volume: &Path, path: &str) -> Result<Option<EnvFile>, String> {
    let place = volume.join(path);
    let failed = |error: io::Error| {
        tracing::warn!(file = %place.display(), %error, "cannot read an env file");
        UNPARSABLE.to_owned()
    };
    let folder = sys::descriptor::open_path(volume).map_err(failed)?;
    let file = match container_file::open_beneath(&folder, Path::new(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let content = container_file::read_head(&file, LARGEST_FILE + 1).map_err(failed)?;
    if content.len() > LARGEST_FILE {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(EnvFile { path: place.to_string_lossy().into_owned(), content }))
}

/// The value of a `fileKeyRef`; `None` if it is optional and missing.
pub(super) fn value(
    pod: &Pod,
    selector: &FileKeySelector,
    sources: &EnvSources,
) -> Result<Option<String>, String> {
    let (volume, key) = (selector.volume_name(), selector.key());
    let optional = selector.optional();
    let known = sources.files.get(&(volume.to_owned(), selector.path().to_owned()));
    let Some(file) = known else {
        return Err(format!("cannot find the volume {} referenced by FileKeyRef", quote(volume)));
    };
    let Some(file) = file else {
        return if optional { Ok(None) } else { Err(UNPARSABLE.into()) };
    };
    let found = parse(&file.content, key).map_err(|error| {
        tracing::warn!(
            pod = pod.metadata().name(),
            file = file.path,
            error,
            "an env file is invalid"
        );
        UNPARSABLE.to_owned()
    })?;
    match found.filter(|value| !value.is_empty()) {
        Some(value) => Ok(Some(value)),
        None if optional => Ok(None),
        None => Err(format!(
            "environment variable key {} not found in file {}",
            quote(key),
            quote(&file.path)
        )),
    }
}

/// The first value of the key. The rest of the file is not parsed.
fn parse(content: &[u8], key: &str) -> Result<Option<String>, String> {
    let wrong = |line: usize, why: &str| {
        format!("invalid environment variable format at line {line}: {why}")
    };
    let mut lines = Lines { rest: content, number: 0 };
    while let Some(line) = lines.next()? {
        let line = trim_start(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let Some((name, value)) = split_once(line, b'=') else {
            return Err(wrong(lines.number, "missing '='"));
        };
        if name.is_empty() {
            return Err(wrong(lines.number, "empty variable name"));
        }
        if name.ends_with(b" ") || name.ends_with(b"\t") {
            return Err(wrong(lines.number, "whitespace before '=' is not allowed"));
        }
        let is_wanted = name == key.as_bytes();
        if value.starts_with(b" ") || value.starts_with(b"\t") {
            if is_wanted {
                return Ok(Some(String::new())); // empty, as in a shell
            }
            continue;
        }
        let Some(value) = value.strip_prefix(b"'") else {
            return Err(wrong(lines.number, "value must be enclosed in single quotes"));
        };
        let value = lines.quoted(value)?;
        if is_wanted {
            return Ok(Some(String::from_utf8_lossy(&value).into_owned()));
        }
    }
    Ok(None)
}

/// Line reader that counts lines and limits their length.
struct Lines<'a> {
    rest: &'a [u8],
    /// Number of the line that was read last; the first is 1.
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Option<&'a [u8]>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (line, rest) = split_once(self.rest, b'\n').unwrap_or((self.rest, &[]));
        self.rest = rest;
        self.number += 1;
        if line.len() >= LONGEST_LINE {
            return Err(format!("line {} is too long", self.number));
        }
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Reads a quoted value, which may span lines, up to the closing quote. The opening quote has already been read.
    fn quoted(&mut self, first: &'a [u8]) -> Result<Vec<u8>, String> {
        let (start, mut rest, mut value) = (self.number, first, Vec::new());
        loop {
            if let Some((last, after)) = split_once(rest, b'\'') {
                value.extend_from_slice(last);
                let after = trim_start(after);
                if !after.is_empty() && !after.starts_with(b"#") {
                    let line = self.number;
                    return Err(format!(
                        "invalid environment variable format at line {line}: unexpected content after closing quote"
                    ));
                }
                return Ok(value);
            }
            value.extend_from_slice(rest);
            value.push(b'\n');
            rest = self.next()?.ok_or_else(|| {
                format!(
                    "invalid environment variable format starting at line {start}: unclosed single quote"
                )
            })?;
        }
    }
}

fn trim_start(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = line {
        line = rest;
    }
    line
}

/// What is before and behind the first such byte.
fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let mut parts = text.splitn(2, |byte| *byte == at);
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use object::yaml::from_yaml;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn values_are_quoted_and_nothing_is_expanded() {
        let cases = [
            ("A='1'", Some("1")),
            ("  A='1' # why\r\n", Some("1")),
            ("# A='0'\n\n \t\nB='x'\nA='a $B \\n \"q\"'\nA='2'", Some("a $B \\n \"q\"")),
            ("B='x\n\n  y'\nA='one\ntwo'", Some("one\ntwo")),
            ("A= '1'", Some("")),
            ("A=''", Some("")),
            ("B='A=1'", None),
            ("", None),
            ("A='1'\nwrong", Some("1")),
        ];
        for (text, want) in cases {
            let got = parse(text.as_bytes(), "A").expect(text);
            assert_eq!(got.as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_the_format_is_an_error_with_its_line() {
        let cases = [
            ("B='x'\nwrong", "at line 2: missing '='"),
            ("='1'", "at line 1: empty variable name"),
            ("A ='1'", "at line 1: whitespace before '=' is not allowed"),
            ("A=1", "at line 1: value must be enclosed in single quotes"),
            ("A=\"1\"", "at line 1: value must be enclosed in single quotes"),
            ("A=", "at line 1: value must be enclosed in single quotes"),
            ("B='x\ny' z", "at line 2: unexpected content after closing quote"),
            ("\nA='x\ny", "starting at line 2: unclosed single quote"),
        ];
        for (text, want) in cases {
            let error = parse(text.as_bytes(), "A").expect_err(text);
            assert!(error.ends_with(want), "{text:?}: {error}");
        }
        let long = format!("B='{}'\nA='1'", "x".repeat(LONGEST_LINE));
        assert_eq!(parse(long.as_bytes(), "A").unwrap_err(), "line 1 is too long");
    }

    /// A container can create any kind of file in the volume.
    #[test]
    fn only_plain_files_of_the_volume_are_read() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("volume");
        fs::create_dir_all(volume.join("deep")).unwrap();
        fs::write(volume.join("deep/file"), "A='1'").unwrap();
        fs::write(root.path().join("secret"), "A='secret'").unwrap();
        symlink(root.path().join("secret"), volume.join("absolute")).unwrap();
        symlink("../secret", volume.join("up")).unwrap();
        symlink(root.path(), volume.join("folder")).unwrap();
        symlink("deep/file", volume.join("inside")).unwrap();
        mknodat(CWD, volume.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        fs::File::create(volume.join("large")).unwrap().set_len(8 << 40).unwrap();
        for path in
            ["absolute", "up", "folder/secret", "inside", "fifo", "large", "../secret", "deep"]
        {
            assert_eq!(read(&volume, path).unwrap_err(), UNPARSABLE, "{path}");
        }
        assert_eq!(read(&volume, "missing").unwrap(), None);
        let file = read(&volume, "deep/file").unwrap().expect("it is there");
        assert_eq!(
            (&*file.path, &*file.content),
            (volume.join("deep/file").to_str().unwrap(), b"A='1'" as &[u8])
        );
    }

    #[test]
    fn what_is_missing_is_left_out_only_if_optional() {
        let pod = Pod::from(from_yaml("metadata: {name: p}").unwrap());
        let of = |key: &str, path: &str, optional: bool| {
            let text = format!("{{volumeName: v, path: {path}, key: {key}, optional: {optional}}}");
            let selector = FileKeySelector::from(from_yaml(&text).unwrap());
            let file = |content: &str| {
                Some(EnvFile { path: "/pods/f".into(), content: content.as_bytes().to_vec() })
            };
            let files = [
                (("v".to_owned(), "f".to_owned()), file("A='1'\nE=''")),
                (("v".to_owned(), "bad".to_owned()), file("A")),
                (("v".to_owned(), "gone".to_owned()), None),
            ];
            value(&pod, &selector, &EnvSources { files: files.into(), ..EnvSources::default() })
        };
        assert_eq!(of("A", "f", false).unwrap().as_deref(), Some("1"));
        let missing = "environment variable key \"B\" not found in file \"/pods/f\"";
        assert_eq!(of("B", "f", false).unwrap_err(), missing);
        of("E", "f", false).unwrap_err();
        for (key, path) in [("B", "f"), ("E", "f"), ("A", "gone")] {
            assert_eq!(of(key, path, true).unwrap(), None, "{key} of {path}");
        }
        for (path, optional) in [("gone", false), ("bad", true), ("bad", false)] {
            assert_eq!(of("A", path, optional).unwrap_err(), UNPARSABLE, "{path}");
        }
        let other = of("A", "other", true).unwrap_err();
        assert_eq!(other, "cannot find the volume \"v\" referenced by FileKeyRef");
    }
}
