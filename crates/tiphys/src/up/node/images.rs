//! The door for images that come as files: an archive in, names out.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use container::image::Store;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::up::Layout;

const SOCKET: &str = "run/image.sock";
/// What an answer begins with when the archive was taken.
const TAKEN: &str = "ok\n";

/// Takes archives until `stop`, one at a time.
pub(super) fn serve(layout: &Layout, store: Store, stop: CancellationToken) -> Result<()> {
    let path = layout.path(SOCKET);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    tokio::runtime::Handle::current().spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let taken = match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => take(&store, stream).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = taken {
                warn!(%error, "an archive was not taken");
            }
        }
    });
    Ok(())
}

async fn take(store: &Store, mut stream: UnixStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    let answer = match store.import(stream.try_clone()?).await {
        Ok(images) => {
            let names = images.iter().flat_map(|image| &image.repo_tags);
            let names: Vec<&str> = names.map(String::as_str).collect();
            format!("{TAKEN}{}\n", names.join("\n"))
        }
        Err(error) => format!("{error}\n"),
    };
    // what an archive has after its end must be read too, or the answer may be lost
    let mut rest = stream.try_clone()?;
    tokio::task::spawn_blocking(move || std::io::copy(&mut rest, &mut std::io::sink())).await??;
    stream.write_all(answer.as_bytes())?;
    Ok(())
}

/// Gives an archive to the node that runs on this data. Gives the images' names.
pub(crate) fn import(layout: &Layout, archive: &Path) -> Result<String> {
    let mut file =
        fs::File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let mut stream = UnixStream::connect(layout.path(SOCKET))
        .context("no node runs here: see `tiphys status`")?;
    std::io::copy(&mut file, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.strip_prefix(TAKEN) {
        Some(names) => Ok(names.to_owned()),
        None => bail!("{}", answer.trim()),
    }
}
