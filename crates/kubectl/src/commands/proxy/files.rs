//! Serves the files of a directory over HTTP.

use std::{
    fs,
    path::{Component, Path},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Response, StatusCode, header::CONTENT_TYPE};

use super::{Body, plain_answer};

/// Maximum size in bytes of a file that is served.
const LARGEST: u64 = 256 << 20;

/// The response for a path: a file, a directory listing, or 404.
pub(super) fn answer(folder: &Path, path: &str) -> Response<Body> {
    let missing = || plain_answer(StatusCode::NOT_FOUND, "404 page not found\n");
    let Some(path) = decode(path) else { return missing() };
    let below = Path::new(&path);
    // Rejects paths above the directory, and symlinks that lead out of it.
    if below.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return missing();
    }
    let (Ok(root), Ok(mut file)) = (fs::canonicalize(folder), fs::canonicalize(folder.join(below)))
    else {
        return missing();
    };
    if file.is_dir() {
        let index = file.join("index.html");
        if !index.is_file() {
            return listing(&file);
        }
        file = index;
    }
    let small = fs::metadata(&file).is_ok_and(|about| about.len() <= LARGEST);
    if !file.starts_with(&root) || !small {
        return missing();
    }
    match fs::read(&file) {
        Ok(bytes) => typed(bytes.into(), kind(&file)),
        Err(_) => missing(),
    }
}

fn listing(folder: &Path) -> Response<Body> {
    let Ok(entries) = fs::read_dir(folder) else {
        return plain_answer(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let mut names: Vec<String> = entries
        .filter_map(std::result::Result::ok)
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort();
    let escape = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;")
    };
    let lines: String = names
        .iter()
        .map(|name| format!("<a href=\"{}\">{}</a>\n", escape(name), escape(name)))
        .collect();
    let page = format!("<!doctype html>\n<pre>\n{lines}</pre>\n");
    typed(page.into_bytes().into(), "text/html; charset=utf-8")
}

fn typed(bytes: Bytes, kind: &'static str) -> Response<Body> {
    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "txt" | "md" | "yaml" | "yml" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Decodes the percent-encoding of a path.
fn decode(path: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

#[test]
fn paths_are_decoded() {
    assert_eq!(decode("a%20b%2fc").as_deref(), Some("a b/c"));
    assert_eq!((decode("%2"), decode("%zz")), (None, None));
}
