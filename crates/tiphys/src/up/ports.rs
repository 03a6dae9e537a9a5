//! The ports that components inside `up` listen on: upstream's, or others where those are in use.

use std::fs;

use anyhow::Result;
use object::yaml;

use super::{DataDir, layout::write_private};

/// The file with the ports, below the data directory.
const FILE: &str = "run/ports.yaml";
const KEYS: [&str; 2] = ["kube-scheduler", "kube-controller-manager"];
/// Upstream's default ports.
pub(super) const UPSTREAM: Ports = Ports { scheduler: 10_259, controller_manager: 10_257 };
pub(super) const KUBELET: u16 = 10_250;

/// The ports of the scheduler and the controller manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) scheduler: u16,
    pub(super) controller_manager: u16,
}

impl Ports {
    /// Writes the ports to the file.
    pub(super) fn keep(self, layout: &DataDir) -> Result<()> {
        let [scheduler, manager] = KEYS;
        let text =
            format!("{scheduler}: {}\n{manager}: {}\n", self.scheduler, self.controller_manager);
        write_private(&layout.path(FILE), text.as_bytes())
    }

    pub(super) fn load(layout: &DataDir) -> Option<Self> {
        let tree = yaml::from_yaml(&fs::read_to_string(layout.path(FILE)).ok()?).ok()?;
        let port = |key: &str| tree.get(key).as_i64()?.try_into().ok();
        Some(Self { scheduler: port(KEYS[0])?, controller_manager: port(KEYS[1])? })
    }

    /// The ports that differ from upstream's: component, port, upstream's port.
    pub(super) fn different(self) -> Vec<(&'static str, u16, u16)> {
        let all = [
            (KEYS[0], self.scheduler, UPSTREAM.scheduler),
            (KEYS[1], self.controller_manager, UPSTREAM.controller_manager),
        ];
        all.into_iter().filter(|(_, own, usual)| own != usual).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_kept_and_those_that_differ_are_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let layout = DataDir::new(folder.path());
        let ports = Ports { scheduler: 10_259, controller_manager: 4711 };
        ports.keep(&layout).unwrap();
        assert_eq!(Ports::load(&layout), Some(ports));
        assert_eq!(ports.different(), [("kube-controller-manager", 4711, 10_257)]);
        assert_eq!(UPSTREAM.different(), []);
    }
}
