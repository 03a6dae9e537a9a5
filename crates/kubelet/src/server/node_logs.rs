//! `/logs/`: serves the files below the host's log directory, like a file server.
//!
//! Pods that mount the directory can create symlinks in it: a symlink may lead to another place in the directory, but
//! never out of it, and only regular files are read.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION},
};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use object::percent_decode;
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat};
use tokio::io::AsyncReadExt;

use super::{HttpResponse, text};
use crate::blocking;

const CHUNK: usize = 64 << 10;
/// Maximum number of names in a directory listing.
const MOST_NAMES: usize = 10_000;

/// What is at a path of the log directory.
#[derive(Debug)]
enum Found {
    /// Names in the directory, sorted; those of directories end with a slash.
    Folder(Vec<String>),
    File(File, u64),
}

/// Answers a request for `/logs/PATH`. `path` is not decoded yet.
pub(super) async fn answer(folder: &Path, method: &Method, path: &str) -> HttpResponse {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    let rest = path.trim_start_matches('/').strip_prefix("logs").unwrap_or_default();
    let Some(below) = relative(&percent_decode(rest, false)) else {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    };
    let folder = folder.to_owned();
    let found = blocking(move || Ok(find(&folder, &below))).await;
    let found = found.unwrap_or_else(|error| Err(io::Error::other(error)));
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match found {
        Ok(Found::Folder(_)) if !path.ends_with('/') => redirect(&format!("{name}/")),
        Ok(Found::Folder(names)) => list(&names),
        Ok(Found::File(..)) if path.ends_with('/') => redirect(&format!("../{name}")),
        Ok(Found::File(file, length)) => send(file, length),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            text(StatusCode::FORBIDDEN, "403 Forbidden")
        }
        Err(_) => text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

/// The path below the directory, without a trailing slash; `None` if it contains `..`.
fn relative(path: &str) -> Option<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    let mut below = PathBuf::from(".");
    for part in path.components() {
        match part {
            Component::Normal(name) if !name.as_bytes().contains(&0) => below.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(below)
}

fn find(folder: &Path, path: &Path) -> io::Result<Found> {
    let root = sys::descriptor::open_path(folder)?;
    let place = sys::descriptor::place_beneath(&root, path)?;
    let stat = fstat(&place)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => names(&place).map(Found::Folder),
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let path = format!("/proc/self/fd/{}", place.as_raw_fd());
            let file = File::from(open(path, flags, Mode::empty())?);
            Ok(Found::File(file, u64::try_from(stat.st_size).unwrap_or_default()))
        }
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn names(place: &OwnedFd) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(place, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let is_folder = entry.file_type() == FileType::Directory;
        names.push(if is_folder { format!("{name}/") } else { name });
        if names.len() == MOST_NAMES {
            break;
        }
    }
    names.sort();
    Ok(names)
}

fn list(names: &[String]) -> HttpResponse {
    let mut page = String::from(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n",
    );
    for name in names {
        page += &format!("<a href=\"{}\">{}</a>\n", as_link(name), as_html(name));
    }
    page += "</pre>\n";
    let mut answer = text(StatusCode::OK, &page);
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn redirect(to: &str) -> HttpResponse {
    let mut answer = text(StatusCode::MOVED_PERMANENTLY, "");
    match HeaderValue::from_str(to) {
        Ok(to) => answer.headers_mut().insert(LOCATION, to),
        Err(_) => return text(StatusCode::NOT_FOUND, "404 page not found"),
    };
    answer
}

/// Sends the file up to the length it had when it was opened, because logs grow.
fn send(file: File, length: u64) -> HttpResponse {
    let file = tokio::fs::File::from_std(file).take(length);
    let chunks = futures_util::stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let got = file.read(&mut chunk).await?;
        chunk.truncate(got);
        Ok((got > 0).then(|| (Frame::data(Bytes::from(chunk)), file)))
    });
    let mut answer = Response::new(StreamBody::new(chunks).boxed());
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    let sniff = HeaderValue::from_static("nosniff");
    answer.headers_mut().insert("x-content-type-options", sniff);
    answer
}

/// A name as a relative URL reference. With a colon in it, it would otherwise be parsed as a scheme.
fn as_link(name: &str) -> String {
    let mut out = String::from(if name.contains(':') { "./" } else { "" });
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b':' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn as_html(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&#34;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{CWD, mknodat};

    use super::*;

    async fn get(folder: &Path, path: &str) -> (u16, String) {
        let answer = answer(folder, &Method::GET, path).await;
        let status = answer.status().as_u16();
        let location = answer.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, location.unwrap_or_else(|| String::from_utf8(body.to_vec()).unwrap()))
    }

    #[tokio::test]
    async fn folders_are_listed_and_files_are_sent() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        fs::create_dir_all(log.join("pods/a")).unwrap();
        fs::create_dir_all(log.join("containers")).unwrap();
        fs::write(log.join("pods/a/0.log"), "lines").unwrap();
        fs::write(log.join("a:b <&>"), "odd").unwrap();
        symlink("../pods/a/0.log", log.join("containers/a.log")).unwrap();
        let (status, page) = get(&log, "/logs/").await;
        assert_eq!(status, 200);
        for line in [
            "<a href=\"containers/\">containers/</a>\n",
            "<a href=\"pods/\">pods/</a>\n",
            "<a href=\"./a:b%20%3C%26%3E\">a:b &lt;&amp;&gt;</a>\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert_eq!(get(&log, "/logs/pods/a/0.log").await, (200, "lines".into()));
        assert_eq!(get(&log, "/logs/containers/a.log").await, (200, "lines".into()));
        assert_eq!(get(&log, "/logs/a:b%20%3C%26%3E").await, (200, "odd".into()));
        assert_eq!(get(&log, "/logs").await, (301, "logs/".into()));
        assert_eq!(get(&log, "/logs/pods").await, (301, "pods/".into()));
        assert_eq!(get(&log, "/logs/pods/a/0.log/").await, (301, "../0.log".into()));
        assert_eq!(get(&log, "/logs/missing").await.0, 404);
        assert_eq!(answer(&log, &Method::POST, "/logs/").await.status(), 405);
    }

    #[tokio::test]
    async fn nothing_leads_out_of_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        fs::create_dir_all(&log).unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink(root.path().join("secret"), log.join("absolute")).unwrap();
        symlink("../secret", log.join("up")).unwrap();
        symlink("/", log.join("root")).unwrap();
        symlink("/proc/self/root", log.join("magic")).unwrap();
        mknodat(CWD, log.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        for path in [
            "absolute",
            "up",
            "root/",
            "root/etc/passwd",
            "magic/etc/passwd",
            "fifo",
            "../secret",
            "%2e%2e/secret",
            "..%2fsecret",
            "/../secret",
            "a/../../secret",
            "%00",
            "/etc/passwd",
        ] {
            let (status, said) = get(&log, &format!("/logs/{path}")).await;
            assert!(status == 404 || status == 301, "{path}: {status} {said}");
            assert!(!said.contains("secret\n") && said != "secret", "{path}: {said}");
        }
    }
}
