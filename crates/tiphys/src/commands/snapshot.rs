//! `snapshot`: everything that is stored, in one file.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use object::{Clock, SystemClock, Time};
use pki::Pair;
use store::{Folder, Remote, archive, archive::Archive};
use tracing::{info, warn};

use super::{asked_to_stop, etcd::duration, parse, run_async};

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Save a running store: the embedded one, or an etcd.
    Save {
        /// The file; with --every, the folder.
        to: PathBuf,
        #[command(flatten)]
        place: Place,
        /// Save again and again: 6h, 30m.
        #[arg(long, value_name = "DURATION")]
        every: Option<String>,
        /// How many are kept with --every.
        #[arg(long, default_value_t = 8)]
        keep: usize,
    },
    /// Restore a file, ours or etcd's, into a new store or an empty etcd.
    Restore {
        from: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Say what is in a file.
    Status { of: PathBuf },
}

#[derive(Args, Clone)]
struct Place {
    /// The folder of the cluster, or of `tiphys etcd`.
    #[arg(long, default_value = "/var/lib/tiphys")]
    data_dir: PathBuf,
    /// Where an etcd is, instead.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    endpoints: Vec<String>,
    /// Who signs its certificates.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The certificate to show it.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { command } = match parse("snapshot", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run_async("snapshot", async {
        match command {
            Command::Save { to, place, every: None, .. } => save(&to, &place).await,
            Command::Save { to, place, every: Some(every), keep } => {
                repeat(&to, &place, &every, keep).await
            }
            Command::Restore { from, place } => restore(&from, &place).await,
            Command::Status { of } => status(&of),
        }
    })
}

/// Whole or not at all.
async fn save(to: &Path, place: &Place) -> Result<()> {
    ensure!(!to.exists(), "{} is there already", to.display());
    let part = to.with_extension("part");
    let file =
        File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(&part);
    let mut file = file.with_context(|| format!("cannot make {}", part.display()))?;
    if place.endpoints.is_empty() {
        let folder = place.data_dir.join("store");
        ensure!(folder.is_dir(), "{} is no folder of a store", folder.display());
        archive::save(&Folder::open(&folder)?, SystemClock.now(), &mut file)?;
    } else {
        store::etcd::save(&place.remote()?, &mut file).await?;
    }
    drop(file);
    let saved = Archive::read(&part)?; // what cannot be read is no snapshot
    fs::rename(&part, to)?;
    println!(
        "{}: revision {}, {} keys, {} bytes",
        to.display(),
        saved.revision,
        saved.keys(),
        saved.size
    );
    Ok(())
}

/// Saves for ever, and removes the oldest.
async fn repeat(folder: &Path, place: &Place, every: &str, keep: usize) -> Result<()> {
    let every = duration(every, "--every")?;
    ensure!(!every.is_zero() && keep > 0, "--every and --keep must be more than 0");
    fs::create_dir_all(folder)?;
    let mut stop = std::pin::pin!(asked_to_stop());
    loop {
        let name = format!("snapshot-{}.db", Time::text(SystemClock.now()).replace(':', ""));
        if let Err(error) = save(&folder.join(name), place).await {
            warn!(error = format!("{error:#}"), "no snapshot this time");
        }
        prune(folder, keep)?;
        tokio::select! {
            stopped = &mut stop => return stopped,
            () = tokio::time::sleep(every) => {}
        }
    }
}

fn prune(folder: &Path, keep: usize) -> Result<()> {
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("snapshot-") && path.extension().is_some_and(|end| end == "db")
    };
    let mut all: Vec<_> =
        fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).filter(ours).collect();
    all.sort_unstable(); // by time: it has always as many digits
    let old = all.len().saturating_sub(keep);
    for path in &all[..old] {
        fs::remove_file(path)?;
        info!(file = %path.display(), "removed");
    }
    Ok(())
}

async fn restore(from: &Path, place: &Place) -> Result<()> {
    let archive = Archive::read(from)?;
    if !place.endpoints.is_empty() {
        let count = store::etcd::restore(&archive, &place.remote()?).await?;
        println!("{count} keys restored");
        return Ok(());
    }
    let folder = place.data_dir.join("store");
    fs::create_dir_all(&place.data_dir)?;
    let disk =
        Folder::open(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
    let revision = archive.restore(&disk, SystemClock.now())?;
    println!(
        "{} keys restored into {}; it goes on behind revision {revision}",
        archive.keys(),
        folder.display()
    );
    Ok(())
}

fn status(of: &Path) -> Result<()> {
    let archive = Archive::read(of)?;
    let Archive { revision, versions, size, .. } = archive;
    println!("revision {revision}\nversions {versions}\nkeys {}\nsize {size}", archive.keys());
    Ok(())
}

impl Place {
    fn remote(&self) -> Result<Remote> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let pair = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(Pair::from_pem(&read(certificate)?, &read(key)?)?)
            }
            (None, None) => None,
            _ => bail!("--cert and --key belong together"),
        };
        let tls = match &self.cacert {
            Some(path) => Some(Arc::new(pki::client_config(
                &pki::certificates(&read(path)?)?,
                pair.as_ref(),
            )?)),
            None => None,
        };
        Ok(Remote { endpoints: self.endpoints.clone(), tls, ..Remote::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_are_kept_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (data, saved) = (folder.path().join("data"), folder.path().join("saved"));
        fs::create_dir_all(data.join("store")).unwrap();
        fs::create_dir_all(&saved).unwrap();
        let disk = Arc::new(Folder::open(data.join("store")).unwrap());
        store::DiskLog::open(disk, Arc::new(SystemClock), store::Options::default()).unwrap();
        let place =
            Place { data_dir: data, endpoints: vec![], cacert: None, cert: None, key: None };
        for hour in 1..=4 {
            let name = format!("snapshot-2026-01-01T0{hour}0000Z.db");
            save(&saved.join(name), &place).await.unwrap();
            prune(&saved, 2).unwrap();
        }
        fs::write(saved.join("mine.db"), "x").unwrap();
        fs::write(saved.join("snapshot-note.txt"), "x").unwrap();
        prune(&saved, 2).unwrap();
        let names = fs::read_dir(&saved).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        let kept = ["snapshot-2026-01-01T030000Z.db", "snapshot-2026-01-01T040000Z.db"];
        assert_eq!(names, ["mine.db", kept[0], kept[1], "snapshot-note.txt"]);
        assert!(Archive::read(&saved.join(kept[1])).is_ok(), "it can be restored");
        let again = save(&saved.join(kept[1]), &place).await.unwrap_err();
        assert!(again.to_string().contains("already"), "{again}");
    }
}
