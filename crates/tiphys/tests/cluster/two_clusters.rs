//! Two clusters on one host, in one network namespace: neither affects the other.

use std::process::Command;

use crate::world::{World, output, run, said};

/// The second cluster, addressed by its `--name`.
struct Named<'a> {
    world: &'a World,
    name: String,
}

impl Named<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command.args(["--name", &self.name]);
        command
    }

    fn folder(&self) -> String {
        format!("/var/lib/tiphys-{}", self.name)
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let kubeconfig = format!("{}/kubeconfig/admin", self.folder());
        let own = ["kubectl", "--kubeconfig", &kubeconfig];
        let out = output(&mut self.world.command(&[&own[..], args].concat()));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        let _ = output(&mut self.command(&["down", "--now", "--wipe"]));
    }
}

#[test]
fn two_clusters_do_not_touch_each_other() {
    let world = World::new("two");
    let other = Named { world: &world, name: format!("test-{}", std::process::id()) };
    world.tiphys(&["up", "--node-name", "n1"]);
    let printed = run(&mut other.command(&["up", "--node-name", "n1"]));
    assert!(printed.contains(&format!("tiphys status --name {}", other.name)), "{printed}");

    let keys = ["port", "clusterCIDR", "serviceCIDR", "nodePortRange", "proxyTable"];
    let read = |folder: &str| {
        let path = std::path::Path::new(folder).join("config.yaml");
        std::fs::read_to_string(path).expect("the settings")
    };
    let (one, two) = (read(&world.path().to_string_lossy()), read(&other.folder()));
    for key in keys {
        let value = |text: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{key}:")));
            line.expect("a key").to_owned()
        };
        assert_ne!(value(&one), value(&two));
    }

    let make = [
        vec!["create", "deployment", "web", "--image", "tiphys.local/hello:1"],
        vec!["expose", "deployment", "web", "--port", "80"],
    ];
    for args in &make {
        world.kubectl(args);
        other.kubectl(args);
    }
    let address = ["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"];
    let urls = [world.kubectl(&address), other.kubectl(&address)].map(|ip| format!("http://{ip}/"));
    let answers = |url: &str| {
        let out = output(&mut world.command(&["hello", "--fetch", url]));
        said(&out).contains("Hello from web-")
    };
    for url in &urls {
        world.until("the service answers", || answers(url));
    }

    // commands select the cluster that the environment or a flag names
    let mut status = world.command(&["status"]);
    let status = run(status.env("TIPHYS_DATA_DIR", other.folder()));
    assert!(status.contains(&other.folder()), "{status}");
    let mut nowhere = world.command(&["status", "--name", "nowhere"]);
    let nowhere = said(&output(&mut nowhere));
    assert!(nowhere.contains("there is no cluster in /var/lib/tiphys-nowhere"), "{nowhere}");
    assert!(nowhere.contains(&other.folder()), "says where there are some: {nowhere}");

    // one is wiped, and the other is not affected
    run(&mut other.command(&["down", "--wipe", "--now"]));
    assert!(!std::path::Path::new(&other.folder()).exists());
    assert!(answers(&urls[0]) && !answers(&urls[1]));
    world.kubectl(&["delete", "pod", "-l", "app=web", "--grace-period=1"]);
    world.until("a new pod answers", || answers(&urls[0]));
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}
