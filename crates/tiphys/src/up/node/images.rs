//! A Unix socket for importing and exporting images as archives. A client sends one line, `import` followed by an
//! archive, or `export NAME`, to receive one.

use std::{
    fs::{self, File},
    io::{Read, Seek, Write, copy, sink},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use container::image::ImageStore;
use rustix::fs::{Mode, OFlags};
use tokio::{net::UnixListener, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::up::{DataDir, layout::private};

const SOCKET: &str = "run/image.sock";
/// Start of a successful reply.
const DONE: &str = "ok\n";
const LONGEST_LINE: usize = 4096;
/// Timeout of reads and writes: an idle client must not block the others.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves imports and exports until `stop`, one at a time.
pub(super) fn serve(layout: &DataDir, store: ImageStore, stop: CancellationToken) -> Result<()> {
    let path = layout.path(SOCKET);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    private(&path)?;
    tokio::runtime::Handle::current().spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let done = match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    let answered = panics::contain("images", answer(&store, stream)).await;
                    answered.unwrap_or_else(|panicked| Err(panicked.into()))
                }
                Err(error) => Err(error.into()),
            };
            if let Err(error) = done {
                warn!(%error, "cannot transfer an image archive");
            }
        }
    });
    Ok(())
}

async fn answer(store: &ImageStore, mut stream: UnixStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut from = stream.try_clone()?;
    let wanted = spawn_blocking(move || line(&mut from)).await??;
    let answered = match wanted.split_once(' ').unwrap_or((&wanted, "")) {
        ("import", "") => import_from(store, &stream).await.map(|names| (names, None)),
        ("export", name) => {
            export_to_file(store, name).await.map(|archive| (String::new(), Some(archive)))
        }
        _ => Err(anyhow::anyhow!("{wanted:?} is neither import nor export")),
    };
    let (text, archive) = match answered {
        Ok((text, archive)) => (format!("{DONE}{text}"), archive),
        Err(error) => (format!("{error:#}\n"), None),
    };
    // the bytes behind the end of an archive must be read too, or the reply may be lost
    let mut rest = stream.try_clone()?;
    let sent = spawn_blocking(move || {
        copy(&mut rest, &mut sink())?;
        stream.write_all(text.as_bytes())?;
        archive.map_or(Ok(0), |mut archive| copy(&mut archive, &mut stream))
    });
    sent.await??;
    Ok(())
}

/// Imports an archive; returns the names of the images.
async fn import_from(store: &ImageStore, stream: &UnixStream) -> Result<String> {
    let images = store.import(stream.try_clone()?).await?;
    let names = images.iter().flat_map(|image| &image.repo_tags);
    Ok(names.map(|name| format!("{name}\n")).collect())
}

/// Exports an image to an unnamed temporary file, so that only a complete archive is sent.
async fn export_to_file(store: &ImageStore, name: &str) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(store.dir(), flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    store.export(name, file.try_clone()?).await?;
    file.rewind()?;
    Ok(file)
}

fn line(from: &mut impl Read) -> Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        from.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => return Ok(String::from_utf8(line)?),
            _ if line.len() == LONGEST_LINE => bail!("the line is too long"),
            other => line.push(other),
        }
    }
}

/// Sends an archive to the running node of this data directory. Returns the names of the images.
pub(crate) fn import(layout: &DataDir, archive: &Path) -> Result<String> {
    let mut file: Box<dyn Read> = if archive == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let file =
            File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
        Box::new(file)
    };
    let mut stream = connect(layout, "import\n")?;
    copy(&mut file, &mut stream)?;
    let mut names = String::new();
    let mut answer = read_reply(stream).with_context(|| archive.display().to_string())?;
    answer.read_to_string(&mut names)?;
    Ok(names)
}

/// Exports an image of the running node of this data directory to a file.
pub(crate) fn export(layout: &DataDir, name: &str, archive: &Path) -> Result<()> {
    let mut from = read_reply(connect(layout, &format!("export {name}\n"))?)?;
    let mut file =
        File::create(archive).with_context(|| format!("cannot write {}", archive.display()))?;
    copy(&mut from, &mut file)?;
    Ok(())
}

fn connect(layout: &DataDir, wanted: &str) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(layout.path(SOCKET))
        .context("no node runs here: see `tiphys status`")?;
    stream.write_all(wanted.as_bytes())?;
    Ok(stream)
}

/// The rest of the reply after the marker of success; otherwise the error in it.
fn read_reply(mut stream: UnixStream) -> Result<UnixStream> {
    stream.shutdown(Shutdown::Write)?;
    let mut start = vec![0; DONE.len()];
    stream.read_exact(&mut start)?;
    if start != DONE.as_bytes() {
        let mut rest = String::new();
        stream.read_to_string(&mut rest)?;
        bail!("{}{}", String::from_utf8_lossy(&start), rest.trim_end());
    }
    Ok(stream)
}
