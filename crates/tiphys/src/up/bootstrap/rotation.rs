//! Renews the client certificate of a node that has joined by token, before it expires.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use client::Client;
use object::{Clock as _, SystemClock, wait_seconds};
use pki::{CertificateIdentity, Dir};
use runtime::{Backoff, Context};
use tracing::{info, warn};

use super::request::kubelet_certificate;
use crate::up::DataDir;

/// Path below the data directory of the kubelet's client certificate and key, in one file, under the name that kubelets
/// use.
pub(in crate::up) const CERTIFICATE: &str = "pki/kubelet-client-current.pem";
const FILE: &str = "kubelet-client-current.pem";
/// How long to wait for a signature before the next request.
const PATIENCE: Duration = Duration::from_mins(15);
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LAST_RETRY: Duration = Duration::from_mins(10);

/// Renews the certificate for as long as `cx` runs. `clients` use the new one as soon as it is there.
pub(in crate::up) fn keep_renewed(
    cx: &Context,
    layout: &DataDir,
    node: &str,
    clients: Vec<Client>,
) {
    let (folder, node) = (layout.path("pki"), node.to_owned());
    if !folder.join(FILE).exists() {
        return; // a certificate that was handed over; it is not renewed by the cluster
    }
    cx.spawn("client-certificate", async move {
        let mut delays = Backoff::new(FIRST_RETRY, LAST_RETRY);
        loop {
            match renew(&folder, &node, &clients).await {
                Ok(()) => delays.reset(),
                Err(error) => {
                    warn!("the client certificate cannot be renewed: {error:#}");
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    });
}

/// Waits until the certificate is due, and replaces it.
async fn renew(folder: &Path, node: &str, clients: &[Client]) -> Result<()> {
    let dir = Dir::open(folder)?;
    let current = dir.read(FILE)?.context("the certificate is gone")?;
    let leaf = pki::certificates(&current)?.into_iter().next().context("no certificate")?;
    let due = CertificateIdentity::of(&leaf)?.renew_at();
    let now = SystemClock.now();
    if due > now {
        tokio::time::sleep(wait_seconds(due - now)).await;
        return Ok(()); // the clock may have been set meanwhile
    }
    let client = clients.first().context("no client")?;
    let renewed = kubelet_certificate(client, node, PATIENCE).await?;
    dir.replace(FILE, renewed.as_bytes(), 0o600)?;
    for client in clients {
        client.reconnect().await;
    }
    info!("the client certificate was renewed");
    Ok(())
}
