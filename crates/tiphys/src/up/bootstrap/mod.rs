//! Joining by bootstrap token, by kubeadm's protocol: a host that knows a token and the hash of the cluster's CA reads
//! the signed ConfigMap `cluster-info`, requests a client certificate for its kubelet, and renews it before it expires.

mod discovery;
mod join;
mod objects;
mod request;
mod rotation;
mod token;

pub(super) use self::{
    join::{Membership, membership},
    rotation::{CERTIFICATE, keep_renewed},
};
pub(crate) use self::{
    objects::{apply, grant_node_rights},
    token::{BootstrapToken, NAME_PREFIX, TYPE},
};
