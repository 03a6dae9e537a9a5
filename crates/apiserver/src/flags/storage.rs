//! Flags about storage and etcd.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::config::duration;

#[derive(Args, Clone, Debug)]
pub struct StorageFlags {
    /// How many objects are deleted at once when a collection is.
    #[arg(long, default_value_t = 1)]
    pub delete_collection_workers: usize,
    /// For how many seconds a lease of etcd is given to further keys that expire.
    #[arg(long, default_value_t = 60)]
    pub lease_reuse_duration_seconds: i64,
    /// How old the numbers of objects may be that metrics tell; 0: none are told. They are
    /// counted when somebody asks.
    #[arg(long, default_value = "1m0s")]
    pub etcd_count_metric_poll_period: String,
    /// How often etcd is asked how much it keeps, for metrics; 0: never.
    #[arg(long, default_value = "30s")]
    pub etcd_db_metric_poll_interval: String,
    /// How long etcd may take to answer before this server counts as ill.
    #[arg(long, default_value = "2s")]
    pub etcd_healthcheck_timeout: String,
    /// How long etcd may take to answer before this server counts as not ready.
    #[arg(long, default_value = "2s")]
    pub etcd_readycheck_timeout: String,
    /// How long storage may take to be there at the start.
    #[arg(long, default_value = "1m0s")]
    pub storage_initialization_timeout: String,
}

impl StorageFlags {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.delete_collection_workers >= 1,
            "--delete-collection-workers must be at least 1"
        );
        ensure!(
            self.lease_reuse_duration_seconds >= 0,
            "--lease-reuse-duration-seconds cannot be negative"
        );
        self.health_timeouts()?;
        self.size_poll_interval()?;
        self.initialization_timeout()?;
        self.export_object_counts().map(drop)
    }

    /// Timeouts of the etcd checks of `/livez` and of `/readyz`.
    pub(crate) fn health_timeouts(&self) -> Result<[Duration; 2]> {
        Ok([
            duration(&self.etcd_healthcheck_timeout).context("--etcd-healthcheck-timeout")?,
            duration(&self.etcd_readycheck_timeout).context("--etcd-readycheck-timeout")?,
        ])
    }

    /// Interval at which etcd's database size is queried; `None` means never.
    pub(crate) fn size_poll_interval(&self) -> Result<Option<Duration>> {
        let period = period(&self.etcd_db_metric_poll_interval);
        Ok(Some(period.context("--etcd-db-metric-poll-interval")?).filter(|time| !time.is_zero()))
    }

    pub(crate) fn initialization_timeout(&self) -> Result<Duration> {
        duration(&self.storage_initialization_timeout).context("--storage-initialization-timeout")
    }

    /// Whether metrics report the number of objects.
    pub(crate) fn export_object_counts(&self) -> Result<bool> {
        let period = period(&self.etcd_count_metric_poll_period);
        Ok(!period.context("--etcd-count-metric-poll-period")?.is_zero())
    }
}

fn period(text: &str) -> Result<Duration> {
    if text == "0" { Ok(Duration::ZERO) } else { duration(text) }
}
