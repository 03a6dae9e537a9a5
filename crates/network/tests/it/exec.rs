//! Tests of the CNI protocol with plugins that are shell scripts and log their input.

use network::{
    Attachment, Cni, CniExec, CniExecConfig, Error, NetworkNamespace, PortMapping, Protocol,
};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PLUGIN: &str = r#"#!/bin/sh
input=$(cat)
echo "$(basename $0) $CNI_COMMAND id=$CNI_CONTAINERID if=$CNI_IFNAME args=$CNI_ARGS $input" >> LOG
case "$CNI_COMMAND" in
  ADD) echo '{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.1.2.3/24","interface":0}]}' ;;
  CHECK) echo '{"cniVersion":"1.1.0","code":99,"msg":"gone astray","details":"here"}'; exit 1 ;;
esac
"#;

struct Plugins {
    directory: tempfile::TempDir,
    exec: CniExec,
    namespace: NetworkNamespace,
    parent_cgroup: String,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Drop for Plugins {
    fn drop(&mut self) {
        let hierarchies = sys::cgroup::Hierarchies::detect().expect("cgroups");
        let group = hierarchies.group(&self.parent_cgroup).expect("a path");
        group.remove_if_empty();
        if !std::thread::panicking() {
            assert!(!group.exists(), "{} is left", self.parent_cgroup);
        }
    }
}

impl Plugins {
    fn new(list: &str) -> Self {
        Self::with_deadline(list, Duration::from_mins(1))
    }

    fn with_deadline(list: &str, deadline: Duration) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).expect("made");
            path
        };
        let (configuration, programs, kept) = (folder("net.d"), folder("bin"), folder("kept"));
        std::fs::write(configuration.join("10-net.conflist"), list).expect("written");
        for name in ["first", "second"] {
            let script = PLUGIN.replace("LOG", &directory.path().join("log").display().to_string());
            program(&programs.join(name), &script);
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let parent_cgroup = format!("/tiphys-network-test-{}-{number}", std::process::id());
        let exec = CniExec::new(CniExecConfig {
            conf_dir: configuration,
            bin_dirs: vec![programs],
            state_dir: kept,
            plugin_timeout: deadline,
            parent_cgroup: parent_cgroup.clone(),
        });
        let namespace = NetworkNamespace::create().expect("a namespace");
        Self { directory, exec, namespace, parent_cgroup }
    }

    fn attachment(&self) -> Attachment {
        Attachment {
            sandbox_id: "abc".to_owned(),
            netns: crate::world::path(&self.namespace),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
            port_mappings: vec![PortMapping {
                host_port: 80,
                container_port: 8080,
                protocol: Protocol::Udp,
                host_ip: None,
            }],
            bandwidth: None,
        }
    }

    /// The inputs of the plugins since the last call.
    fn heard(&self) -> Vec<String> {
        let path = self.directory.path().join("log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, script).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

const LIST: &str = r#"{"cniVersion":"1.1.0","name":"net","plugins":[
  {"type":"first"},{"type":"second","capabilities":{"portMappings":true}}]}"#;

#[tokio::test]
async fn plugins_run_in_order_and_in_reverse() {
    let plugins = Plugins::new(LIST);
    let attachment = plugins.attachment();
    let addresses = plugins.exec.add(&attachment).await.expect("added");
    assert_eq!(addresses.ips, ["10.1.2.3".parse::<std::net::IpAddr>().expect("an address")]);
    let heard = plugins.heard();
    assert!(heard[0].starts_with(
        "first ADD id=abc if=eth0 args=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"
    ));
    assert!(!heard[0].contains("prevResult") && !heard[0].contains("portMappings"));
    assert!(heard[1].starts_with("second ADD") && heard[1].contains("prevResult"));
    assert!(
        heard[1]
            .contains(r#""portMappings":[{"containerPort":8080,"hostPort":80,"protocol":"udp"}]"#),
        "{}",
        heard[1]
    );

    let error = plugins.exec.check(&attachment).await.expect_err("the plugin says so");
    assert!(
        matches!(&error, Error::Plugin { code: 99, message, .. } if message == "gone astray"),
        "{error}"
    );
    plugins.heard();

    plugins.exec.remove(&attachment).await.expect("removed");
    let heard = plugins.heard();
    assert!(heard[0].starts_with("second DEL") && heard[0].contains("prevResult"));
    assert!(heard[1].starts_with("first DEL"));
}

#[tokio::test]
async fn the_dead_are_collected_and_status_is_asked() {
    let plugins = Plugins::new(LIST);
    plugins.exec.add(&plugins.attachment()).await.expect("added");
    plugins.heard();
    plugins.exec.gc(&BTreeSet::from(["abc".to_owned()])).await.expect("collected");
    let heard = plugins.heard();
    assert!(heard[0].starts_with("first GC") && heard[0].contains(r#""containerID":"abc""#));
    assert_eq!(heard.len(), 2);
    plugins.exec.gc(&BTreeSet::new()).await.expect("collected");
    assert!(plugins.heard()[0].starts_with("second DEL id=abc"));
    plugins.exec.status().await.expect("ready");
    assert!(plugins.heard()[0].starts_with("first STATUS"));
}

#[tokio::test]
async fn no_network_is_an_error_that_says_so() {
    let plugins = Plugins::new(LIST);
    std::fs::remove_file(plugins.directory.path().join("net.d/10-net.conflist")).expect("removed");
    let error = plugins.exec.status().await.expect_err("nothing there");
    assert!(error.to_string().contains("no network in"), "{error}");
}

/// Misbehaving plugins: each fails in time with a short error, and none of its processes keeps running.
#[tokio::test]
async fn hostile_plugins_are_contained() {
    let cases = [
        ("endless output", "yes '{'", "it wrote more than"),
        ("one long line", "head -c 3000000 /dev/zero; sleep 100", "it wrote more than"),
        ("endless errors", "yes oops | head -c 50000000 >&2; exit 1", "oops"),
        ("hangs", "sleep 1000", "no answer within 2 s"),
        ("hangs with output", "echo '{'; sleep 1000", "no answer within 2 s"),
        ("garbage", "echo 'not json'", "not JSON"),
        ("deep", "head -c 500000 /dev/zero | tr '\\0' '['", "not JSON"),
        ("nothing", "exit 0", "not JSON"),
        ("no address", "echo '{}'", "no ips"),
        ("loopback", "echo '{\"ips\": [{\"address\": \"127.0.0.1/8\"}]}'", "cannot be"),
        ("long error", "printf '{\"code\": 7, \"msg\": \"%0100000d\"}' 0; exit 1", "(code 7)"),
    ];
    for (name, script, why) in cases {
        let seconds = if name.starts_with("hangs") { 2 } else { 60 };
        let list = r#"{"cniVersion":"1.1.0","name":"net","type":"first"}"#;
        let plugins = Plugins::with_deadline(list, Duration::from_secs(seconds));
        let mark = format!("cni-test-{}-{}", std::process::id(), name.replace(' ', "-"));
        let script = format!(
            "#!/bin/sh\nexport MARK={mark}\nfor i in 1 2 3; do (sleep 1000 & sleep 1000) & done\n\
             setsid sleep 1000 &\nsetsid sh -c 'setsid sleep 1000 & sleep 1000' &\n{script}\n"
        );
        program(&plugins.directory.path().join("bin/first"), &script);
        let began = std::time::Instant::now();
        let error = plugins.exec.add(&plugins.attachment()).await.expect_err(name).to_string();
        assert!(error.contains(why), "{name}: {error}");
        assert!(error.len() < 4096, "{name}: {} bytes", error.len());
        assert!(began.elapsed() < Duration::from_secs(50), "{name}: {:?}", began.elapsed());
        let began = std::time::Instant::now();
        while still_run(&mark) > 0 {
            assert!(began.elapsed() < Duration::from_mins(1), "{name}: its children go on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Background processes of a plugin do not delay its result, and are killed afterwards.
#[tokio::test]
async fn children_of_a_plugin_end_with_it() {
    let plugins = Plugins::new(r#"{"cniVersion":"1.1.0","name":"net","type":"first"}"#);
    let mark = format!("cni-test-{}-children", std::process::id());
    let script = format!(
        "#!/bin/sh\nexport MARK={mark}\nsleep 1000 &\n(sleep 1000 &) \n\
         setsid sleep 1000 >/dev/null 2>&1 &\nsetsid sh -c 'setsid sleep 1000 & sleep 1000' &\n\
         echo '{{\"ips\": [{{\"address\": \"10.1.2.3/24\"}}]}}'\n"
    );
    program(&plugins.directory.path().join("bin/first"), &script);
    let began = std::time::Instant::now();
    plugins.exec.add(&plugins.attachment()).await.expect("added");
    assert!(
        began.elapsed() < Duration::from_secs(50),
        "before its deadline: {:?}",
        began.elapsed()
    );
    while still_run(&mark) > 0 {
        assert!(began.elapsed() < Duration::from_mins(1), "its children go on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of processes with this text in their environment.
fn still_run(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let marked = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    all.filter(marked).count()
}
