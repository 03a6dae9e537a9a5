//! `snapshot`: saves the whole store to one file, and restores it on any host.

mod keys;
mod sealed;

use std::{
    ffi::OsString,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use object::{Clock, SystemClock, Time};
use pki::CertKeyPair;
use store::{Directory, EtcdConfig, archive, archive::EtcdSnapshot};
use tracing::{info, warn};

use self::sealed::Secret;
use super::{etcd::duration, parse, run_async, wait_for_shutdown_signal};
use crate::up;

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Save a running store: the embedded one, or an etcd.
    Save {
        /// The file to write; with --every, the folder.
        to: PathBuf,
        #[command(flatten)]
        place: StorePlace,
        #[command(flatten)]
        secret: SecretFlags,
        /// Save at this interval, such as 6h or 30m, until stopped.
        #[arg(long, value_name = "DURATION")]
        every: Option<String>,
        /// Number of snapshots to keep with --every.
        #[arg(long, default_value_t = 8)]
        keep: usize,
    },
    /// Restore a file, ours or etcd's, into a new store or an empty etcd.
    Restore {
        from: PathBuf,
        #[command(flatten)]
        place: StorePlace,
        #[command(flatten)]
        secret: SecretFlags,
        /// Replace the existing store, which is kept beside the new one.
        #[arg(long)]
        in_place: bool,
    },
    /// Show what a snapshot contains.
    Status { of: PathBuf },
}

/// What seals the keys of the cluster in the file.
#[derive(Args, Clone, Default)]
struct SecretFlags {
    /// File with the passphrase that seals the cluster's keys in the snapshot; - reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    passphrase_file: Option<PathBuf>,
    /// File of at least 32 bytes that seals the keys instead of a passphrase.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl SecretFlags {
    fn read(&self) -> Result<Option<Secret>> {
        match (&self.passphrase_file, &self.key_file) {
            (Some(path), _) => Ok(Some(Secret::passphrase(path)?)),
            (None, Some(path)) => Ok(Some(Secret::key_file(path)?)),
            (None, None) => Ok(None),
        }
    }
}

#[derive(Args, Clone)]
struct StorePlace {
    /// The cluster, or the folder of `tiphys etcd`.
    #[command(flatten)]
    cluster: up::Place,
    /// Client URLs of an etcd to use instead of a cluster's store.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    endpoints: Vec<String>,
    /// File with the certificate authorities that etcd's certificates are verified against.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// File with the client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// File with the private key of --cert.
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
            Command::Save { to, place, secret, every: None, .. } => {
                save(&to, &place, secret.read()?.as_ref()).await
            }
            Command::Save { to, place, secret, every: Some(every), keep } => {
                save_periodically(&to, (&place, secret.read()?.as_ref()), &every, keep).await
            }
            Command::Restore { from, place, secret, in_place } => {
                restore(&from, &place, secret.read()?.as_ref(), in_place).await
            }
            Command::Status { of } => status(&of),
        }
    })
}

/// Writes a complete snapshot, or leaves no file.
async fn save(to: &Path, place: &StorePlace, secret: Option<&Secret>) -> Result<()> {
    ensure!(!to.exists(), "{} exists already", to.display());
    let part = to.with_extension("part");
    let saved = write(&part, place, secret).await;
    let saved = saved.and_then(|()| Ok(EtcdSnapshot::read(&part)?)); // a snapshot that cannot be read back is an error
    let saved = saved.inspect_err(|_| drop(fs::remove_file(&part)))?;
    fs::rename(&part, to)?;
    println!(
        "{}: revision {}, {} keys, {} bytes",
        to.display(),
        saved.revision,
        saved.keys(),
        saved.size
    );
    let encrypted = apiserver::unreadable(None, saved.items())?;
    if secret.is_some() {
        println!(
            "the keys of the cluster are included, sealed: the snapshot can be restored anywhere"
        );
    } else if encrypted > 0 {
        println!(
            "not included: the keys that {encrypted} objects are encrypted with, the certificate \
             authorities, and the service account keys; to include them give --passphrase-file \
             or --key-file, otherwise keep a copy of the folder pki"
        );
    }
    Ok(())
}

async fn write(part: &Path, place: &StorePlace, secret: Option<&Secret>) -> Result<()> {
    let file =
        File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(part);
    let mut file = file.with_context(|| format!("cannot create {}", part.display()))?;
    if place.endpoints.is_empty() {
        let layout = place.cluster.layout()?;
        let folder = layout.path("store");
        match fs::read_dir(&folder).map_err(|error| error.kind()) {
            Ok(_) => {}
            Err(ErrorKind::PermissionDenied) => {
                bail!("only root may read the store in {}: run this as root", folder.display())
            }
            Err(_) => bail!("there is no store in {}", folder.display()),
        }
        let beside = keys::collect(layout.dir(), secret)?;
        archive::save_beside(&Directory::open(&folder)?, SystemClock.now(), &beside, &mut file)?;
    } else {
        ensure!(
            secret.is_none(),
            "the keys of a cluster are not in its etcd: save them where it runs"
        );
        store::etcd::save(&place.remote()?, &mut file).await?;
    }
    Ok(())
}

/// Saves at intervals until it is stopped, and deletes the oldest files.
async fn save_periodically(
    folder: &Path,
    (place, secret): (&StorePlace, Option<&Secret>),
    every: &str,
    keep: usize,
) -> Result<()> {
    let every = duration(every, "--every")?;
    ensure!(!every.is_zero() && keep > 0, "--every and --keep must be more than 0");
    fs::create_dir_all(folder)?;
    let mut stop = std::pin::pin!(wait_for_shutdown_signal());
    loop {
        let name = format!("snapshot-{}.db", Time::format(SystemClock.now()).replace(':', ""));
        if let Err(error) = save(&folder.join(name), place, secret).await {
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
    all.sort_unstable(); // by time: timestamps have a fixed number of digits
    let old = all.len().saturating_sub(keep);
    for path in &all[..old] {
        fs::remove_file(path)?;
        info!(file = %path.display(), "removed");
    }
    Ok(())
}

async fn restore(
    from: &Path,
    place: &StorePlace,
    secret: Option<&Secret>,
    in_place: bool,
) -> Result<()> {
    let archive = EtcdSnapshot::read(from)?;
    if !place.endpoints.is_empty() {
        ensure!(secret.is_none(), "keys are restored to a data folder, not to an etcd");
        let count = store::etcd::restore(&archive, &place.remote()?).await?;
        println!("{count} keys restored");
        return Ok(());
    }
    let layout = place.cluster.layout()?;
    let data = layout.dir();
    ensure!(
        !up::is_running(&layout),
        "a cluster runs on {}: end it with `tiphys down` first",
        data.display()
    );
    let stamp = Time::format(SystemClock.now()).replace(':', "");
    let folder = layout.path("store");
    let is_used = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    ensure!(
        in_place || !is_used,
        "{} holds a store already: give --in-place to put this one in its place",
        folder.display()
    );
    let keys = keys::Keys::choose(&archive, secret, data)?;
    layout.make_folder()?;
    let kept = layout.path(&format!("store.before-{stamp}"));
    if is_used {
        fs::rename(&folder, &kept).with_context(|| format!("cannot make {}", kept.display()))?;
    }
    let restored = || -> Result<u64> {
        let disk = Directory::open(&folder)
            .with_context(|| format!("cannot open {}", folder.display()))?;
        Ok(archive.restore(&disk, SystemClock.now())?)
    };
    let revision = match restored() {
        Ok(revision) => revision,
        Err(error) if is_used => {
            let _ = fs::remove_dir_all(&folder);
            fs::rename(&kept, &folder)?; // restores the previous state
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    println!(
        "{} keys restored into {}; the next revision follows {revision}",
        archive.keys(),
        folder.display()
    );
    if is_used {
        println!("the previous store is kept in {}", kept.display());
    }
    if let Some(keys) = keys {
        let aside = keys.write(data, &stamp)?;
        println!("the keys of the cluster were restored into {}", layout.path("pki").display());
        if let Some(aside) = aside {
            println!("the previous keys are kept in {}", aside.display());
        }
    }
    keys::note_settings(&archive, data)
}

fn status(of: &Path) -> Result<()> {
    let archive = EtcdSnapshot::read(of)?;
    let EtcdSnapshot { revision, versions, size, .. } = archive;
    println!("revision {revision}\nversions {versions}\nkeys {}\nsize {size}", archive.keys());
    println!("keys of the cluster: {}", keys::describe(&archive));
    Ok(())
}

impl StorePlace {
    fn remote(&self) -> Result<EtcdConfig> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let pair = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(CertKeyPair::from_pem(&read(certificate)?, &read(key)?)?)
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
        Ok(EtcdConfig { endpoints: self.endpoints.clone(), tls, ..EtcdConfig::default() })
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
        let disk = Arc::new(Directory::open(data.join("store")).unwrap());
        store::DiskLog::open(disk, Arc::new(SystemClock), store::DiskLogOptions::default())
            .unwrap();
        let place = StorePlace {
            cluster: up::Place::at(&data),
            endpoints: vec![],
            cacert: None,
            cert: None,
            key: None,
        };
        for hour in 1..=4 {
            let name = format!("snapshot-2026-01-01T0{hour}0000Z.db");
            save(&saved.join(name), &place, None).await.unwrap();
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
        assert!(EtcdSnapshot::read(&saved.join(kept[1])).is_ok(), "it can be restored");
        let again = save(&saved.join(kept[1]), &place, None).await.unwrap_err();
        assert!(again.to_string().contains("already"), "{again}");
    }
}
