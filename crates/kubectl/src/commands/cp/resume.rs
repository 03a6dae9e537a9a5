//! `cp --retries`: receives an archive, and resumes where the connection broke.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::AsyncWrite;

use crate::error::{CommandError, Result};

/// A writer that counts the bytes it has taken.
#[derive(Debug)]
pub(super) struct Counter<W> {
    writer: W,
    pub(super) bytes: u64,
}

impl<W> Counter<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, bytes: 0 }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Counter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.writer).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.bytes += u64::try_from(*count).unwrap_or_default();
        }
        written
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        // The end of one connection is not the end of the archive.
        Poll::Ready(Ok(()))
    }
}

/// The command that writes the archive of a file, from a byte on. Without retries no shell is needed.
pub(super) fn command(file: &str, retries: i64, bytes: u64) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if retries == 0 {
        return words(&["tar", "cf", "-", file]);
    }
    let quoted = file.replace('\'', r"'\''");
    let script = format!("tar cf - '{quoted}' | tail -c+{}", bytes + 1);
    words(&["sh", "-c", &script])
}

/// Whether a copy that failed is resumed: the command must not have ended by itself, and retries must be left. A
/// negative number allows any number of them.
pub(super) fn resumes(failed: &Result, retries: i64, done: i64) -> bool {
    let broken = match failed {
        Ok(()) | Err(CommandError::Aggregate(_) | CommandError::Code(_)) => false,
        Err(_) => true,
    };
    broken && (retries < 0 || done < retries)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn a_shell_skips_what_was_received() {
        assert_eq!(command("/a", 0, 0), ["tar", "cf", "-", "/a"]);
        assert_eq!(command("/a", 3, 0), ["sh", "-c", "tar cf - '/a' | tail -c+1"]);
        assert_eq!(command("/it's", -1, 512), ["sh", "-c", r"tar cf - '/it'\''s' | tail -c+513"]);
    }

    #[test]
    fn only_broken_connections_are_resumed() {
        let broken = || Err(CommandError::error("connection reset"));
        let ended = Err(CommandError::Aggregate(vec![CommandError::Code(2)]));
        assert!(resumes(&broken(), 2, 1) && resumes(&broken(), -1, 1000));
        assert!(!resumes(&broken(), 2, 2) && !resumes(&broken(), 0, 0));
        assert!(!resumes(&ended, 5, 0) && !resumes(&Ok(()), 5, 0));
    }

    #[tokio::test]
    async fn bytes_are_counted_over_connections() {
        let mut counter = Counter::new(Vec::new());
        counter.write_all(b"first ").await.expect("memory");
        counter.shutdown().await.expect("stays open");
        counter.write_all(b"second").await.expect("memory");
        assert_eq!((counter.bytes, counter.writer.as_slice()), (12, b"first second".as_slice()));
    }
}
