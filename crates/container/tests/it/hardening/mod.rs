//! Attacks from inside containers and by images. Each test attempts the attack.

mod calls;
mod descriptors;
mod executable;
mod images;
mod masks;
mod messages;
mod mounts;
mod process;
mod races;
mod stalls;
mod users;

use container::cri::{Capability, ContainerConfig, LinuxContainerSecurityContext, Mount};

/// Number of attempts of a race: some hundred, or as many as `TIPHYS_RACES` says.
fn races() -> usize {
    let wanted = std::env::var_os("TIPHYS_RACES").and_then(|value| value.to_str()?.parse().ok());
    wanted.unwrap_or(200)
}

fn security(config: &mut ContainerConfig) -> &mut LinuxContainerSecurityContext {
    let linux = config.linux.as_mut();
    linux.and_then(|linux| linux.security_context.as_mut()).expect("made by shell()")
}

/// Grants the capability to trace other processes, which most containers do not have.
fn allow_tracing(config: &mut ContainerConfig) {
    security(config).capabilities =
        Some(Capability { add_capabilities: vec!["SYS_PTRACE".into()], ..Capability::default() });
}

fn mount(host: &std::path::Path, target: &str) -> Mount {
    Mount {
        container_path: target.into(),
        host_path: host.to_string_lossy().into_owned(),
        ..Mount::default()
    }
}
