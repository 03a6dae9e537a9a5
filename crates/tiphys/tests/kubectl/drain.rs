//! `drain`: pods are evicted in parallel, and a pod that a PodDisruptionBudget protects does not delay the others.

use std::time::Instant;

use crate::{
    cluster::{Cluster, code, stderr, stdout},
    image,
};

/// Two applications, one of which has a PodDisruptionBudget that protects its only pod.
const OBJECTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, drained: yes-please}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: IMAGE, imagePullPolicy: Never, command: [sleep, '100000']}]
";
const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held}
spec: {minAvailable: 1, selector: {matchLabels: {app: a-held}}}
";

pub(crate) fn all(cluster: &Cluster) {
    let world = cluster.world();
    for name in ["a-held", "free-1", "free-2"] {
        cluster.create(&OBJECTS.replace("NAME", name).replace("IMAGE", image::SHELL));
        world.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=120s"]);
    }
    let drain = ["drain", "n1", "--pod-selector=drained=yes-please"];
    let out = cluster.kubectl(&[&drain[..], &["--dry-run=server"]].concat());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).ends_with("node/n1 drained (server dry run)\n"), "{}", stdout(&out));

    cluster.create(BUDGET);
    let allowed = ["get", "pdb", "held", "-o", "jsonpath={.status.currentHealthy}"];
    world.until("the budget knows its pod", || world.try_kubectl(&allowed) == "1");

    let began = Instant::now();
    let out = cluster.kubectl(&[&drain[..], &["--timeout=7s"]].concat());
    let took = began.elapsed();
    let (said, wrong) = (stdout(&out), stderr(&out));
    assert_eq!(code(&out), 1, "{said}{wrong}");
    for free in ["free-1", "free-2"] {
        assert!(said.contains(&format!("evicting pod default/{free}-")), "{said}");
    }
    assert!(wrong.contains("(will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget."), "{wrong}");
    assert!(wrong.contains("global timeout reached: 7s"), "{wrong}");
    assert!(
        wrong.contains("There are pending pods in node \"n1\" when an error occurred"),
        "{wrong}"
    );
    assert!(wrong.contains("There are pending nodes to be drained:\n n1\n"), "{wrong}");
    assert!(took.as_secs() >= 7, "{took:?}");

    let free = [
        "get",
        "pods",
        "-l",
        "app in (free-1, free-2)",
        "-o",
        "jsonpath={.items[*].spec.nodeName}",
    ];
    world.until("the others have gone", || world.try_kubectl(&free).is_empty());

    // `--disable-eviction` ignores the budget
    let out = cluster.kubectl(&[&drain[..], &["--disable-eviction", "--timeout=2m"]].concat());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains(" deleted\n"), "{}", stdout(&out));
    world.kubectl(&["uncordon", "n1"]);
    world.kubectl(&["delete", "deployment", "a-held", "free-1", "free-2"]);
    world.kubectl(&["delete", "pdb", "held"]);
}
