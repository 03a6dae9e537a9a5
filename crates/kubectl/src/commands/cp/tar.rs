//! Reads and writes tar archives as streams.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const BLOCK: usize = 512;
/// Maximum length in bytes of a name.
const LONGEST_NAME: u64 = 1 << 16;

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    Other,
}

/// The header of an entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) link: String,
}

/// Writes a file, or a directory with its content, as `name`. Directories that are not empty get no entry: the
/// entries in them imply them.
pub(super) async fn write_tree(
    out: &mut (impl AsyncWrite + Unpin),
    path: &Path,
    name: &str,
) -> std::io::Result<()> {
    let mut todo: Vec<(PathBuf, String)> = vec![(path.to_path_buf(), name.to_owned())];
    while let Some((path, name)) = todo.pop() {
        let about = fs::symlink_metadata(&path)?;
        if about.is_dir() {
            let mut inside: Vec<_> = fs::read_dir(&path)?.collect::<std::io::Result<_>>()?;
            inside.sort_by_key(fs::DirEntry::file_name);
            if inside.is_empty() {
                write_header(out, &Header::of(&about, &name, b'5')).await?;
            }
            for entry in inside.iter().rev() {
                let below = format!("{name}/{}", entry.file_name().to_string_lossy());
                todo.push((entry.path(), below));
            }
        } else if about.is_symlink() {
            let target = fs::read_link(&path)?;
            let link = &target.to_string_lossy();
            write_header(out, &Header { link, ..Header::of(&about, &name, b'2') }).await?;
        } else if about.is_file() {
            let size = about.len();
            write_header(out, &Header { size, ..Header::of(&about, &name, b'0') }).await?;
            let mut file = fs::File::open(&path)?.take(about.len());
            let mut buffer = vec![0; 64 << 10];
            let mut left = about.len();
            while left > 0 {
                let length = file.read(&mut buffer)?;
                if length == 0 {
                    return Err(std::io::Error::other(format!(
                        "{} became shorter while it was read",
                        path.display()
                    )));
                }
                out.write_all(&buffer[..length]).await?;
                left -= length as u64;
            }
            out.write_all(&vec![0; padding(about.len())]).await?;
        }
    }
    Ok(())
}

/// Writes the end of an archive.
pub(super) async fn finish(out: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    out.write_all(&[0; 2 * BLOCK]).await?;
    out.flush().await
}

fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    if over == 0 { 0 } else { BLOCK - over }
}

/// The fields of an entry's header block.
#[derive(Clone, Copy)]
struct Header<'a> {
    name: &'a str,
    kind: u8,
    mode: u32,
    user: u32,
    group: u32,
    size: u64,
    changed: i64,
    link: &'a str,
}

impl<'a> Header<'a> {
    fn of(about: &fs::Metadata, name: &'a str, kind: u8) -> Self {
        Self {
            name,
            kind,
            mode: about.mode() & 0o7777,
            user: about.uid(),
            group: about.gid(),
            size: 0,
            changed: about.mtime(),
            link: "",
        }
    }

    fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut text = |at: usize, room: usize, text: &str| {
            let bytes = &text.as_bytes()[..text.len().min(room)];
            block[at..at + bytes.len()].copy_from_slice(bytes);
        };
        text(0, 100, self.name);
        text(100, 8, &format!("{:07o}\0", self.mode));
        text(108, 8, &format!("{:07o}\0", self.user & 0o7_777_777));
        text(116, 8, &format!("{:07o}\0", self.group & 0o7_777_777));
        text(124, 12, &format!("{:011o}\0", self.size & 0o77_777_777_777));
        text(136, 12, &format!("{:011o}\0", self.changed.max(0)));
        text(148, 8, "        ");
        text(157, 100, self.link);
        text(257, 8, "ustar\x0000");
        block[156] = self.kind;
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

async fn write_header(
    out: &mut (impl AsyncWrite + Unpin),
    header: &Header<'_>,
) -> std::io::Result<()> {
    for (text, kind) in [(header.link, b'K'), (header.name, b'L')] {
        if text.len() > 100 {
            let mut bytes = text.as_bytes().to_vec();
            bytes.push(0);
            let size = bytes.len() as u64;
            let long = Header { name: "././@LongLink", kind, size, link: "", ..*header };
            out.write_all(&long.block()).await?;
            bytes.resize(bytes.len() + padding(size), 0);
            out.write_all(&bytes).await?;
        }
    }
    out.write_all(&header.block()).await
}

/// Reads an archive entry by entry.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    /// Bytes that are left of the entry, and bytes of padding after it.
    left: u64,
    after: usize,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, left: 0, after: 0 }
    }

    /// The next entry; `None` at the end of the archive.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Entry>> {
        let (mut long_name, mut long_link, mut long_size) = (None, None, None);
        loop {
            self.skip().await?;
            let mut block = [0; BLOCK];
            match self.from.read_exact(&mut block).await {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            };
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            check(&block)?;
            let size = number(&block[124..136])?;
            self.left = size;
            self.after = padding(size);
            match block[156] {
                b'L' => long_name = Some(self.text().await?),
                b'K' => long_link = Some(self.text().await?),
                b'x' => {
                    for (key, value) in records(&self.text().await?) {
                        match key.as_str() {
                            "path" => long_name = Some(value),
                            "linkpath" => long_link = Some(value),
                            "size" => long_size = value.parse().ok(),
                            _ => {}
                        }
                    }
                }
                b'g' => drop(self.text().await?),
                kind => {
                    let size = long_size.unwrap_or(size);
                    self.left = size;
                    self.after = padding(size);
                    let plain = full_name(&block);
                    let name = long_name.unwrap_or(plain);
                    let kind = match kind {
                        b'0' | 0 if name.ends_with('/') => Kind::Directory,
                        b'0' | 0 | b'7' => Kind::File,
                        b'5' => Kind::Directory,
                        b'2' => Kind::Link,
                        _ => Kind::Other,
                    };
                    let mode = u32::try_from(number(&block[100..108])? & 0o7777).unwrap_or(0o644);
                    let link = long_link.unwrap_or_else(|| string(&block[157..257]));
                    return Ok(Some(Entry { name, kind, mode, link }));
                }
            }
        }
    }

    /// Reads the next piece of the entry's content; 0 at its end.
    pub(super) async fn piece(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let length = self.from.read(&mut buffer[..most]).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= length as u64;
        Ok(length)
    }

    async fn skip(&mut self) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        while self.piece(&mut buffer).await? > 0 {}
        self.from.read_exact(&mut buffer[..self.after]).await?;
        self.after = 0;
        Ok(())
    }

    /// Reads the whole content of a short entry.
    async fn text(&mut self) -> std::io::Result<String> {
        if self.left > LONGEST_NAME {
            return Err(std::io::Error::other("a name in the archive is too long"));
        }
        let mut bytes = Vec::new();
        let mut buffer = [0; BLOCK];
        loop {
            match self.piece(&mut buffer).await? {
                0 => return Ok(string(&bytes)),
                length => bytes.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

fn check(block: &[u8; BLOCK]) -> std::io::Result<()> {
    let other = |at: usize| if (148..156).contains(&at) { b' ' } else { block[at] };
    let sum: u64 = (0..BLOCK).map(|at| u64::from(other(at))).sum();
    if number(&block[148..156])? == sum {
        Ok(())
    } else {
        Err(std::io::Error::other("archive/tar: invalid tar header"))
    }
}

/// Parses a number: octal digits, or binary if the first bit is set.
fn number(field: &[u8]) -> std::io::Result<u64> {
    if field[0] & 0x80 != 0 {
        return Ok(field.iter().skip(field.len() - 8).fold(0, |n, byte| n << 8 | u64::from(*byte)));
    }
    let text = string(field);
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(text, 8)
        .map_err(|_| std::io::Error::other("archive/tar: invalid tar header"))
}

fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn full_name(block: &[u8; BLOCK]) -> String {
    let (name, prefix) = (string(&block[..100]), string(&block[345..500]));
    let ustar = &block[257..263] == b"ustar\0";
    if ustar && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

/// Parses the `LENGTH KEY=VALUE` lines of an extended header.
fn records(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((length, _)) = rest.split_once(' ') {
        let Some(record) = length.parse().ok().and_then(|length: usize| rest.get(..length)) else {
            break;
        };
        let Some(pair) = record.get(length.len() + 1..) else { break };
        if let Some((key, value)) = pair.trim_end_matches('\n').split_once('=') {
            all.push((key.to_owned(), value.to_owned()));
        }
        rest = &rest[record.len()..];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_shorter_than_their_length_says_are_left_out() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(records("12 path=a/b\n1 x"), vec![pair("path", "a/b")]);
        assert_eq!(records("0 path=a"), vec![]);
    }

    #[tokio::test]
    async fn what_is_written_can_be_read() {
        let folder = std::env::temp_dir().join(format!("kubectl-tar-{}", std::process::id()));
        let deep = folder.join("x".repeat(90)).join("y".repeat(90));
        fs::create_dir_all(&deep).expect("a folder");
        fs::write(deep.join("file"), "text").expect("a file");
        fs::create_dir_all(folder.join("void")).expect("a folder");
        let mut bytes = Vec::new();
        write_tree(&mut bytes, &folder, "to").await.expect("written");
        finish(&mut bytes).await.expect("written");
        let mut reader = Reader::new(&bytes[..]);
        let empty = reader.next().await.expect("read").expect("an entry");
        assert_eq!((empty.name.as_str(), empty.kind), ("to/void", Kind::Directory));
        let file = reader.next().await.expect("read").expect("an entry");
        assert_eq!((file.name.len(), file.kind), (189, Kind::File));
        let mut buffer = [0; 9];
        assert_eq!(reader.piece(&mut buffer).await.expect("read"), 4);
        assert_eq!(&buffer[..4], b"text");
        assert!(reader.next().await.expect("read").is_none());
        fs::remove_dir_all(&folder).expect("gone");
    }
}
