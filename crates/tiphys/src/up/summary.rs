//! The summary that `tiphys status` prints: the API server, nodes, pods, certificates, store, disk, memory,
//! and ports that differ from upstream's.

use std::{fs, path::Path, time::Duration};

use api::core::{Node, Pod};
use client::{Api, Client, Kubeconfig, ListParams, Selectors};
use object::{Clock as _, SystemClock};
use tokio::time::timeout;

use super::{
    ClusterConfig, DataDir,
    finish_startup::ADMIN_CONTEXT,
    join::MEMBERSHIP,
    membership,
    ports::{KUBELET, Ports},
};
use crate::commands::human_size;

/// Timeout of the requests to the API server.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum number of pods that are listed by name.
const NAMED: usize = 5;
const DAY: i64 = 86_400;

/// The summary of a cluster.
pub(super) struct Glance {
    /// Pairs of a title and a text.
    pub(super) lines: Vec<(&'static str, String)>,
    /// Whether the API server responds.
    pub(super) answers: bool,
}

/// Collects the summary.
pub(super) async fn look(layout: &DataDir, settings: &ClusterConfig) -> Glance {
    let mut lines = Vec::new();
    let report = match client(layout, settings) {
        Some((client, url)) => {
            timeout(LONGEST, query_cluster(&client, &url, settings)).await.ok().flatten()
        }
        None => None,
    };
    let answers = report.is_some();
    match report {
        Some(found) => lines.extend(found),
        None => lines.push(("API server", "does not respond".to_owned())),
    }
    lines.extend(certificates(layout, settings));
    if !settings.is_joined() && settings.etcd.is_empty() {
        lines.push(("store", human_size(size(&layout.path("store")))));
    }
    if let Ok(disk) = rustix::fs::statvfs(layout.dir()) {
        let [free, all] = [disk.f_bavail, disk.f_blocks].map(|n| human_size(n * disk.f_frsize));
        lines.push(("disk", format!("{free} free of {all}")));
    }
    let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let (Some(free), Some(all)) = (meminfo(&table, "MemAvailable"), meminfo(&table, "MemTotal"))
    {
        lines.push(("memory", format!("{} available of {}", human_size(free), human_size(all))));
    }
    let different = Ports::load(layout).map(Ports::different).unwrap_or_default();
    for (component, own, usual) in different.into_iter().filter(|_| !settings.is_joined()) {
        lines.push(("port", format!("{component} serves on {own}: {usual} was taken")));
    }
    Glance { lines, answers }
}

/// A client of the administrator, or of the kubelet on a joined node, and the URL of the API server.
fn client(layout: &DataDir, settings: &ClusterConfig) -> Option<(Client, String)> {
    if settings.is_joined() {
        let path = layout.path(MEMBERSHIP);
        let tree = object::yaml::from_yaml(&fs::read_to_string(&path).ok()?).ok()?;
        let url = tree["clusters"].items().first()?["cluster"]["server"].as_str()?.to_owned();
        return Some((membership::client(&path, membership::KUBELET).ok()?, url));
    }
    let kubeconfig = Kubeconfig::read(&layout.path("kubeconfig/admin")).ok()?;
    let client = Client::new(kubeconfig.config(Some(ADMIN_CONTEXT)).ok()?.user_agent("tiphys"));
    let address = std::net::SocketAddr::new(settings.node_ip, settings.port);
    Some((client, format!("https://{address}")))
}

async fn query_cluster(
    client: &Client,
    url: &str,
    settings: &ClusterConfig,
) -> Option<Vec<(&'static str, String)>> {
    let version = client.call(http::Method::GET, "/version", "", bytes::Bytes::new()).await.ok()?;
    let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    let mut lines = vec![("API server", format!("{url}, Kubernetes {version}"))];
    if settings.is_joined() {
        return Some(lines); // a node may read little more than its own objects
    }
    let all = Selectors::default();
    let nodes = Api::<Node>::new(client).list(&all, &ListParams::default()).await.ok()?.items;
    let ready: Vec<(String, bool)> =
        nodes.iter().map(|node| (node.metadata().name().to_owned(), is_ready(node))).collect();
    lines.push(("nodes", describe_nodes(&ready)));
    let pods = Api::<Pod>::new(client).list(&all, &ListParams::default()).await.ok()?.items;
    let states = pods.iter().map(|pod| {
        let meta = pod.metadata();
        (format!("{}/{}", meta.namespace(), meta.name()), trouble(pod))
    });
    lines.push(("pods", describe_pods(&states.collect::<Vec<_>>())));
    let own = nodes.iter().find(|node| node.metadata().name() == settings.node_name);
    let port = own.map(|node| node.status().daemon_endpoints().kubelet_endpoint().port());
    if let Some(port) = port.filter(|port| *port != i32::from(KUBELET) && *port != 0) {
        lines.push(("port", format!("kubelet serves on {port}, not on {KUBELET}")));
    }
    Some(lines)
}

fn is_ready(node: &Node) -> bool {
    let condition = node.status().conditions().find(|own| own.type_() == "Ready");
    condition.is_some_and(|condition| condition.status() == "True")
}

/// The reason why a pod is not healthy, as in the STATUS column of `kubectl get pods`.
fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status();
    if status.phase() == "Succeeded" {
        return None;
    }
    let waiting = status.container_statuses();
    let waiting = waiting.iter().find_map(|one| Some(one.state().waiting()?.reason().to_owned()));
    if let Some(reason) = waiting.filter(|reason| !reason.is_empty()) {
        return Some(reason);
    }
    if status.phase() != "Running" {
        return Some(status.phase().to_owned());
    }
    if status.condition("Ready").is_none_or(|ready| ready.status() == "True") {
        return None;
    }
    let ended = status.container_statuses();
    let ended = ended.iter().find_map(|one| Some(one.state().terminated()?.reason().to_owned()));
    Some(ended.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "NotReady".to_owned()))
}

fn describe_nodes(nodes: &[(String, bool)]) -> String {
    let not: Vec<&str> =
        nodes.iter().filter(|(_, ready)| !ready).map(|(name, _)| name.as_str()).collect();
    match not.is_empty() {
        true => format!("{}, all ready", nodes.len()),
        false => format!("{}, not ready: {}", nodes.len(), not.join(", ")),
    }
}

fn describe_pods(pods: &[(String, Option<String>)]) -> String {
    let not = pods.iter().filter_map(|(name, trouble)| {
        let trouble = trouble.as_ref()?;
        Some(format!("{name} ({trouble})"))
    });
    let not: Vec<String> = not.collect();
    if not.is_empty() {
        return format!("{}, all running or completed", pods.len());
    }
    let more = not.len().saturating_sub(NAMED);
    let named = not[..not.len().min(NAMED)].join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}, {} not ready: {named}{more}", pods.len(), not.len())
}

/// The number of days until the certificates expire.
fn certificates(layout: &DataDir, settings: &ClusterConfig) -> Option<(&'static str, String)> {
    let names: &[(&str, &str)] = match settings.is_joined() {
        true => &[("kubelet.crt", "kubelet")],
        false => &[("apiserver.crt", "API server"), ("ca.crt", "authority")],
    };
    let days = |(file, name): &(&str, &str)| {
        let pem = fs::read(layout.path("pki").join(file)).ok()?;
        let certificate = pki::certificates(&pem).ok()?.into_iter().next()?;
        let end = pki::CertificateIdentity::of(&certificate).ok()?.not_after;
        Some(format!("{name} {} days left", (end - SystemClock.now()) / DAY))
    };
    let all: Vec<String> = names.iter().filter_map(days).collect();
    (!all.is_empty()).then(|| ("certificates", all.join(", ")))
}

/// Total size in bytes of the files in a directory.
fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

fn meminfo(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_is_named() {
        let node = |name: &str, ready| (name.to_owned(), ready);
        assert_eq!(describe_nodes(&[node("a", true)]), "1, all ready");
        assert_eq!(describe_nodes(&[node("a", true), node("b", false)]), "2, not ready: b");
        let pod =
            |n: usize, trouble: Option<&str>| (format!("ns/p{n}"), trouble.map(str::to_owned));
        assert_eq!(describe_pods(&[pod(1, None)]), "1, all running or completed");
        let many: Vec<_> = (1..=7).map(|n| pod(n, Some("Pending"))).collect();
        let text = describe_pods(&many);
        assert!(text.starts_with("7, 7 not ready: ns/p1 (Pending), "), "{text}");
        assert!(text.ends_with("ns/p5 (Pending) and 2 more"), "{text}");
    }

    #[test]
    fn the_words_are_those_of_kubectl() {
        let pod = |json: &str| Pod::from(object::from_json(json.as_bytes()).unwrap());
        let waiting = r#"{"status":{"phase":"Running","containerStatuses":
            [{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}"#;
        assert_eq!(trouble(&pod(waiting)).as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(trouble(&pod(r#"{"status":{"phase":"Pending"}}"#)).as_deref(), Some("Pending"));
        assert_eq!(trouble(&pod(r#"{"status":{"phase":"Running"}}"#)), None);
        assert_eq!(trouble(&pod(r#"{"status":{"phase":"Succeeded"}}"#)), None);
        let unready = |containers: &str| {
            let conditions = r#""conditions":[{"type":"Ready","status":"False"}]"#;
            let status =
                format!(r#"{{"phase":"Running",{conditions},"containerStatuses":{containers}}}"#);
            trouble(&pod(&format!(r#"{{"status":{status}}}"#)))
        };
        let ended = r#"[{"state":{"terminated":{"reason":"Error"}}}]"#;
        assert_eq!(unready(ended).as_deref(), Some("Error"));
        assert_eq!(unready(r#"[{"state":{"running":{}}}]"#).as_deref(), Some("NotReady"));
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let table = "MemTotal:       2048 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(meminfo(table, "MemAvailable"), Some(1 << 20));
        assert_eq!(meminfo(table, "SwapTotal"), None);
    }
}
