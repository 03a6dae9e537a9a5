//! Egress selectors: the server connects through a proxy.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use api::{admissionregistration::ValidatingWebhookConfiguration, core::ConfigMap};
use object::SystemClock;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener},
    task::JoinSet,
};

use crate::{
    backend::Backend,
    config_map,
    flags::{get, refused, with},
    of,
    peers::Etcd,
    webhooks::{hook, review},
};

/// A proxy that accepts CONNECT on a socket, and records the targets.
fn between(path: &Path) -> (Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = UnixListener::bind(path).unwrap();
    let (asked, mut tasks) = (Arc::<Mutex<Vec<String>>>::default(), JoinSet::new());
    let seen = asked.clone();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let seen = seen.clone();
            open.spawn(async move {
                let mut said = Vec::new();
                while !said.ends_with(b"\r\n\r\n") {
                    said.push(near.read_u8().await.unwrap());
                }
                let said = String::from_utf8(said).unwrap();
                let to = said.split(' ').nth(1).unwrap().to_owned();
                seen.lock().unwrap().push(to.clone());
                let mut far = TcpStream::connect(to).await.unwrap();
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (asked, tasks)
}

fn selection(folder: &TempDir, name: &str) -> std::path::PathBuf {
    let file = folder.path().join("egress.yaml");
    let socket = folder.path().join("proxy.sock");
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n\
         egressSelections:\n- name: {name}\n  connection:\n    proxyProtocol: HTTPConnect\n    \
         transport: {{uds: {{udsName: {}}}}}\n",
        socket.display()
    );
    fs::write(&file, text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_are_asked_through_it() {
    let folder = TempDir::new().unwrap();
    let (asked, _tasks) = between(&folder.path().join("proxy.sock"));
    let backend = Backend::start(|_, request| review(&request, r#""allowed":true"#)).await;
    let file = selection(&folder, "controlplane");
    let cluster = with(|flags| flags.egress_selector_config_file = Some(file)).await;
    let admin = cluster.admin_client();
    let configuration = hook(&backend, "/", "");
    of::<ValidatingWebhookConfiguration>(&admin).create(configuration).await.unwrap();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), [format!("127.0.0.1:{}", backend.port)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_asked_through_it() {
    let folder = TempDir::new().unwrap();
    let (asked, _tasks) = between(&folder.path().join("proxy.sock"));
    let etcd = Etcd::start();
    let mut flags = apiserver::Flags::new(&folder.path().join("data"));
    flags.advertise_address = Some([192, 0, 2, 10].into());
    flags.etcd_servers = vec![etcd.url.clone()];
    flags.egress_selector_config_file = Some(selection(&folder, "etcd"));
    let ground = apiserver::ServerEnvironment {
        storage: apiserver::StorageBackend::Disk,
        entry: apiserver::ListenerSource::Pipes,
        clock: Arc::new(SystemClock),
    };
    let config = apiserver::Config::new(flags).unwrap();
    let running = apiserver::start_with(config, ground).await.unwrap();
    let user = server::UserInfo::new("admin", &["system:masters"]);
    let admin = client::Client::new(client::Config::pipe(running.pipe(user)));
    assert_eq!(get(&admin, "/api/v1/namespaces/default").await.0, 200);
    let to = etcd.url.trim_start_matches("http://");
    assert!(asked.lock().unwrap().iter().all(|asked| asked == to));
    assert!(!asked.lock().unwrap().is_empty());
    running.stop().await;
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let said = refused(|flags| flags.egress_selector_config_file = Some("/no/such".into()));
    assert_eq!(said, "unable to read egress selector configuration from \"/no/such\"");
}
