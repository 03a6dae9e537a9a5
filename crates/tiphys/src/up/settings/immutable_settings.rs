//! Validation of changed settings: which settings of a cluster that has run are immutable, why, and what to do
//! instead.

use anyhow::{Result, bail};

use super::ClusterConfig;

/// Fails with the first changed setting that stored objects depend on.
pub(crate) fn refuse_change(applied: &ClusterConfig, wanted: &ClusterConfig) -> Result<()> {
    let (from, to) = (&applied.node_name, &wanted.node_name);
    if from != to {
        bail!(
            "--node-name {to}: this machine is the node {from}, and its pods are bound to that \
             name; to rename it, save a snapshot, start a cluster with another --data-dir or \
             --name, and restore it there"
        );
    }
    let (from, to) = (&applied.cluster_cidr, &wanted.cluster_cidr);
    if from != to {
        bail!(
            "--cluster-cidr {to}: nodes and pods have addresses of {from}; to change it, save a \
             snapshot, run `tiphys down --wipe`, restore the snapshot and start with the new range"
        );
    }
    let (from, to) = (&applied.service_cidr, &wanted.service_cidr);
    if from != to {
        bail!(
            "--service-cluster-ip-range {to}: services have addresses of {from}; to have more, \
             create a ServiceCIDR with a further range"
        );
    }
    let place = |settings: &ClusterConfig| match settings.etcd.is_empty() {
        true => "the embedded store",
        false => "etcd",
    };
    if applied.etcd.is_empty() != wanted.etcd.is_empty() {
        let (from, to) = (place(applied), place(wanted));
        bail!(
            "--etcd-servers: the objects are in {from} and do not move to {to} by themselves; save \
             them with `tiphys snapshot save`, and restore them into a cluster that has {to}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::tests::settings, *};

    #[test]
    fn what_objects_depend_on_is_refused_with_the_way() {
        type Case = (&'static str, fn(&mut ClusterConfig));
        let from = settings();
        let cases: [Case; 4] = [
            ("--node-name m: this machine is the node n", |new| new.node_name = "m".into()),
            ("nodes and pods have addresses of 10.244.0.0/16", |new| {
                new.cluster_cidr = "10.1.0.0/16".into();
            }),
            ("create a ServiceCIDR", |new| new.service_cidr = "10.2.0.0/16".into()),
            ("the objects are in etcd and do not move to the embedded store", |new| {
                new.etcd.clear();
            }),
        ];
        for (expected, change) in cases {
            let mut to = from.clone();
            change(&mut to);
            let error = refuse_change(&from, &to).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn all_else_may_change() {
        let mut to = settings();
        (to.port, to.node_ports) = (7443, "20000-20100".into());
        to.etcd = vec!["http://192.0.2.9:2379".into()];
        to.disable.clear();
        to.args.kubelet.clear();
        refuse_change(&settings(), &to).unwrap();
    }
}
