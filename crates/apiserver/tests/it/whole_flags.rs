//! Flags about the server as a whole.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU8, Ordering},
};

use api::core::{Endpoints, Event, Node, Pod, Service};
use apiserver::{ABSENT_FLAGS, Config, Flags};
use bytes::Bytes;
use client::{Client, Patch};
use http::{HeaderMap, Method};
use object::{Clock, NamespacedName, SystemClock, Value};
use testkit::TestCluster;

use crate::{
    backend::Backend,
    code,
    connections::with_kubelet,
    default_account,
    flags::{get, refused, with},
    of, pod, tree,
};

#[tokio::test]
async fn default_tolerations() {
    let cluster = with(|flags| {
        flags.general.default_not_ready_toleration_seconds = 7;
        flags.general.default_unreachable_toleration_seconds = 8;
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let made = of::<Pod>(&admin).create(pod("p", "")).await.unwrap();
    let seconds: Vec<_> = made["spec"]["tolerations"]
        .items()
        .iter()
        .map(|own| (own["key"].as_str().unwrap(), own["tolerationSeconds"].as_i64().unwrap()))
        .collect();
    let expected = [("node.kubernetes.io/not-ready", 7), ("node.kubernetes.io/unreachable", 8)];
    assert_eq!(seconds, expected);
}

/// A clock that can be moved forward.
#[derive(Debug, Default)]
struct Ahead(Mutex<i64>);

impl Clock for Ahead {
    fn now(&self) -> i64 {
        SystemClock.now() + *self.0.lock().unwrap()
    }
}

#[tokio::test]
async fn event_ttl() {
    let event = r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default",
        "name":"p"},"reason":"r","message":"m"}"#;
    for (ttl, there) in [("10m", false), ("10h", true)] {
        let clock = Arc::new(Ahead::default());
        let cluster = TestCluster::start_with_flags(clock.clone(), |flags| {
            flags.general.event_ttl = ttl.to_owned();
        })
        .await;
        let events = of::<Event>(&cluster.admin_client());
        events.create(tree(event)).await.unwrap();
        *clock.0.lock().unwrap() = 3600;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
        let key = NamespacedName::new("default", "e");
        // An expired event is deleted after a while; an unexpired one is not.
        while !there && events.get(&key).await.is_ok() && std::time::Instant::now() < until {
            events.create(tree(&event.replace("\"e\"", "\"other\""))).await.ok();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(events.get(&key).await.is_ok(), there, "{ttl}");
    }
}

#[tokio::test]
async fn the_kubernetes_service_and_its_endpoints() {
    let cluster = with(|flags| {
        flags.general.endpoint_reconciler_type = "none".to_owned();
        flags.general.kubernetes_service_node_port = 30_443;
    })
    .await;
    let admin = cluster.admin_client();
    let key = NamespacedName::new("default", "kubernetes");
    assert_eq!(code(of::<Endpoints>(&admin).get(&key).await), 404);
    let service = of::<Service>(&admin).get(&key).await.unwrap();
    assert_eq!(service["spec"]["type"].as_str(), Some("NodePort"));
    assert_eq!(service["spec"]["ports"].items()[0]["nodePort"].as_i64(), Some(30_443));
    let outside = refused(|flags| flags.general.kubernetes_service_node_port = 9);
    assert!(outside.contains("doesn't contain 9"), "{outside}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_kubelets_are_called() {
    let kubelet = Backend::start(|_, _| tree(r#"{"fine":true}"#)).await;
    let cluster = with(|flags| {
        flags.general.kubelet_preferred_address_types = vec!["ExternalIP".to_owned()];
        flags.general.kubelet_timeout = "20s".to_owned();
    })
    .await;
    with_kubelet(&kubelet, &cluster).await;
    let admin = cluster.admin_client();
    let log = "/api/v1/namespaces/default/pods/p/log";
    let (code, said) = get(&admin, log).await;
    assert_eq!(code, 500, "the node has no such address: {said:?}");
    let key = NamespacedName::new("", "n1");
    let node = of::<Node>(&admin).get(&key).await.unwrap();
    let inner = node["status"]["addresses"].items()[0]["address"].as_str().unwrap().to_owned();
    let patch: Value = tree(&format!(
        r#"{{"status":{{"addresses":[{{"type":"ExternalIP","address":"{inner}"}},
        {{"type":"InternalIP","address":"192.0.2.1"}}]}}}}"#
    ));
    of::<Node>(&admin).patch_status(&key, &Patch::Merge(patch)).await.unwrap();
    assert_eq!(get(&admin, log).await.0, 200);
    let odd = refused(|flags| {
        flags.general.kubelet_preferred_address_types = vec!["Street".to_owned()];
    });
    assert!(odd.contains("Street"), "{odd}");
}

#[test]
fn what_cannot_be_turned_off_or_on_is_refused() {
    let off = refused(|flags| flags.general.watch_cache = false);
    assert!(off.contains("--watch-cache=false"), "{off}");
    let off = refused(|flags| flags.general.enable_aggregator_routing = false);
    assert!(off.contains("--enable-aggregator-routing=false"), "{off}");
    let off = refused(|flags| flags.general.enable_garbage_collector = false);
    assert!(off.contains("--enable-garbage-collector=false"), "{off}");
    let on = refused(|flags| flags.general.contention_profiling = true);
    assert!(on.contains("--contention-profiling"), "{on}");
}

#[test]
fn what_is_logged() {
    let logging = |change: &dyn Fn(&mut Flags)| {
        let mut flags = Flags::new(std::path::Path::new("/nowhere"));
        change(&mut flags);
        Config::new(flags).and_then(|config| config.logging())
    };
    let usual = logging(&|_| {}).unwrap();
    assert_eq!((usual.json, usual.level, usual.split, usual.buffer), (false, 0, false, 0));
    let json = logging(&|flags| {
        flags.logs.v = 5;
        flags.logs.logging_format = "json".to_owned();
        flags.logs.log_flush_frequency = "1s".to_owned();
        flags.logs.log_json_split_stream = true;
        flags.logs.log_json_info_buffer_size = "2Ki".to_owned();
        flags.feature_gates = vec!["LoggingAlphaOptions=true".to_owned()];
    });
    let json = json.unwrap();
    assert_eq!((json.json, json.level, json.split, json.buffer), (true, 5, true, 2048));
    assert_eq!(json.flush.as_secs(), 1);
    let text = logging(&|flags| {
        flags.logs.vmodule = vec!["reg*=6".to_owned()];
        flags.logs.log_text_split_stream = true;
        flags.logs.log_text_info_buffer_size = "512".to_owned();
        flags.feature_gates = vec!["LoggingAlphaOptions=true".to_owned()];
    });
    let text = text.unwrap();
    assert_eq!((text.split, text.buffer), (true, 512));
    assert_eq!(text.modules, [("reg*".to_owned(), 6)]);
    let said = refused(|flags| flags.logs.logging_format = "xml".to_owned());
    assert_eq!(said, "format: Invalid value: \"xml\": Unsupported log format");
    let said = refused(|flags| {
        flags.logs.logging_format = "json".to_owned();
        flags.logs.log_json_split_stream = true;
        flags.logs.vmodule = vec!["a=3".to_owned()];
    });
    assert_eq!(
        said,
        "[vmodule: Forbidden: Only supported for text log format, options.json.splitStream: \
         Forbidden: Feature LoggingAlphaOptions is disabled]"
    );
}

#[tokio::test]
async fn the_version_that_is_told() {
    let cluster = with(|flags| flags.general.version = "v1.37.1-ours.1".to_owned()).await;
    let (_, told) = get(&cluster.admin_client(), "/version").await;
    assert_eq!(told["gitVersion"].as_str(), Some("v1.37.1-ours.1"));
    let said = refused(|flags| flags.general.version = "v1.36.0".to_owned());
    assert!(said.contains("--version"), "{said}");
    assert_eq!(parsed("--version").general.version, "true");
    assert_eq!(parsed("--version=raw").general.version, "raw");
}

#[tokio::test]
async fn an_older_release_is_emulated() {
    let new = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    let usual = with(|_| {}).await;
    assert_eq!(get(&usual.admin_client(), new).await.0, 200);
    let cluster = with(|flags| {
        flags.general.emulated_version = vec!["kube=1.35".to_owned()];
        flags.general.min_compatibility_version = vec!["1.34".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    let (_, told) = get(&admin, "/version").await;
    assert_eq!(told["emulationMinor"].as_str(), Some("35"));
    assert_eq!(told["minCompatibilityMinor"].as_str(), Some("34"));
    assert_eq!((get(&admin, new).await.0, get(&admin, policies).await.0), (404, 404));
    of::<api::core::ConfigMap>(&admin).create(crate::config_map("a")).await.unwrap();
    let ahead = with(|flags| {
        flags.general.emulated_version = vec!["1.35".to_owned()];
        flags.runtime_config = vec!["admissionregistration.k8s.io/v1beta1=true".to_owned()];
        flags.general.emulation_forward_compatible = true;
    })
    .await;
    assert_eq!(get(&ahead.admin_client(), policies).await.0, 200, "a newer version of the same");
    let asked = |flags: &mut Flags| {
        flags.general.emulated_version = vec!["1.35".to_owned()];
        flags.runtime_config = vec!["storagemigration.k8s.io/v1=true".to_owned()];
    };
    let said = refused(asked);
    assert!(
        said.contains("because it is introduced at 1.37 after the current version 1.35"),
        "{said}"
    );
    let named = with(|flags| {
        asked(flags);
        flags.feature_gates = vec!["StorageVersionMigrator=true".to_owned()];
        flags.general.runtime_config_emulation_forward_compatible = true;
    })
    .await;
    let path = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
    assert_eq!(get(&named.admin_client(), path).await.0, 200);
    let said = refused(|flags| flags.general.emulation_forward_compatible = true);
    assert!(said.contains("--emulation-forward-compatible"), "{said}");
}

#[tokio::test]
async fn logs_of_the_machine() {
    let usual = with(|_| {}).await;
    assert_eq!(get(&usual.admin_client(), "/logs/").await.0, 404);
    let cluster = with(|flags| flags.general.enable_logs_handler = true).await;
    let shown = text_of(&cluster.admin_client(), "/logs/").await;
    assert!(shown.starts_with("<!doctype html>\n"), "{shown}");
    assert_eq!(get(&cluster.client_as("bob", &[]), "/logs/").await.0, 403);
}

#[tokio::test]
async fn metrics_that_are_restricted() {
    let folder = tempfile::TempDir::new().unwrap();
    let manifest = folder.path().join("labels.yaml");
    let text = "allowListMapping:\n  \"apiserver_request_total,resource\": \"nothing\"\n  \
                \"apiserver_request_duration_seconds,verb\": \"LIST\"\n";
    std::fs::write(&manifest, text).unwrap();
    let cluster = with(|flags| {
        flags.metrics.allow_metric_labels =
            vec!["apiserver_request_total,resource=pods".to_owned()];
        flags.metrics.allow_metric_labels_manifest = Some(manifest);
        flags.storage.etcd_count_metric_poll_period = "0".to_owned();
    })
    .await;
    let admin = cluster.admin_client();
    for resource in ["pods", "configmaps"] {
        get(&admin, &format!("/api/v1/{resource}")).await;
    }
    let told = text_of(&admin, "/metrics").await;
    let has = |metric: &str, label: &str| {
        told.lines().any(|line| line.starts_with(metric) && line.contains(label))
    };
    assert!(has("apiserver_request_total{", "resource=\"pods\""), "{told}");
    assert!(!has("apiserver_request_total{", "resource=\"configmaps\""));
    assert!(has("apiserver_request_total{", "resource=\"unexpected\""));
    assert!(has("apiserver_request_duration_seconds_count{", "verb=\"LIST\""));
    assert!(!told.contains("apiserver_resource_objects{"), "they are not counted");
}

#[tokio::test]
async fn what_dashboards_look_at_is_told() {
    let cluster = with(|flags| {
        flags.feature_gates = vec!["GenericWorkload=true".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    get(&admin, "/api/v1/componentstatuses").await;
    let service = r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}"#;
    of::<Service>(&admin).create(tree(service)).await.unwrap();
    let told = text_of(&admin, "/metrics").await;
    for line in [
        "kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"BETA\"} 1",
        "kubernetes_feature_enabled{name=\"CBORServingAndStorage\",stage=\"ALPHA\"} 0",
        "authenticated_user_requests{username=\"",
        "aggregator_unavailable_apiservice{name=\"v1.\"} 0",
        "apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",\
         resource=\"componentstatuses\",subresource=\"\",version=\"v1\"} 1",
        "serviceaccount_valid_tokens_total 0",
        "serviceaccount_legacy_tokens_total 0",
        "process_network_receive_bytes_total ",
        "version_info{binary=\"1.37.1\",component=\"kube\",emulation=\"1.37\",min_compat=\"1.36\"} 1",
        "apiserver_request_filter_duration_seconds_count{filter=\"authorization\"} ",
        "apiserver_request_body_size_bytes_count{group=\"\",resource=\"services\",verb=\"create\"} 1",
        "field_validation_request_duration_seconds_count{field_validation=\"\"} ",
        "kube_apiserver_clusterip_allocator_allocation_total{cidr=\"10.96.0.0/16\",scope=\"dynamic\"} 1",
        "kube_apiserver_clusterip_allocator_allocated_ips{cidr=\"10.96.0.0/16\"} ",
        "kube_apiserver_nodeport_allocator_allocated_ports 1\n",
        "kube_apiserver_nodeport_allocator_available_ports 2767\n",
        "rest_client_transport_cache_entries 0",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
}

#[tokio::test]
async fn collections_are_deleted_by_several_at_once() {
    let cluster = with(|flags| flags.storage.delete_collection_workers = 8).await;
    let maps = of::<api::core::ConfigMap>(&cluster.admin_client());
    for at in 0..20 {
        maps.create(crate::labelled(&format!("m{at}"), "x")).await.unwrap();
    }
    let selected = client::Selectors::labels("app=x");
    maps.delete_collection(&selected, &client::DeleteParams::default()).await.unwrap();
    let left = maps.list(&selected, &client::ListParams::default()).await.unwrap();
    assert!(left.items.is_empty());
    let said = refused(|flags| flags.storage.delete_collection_workers = 0);
    assert!(said.contains("--delete-collection-workers"), "{said}");
    let said = refused(|flags| flags.storage.lease_reuse_duration_seconds = -1);
    assert!(said.contains("--lease-reuse-duration-seconds"), "{said}");
}

/// The flags of a command line with one further flag.
fn parsed(flag: &str) -> Flags {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }
    let line = ["", "--data-dir", "/tmp/none", flag];
    <Line as clap::Parser>::try_parse_from(line).expect("it is known").flags
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for flag in ABSENT_FLAGS {
        let refused = Config::new(parsed(&format!("--{}=other", flag.name))).expect_err("refused");
        let said = format!("--{}=other is not supported: {}", flag.name, flag.why);
        assert_eq!(refused.to_string(), said);
        for allowed in flag.allowed {
            let flags = parsed(&format!("--{}={allowed}", flag.name));
            assert!(Config::new(flags).is_ok(), "{} is so anyway", flag.name);
        }
    }
}

#[tokio::test]
async fn what_changes_little() {
    let cluster = with(|flags| {
        flags.general.disabled_metrics = vec!["apiserver_request_total".to_owned()];
        flags.general.show_hidden_metrics_for_version = "1.36".to_owned();
        flags.general.livez_grace_period = "10s".to_owned();
        flags.general.watch_cache_sizes = vec!["pods#100".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    let text = text_of(&admin, "/metrics").await;
    assert!(!text.contains("apiserver_request_total"), "it is disabled");
    assert!(text.contains("apiserver_request_duration_seconds"));
    let none = refused(|flags| flags.general.watch_cache_sizes = vec!["pods#0".to_owned()]);
    assert!(none.contains("--watch-cache-sizes"), "{none}");
    let late = refused(|flags| flags.general.livez_grace_period = "late".to_owned());
    assert!(late.contains("--livez-grace-period"), "{late}");
}

async fn text_of(client: &Client, path: &str) -> String {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned()
}

#[tokio::test]
async fn a_server_tells_its_flags() {
    let cluster = with(|_| {}).await;
    let admin = cluster.admin_client();
    let text = text_of(&admin, "/flagz").await;
    assert!(text.contains("\nservice-cluster-ip-range: 10.96.0.0/16\n"), "{text}");
    assert!(text.contains("\nfeature-gates: []\n"), "{text}");
    let mut headers = HeaderMap::new();
    let form = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    headers.insert("accept", form.parse().unwrap());
    let answer = admin.request(Method::GET, "/flagz", headers, Bytes::new()).await.unwrap();
    assert_eq!(answer.status, 200);
    let object = object::from_json(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!(object["kind"].as_str(), Some("Flagz"));
    assert_eq!(object["flags"]["event-ttl"].as_str(), Some("1h0m0s"));
}

#[tokio::test]
async fn components_say_how_they_are() {
    let cluster = with(|_| {}).await;
    let admin = cluster.admin_client();
    let (code, list) = get(&admin, "/api/v1/componentstatuses").await;
    assert_eq!((code, list["kind"].as_str()), (200, Some("ComponentStatusList")));
    assert_eq!(list["items"].items().len(), 3);
    let (_, store) = get(&admin, "/api/v1/componentstatuses/etcd-0").await;
    assert_eq!(store["conditions"].items()[0].get("status").as_str(), Some("True"));
    let (code, none) = get(&admin, "/api/v1/componentstatuses/none").await;
    let said = none["message"].as_str();
    assert_eq!((code, said), (404, Some("componentstatus \"none\" not found")));
    let only = "/api/v1/componentstatuses?fieldSelector=metadata.name%3Dscheduler";
    assert_eq!(get(&admin, only).await.1["items"].items().len(), 1);
}

#[tokio::test]
async fn how_much_is_logged_may_change() {
    static LEVEL: AtomicU8 = AtomicU8::new(0);
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let ask = async |method: http::Method, path: &str, body: &'static str| {
        let headers = http::HeaderMap::new();
        let reply = admin.request(method, path, headers, body.into()).await.unwrap();
        let code = reply.status.as_u16();
        (code, String::from_utf8_lossy(&reply.bytes().await.unwrap()).into_owned())
    };
    let path = "/debug/flags/v";
    let (get, put) = (http::Method::GET, http::Method::PUT);
    assert_eq!(ask(put.clone(), path, "4").await.0, 400, "nobody takes it");
    apiserver::register_verbosity_setter(|level| LEVEL.store(level, Ordering::Relaxed));
    let done = (200, "successfully set klog.logging.verbosity to 4\n".to_owned());
    assert_eq!(ask(put.clone(), path, "4").await, done);
    assert_eq!(LEVEL.load(Ordering::Relaxed), 4);
    let wrong = "strconv.ParseUint: parsing \"abc\": invalid syntax\n".to_owned();
    assert_eq!(ask(put, path, "abc").await, (400, wrong));
    assert_eq!(ask(get.clone(), path, "").await, (406, "unsupported http method\n".to_owned()));
    assert!(ask(get, "/debug/flags", "").await.1.contains("<tr>v<br>"));
}

#[tokio::test]
async fn there_are_no_profiles() {
    for (profiling, said) in [(true, "Unknown profile\n"), (false, "404 page not found\n")] {
        let cluster = with(|flags| flags.general.profiling = profiling).await;
        assert_eq!(text_of(&cluster.admin_client(), "/debug/pprof/heap").await, said);
    }
}
