//! State shared by the etcd services: identity and limits.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ring::digest::{SHA256, digest};

use super::member::Member;
use crate::wire::{pb, to_i64};

/// How this member describes itself to clients, as set by etcd's flags.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    /// Advertised, but not listened on.
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    /// Distinguishes clusters with the same members.
    pub token: String,
}

/// Limits of requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of a request in bytes.
    pub request_bytes: usize,
    /// Maximum number of operations in a transaction.
    pub operations: usize,
    /// Interval of progress notifications for idle watches that request them.
    pub progress: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_bytes: 1_572_864, operations: 128, progress: Duration::from_mins(10) }
    }
}

/// etcd's services on one member.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) member: Arc<Member>,
    pub(super) identity: Arc<Identity>,
    pub(super) limits: Limits,
    /// The directory for temporary snapshot files.
    pub(super) scratch: Arc<PathBuf>,
    cluster_id: u64,
    pub(super) member_id: u64,
}

impl Service {
    pub(super) fn new(
        member: Arc<Member>,
        identity: Identity,
        limits: Limits,
        scratch: PathBuf,
    ) -> Self {
        let Identity { name, token, peer_urls, .. } = &identity;
        let cluster_id = hash(&[token.as_str(), name.as_str()]);
        let parts: Vec<_> = peer_urls.iter().chain([name]).map(String::as_str).collect();
        let member_id = hash(&parts);
        let (identity, scratch) = (Arc::new(identity), Arc::new(scratch));
        Self { member, identity, limits, scratch, cluster_id, member_id }
    }

    /// A response header for a revision.
    #[expect(clippy::unnecessary_wraps, reason = "answers have it as an option")]
    pub(super) fn header_at(&self, revision: u64) -> Option<pb::ResponseHeader> {
        let Self { cluster_id, member_id, .. } = *self;
        let (revision, raft_term) = (to_i64(revision), 2);
        Some(pb::ResponseHeader { cluster_id, member_id, revision, raft_term })
    }

    /// A response header for the current revision.
    pub(super) fn header(&self) -> Option<pb::ResponseHeader> {
        self.header_at(self.member.read(|state| state.durable))
    }

    pub(super) fn description(&self) -> pb::Member {
        let Identity { name, peer_urls, client_urls, .. } = &*self.identity;
        pb::Member {
            id: self.member_id,
            name: name.clone(),
            peer_ur_ls: peer_urls.clone(),
            client_ur_ls: client_urls.clone(),
            is_learner: false,
        }
    }
}

fn hash(parts: &[&str]) -> u64 {
    let digest = digest(&SHA256, parts.join("\n").as_bytes());
    u64::from_be_bytes(digest.as_ref()[..8].try_into().expect("eight of 32")).max(1)
}
