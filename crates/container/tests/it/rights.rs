//! Privileges of containers: users, capabilities, mounts, seccomp.

use container::cri::{
    Capability, ContainerConfig, ContainerState, ContainerStatusRequest, IdMapping, Int64Value,
    LinuxContainerResources, LinuxContainerSecurityContext, Mount, NamespaceMode,
    RunPodSandboxRequest, SecurityProfile, UserNamespace, security_profile::ProfileType,
};

use crate::support::{Runtime, shell, wait_for};

fn security(config: &mut ContainerConfig) -> &mut LinuxContainerSecurityContext {
    config
        .linux
        .as_mut()
        .and_then(|linux| linux.security_context.as_mut())
        .expect("made by shell()")
}

/// Runs a container until it prints `end`; returns the lines of its log.
async fn output(runtime: &mut Runtime, sandbox: &str, config: ContainerConfig) -> Vec<String> {
    let log = runtime.logs().join(&config.log_path);
    runtime.container(sandbox, config).await;
    let text = wait_for(&log, " end\n").await;
    text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn users_and_capabilities() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = "id -u; id -g; id -G; cat /proc/self/status | while read k v; do case $k in CapBnd:|NoNewPrivs:|Seccomp:) echo $k$v;; esac; done; echo end";
    let mut config = shell("user", script);
    let rights = security(&mut config);
    rights.run_as_user = Some(Int64Value { value: 1000 });
    rights.run_as_group = Some(Int64Value { value: 33 });
    rights.supplemental_groups = vec![1234];
    rights.no_new_privs = true;
    rights.seccomp = Some(SecurityProfile {
        profile_type: ProfileType::RuntimeDefault.into(),
        ..Default::default()
    });
    rights.capabilities = Some(Capability {
        drop_capabilities: vec!["ALL".into()],
        add_capabilities: vec!["CHOWN".into()],
        ..Default::default()
    });
    let mut lines = output(&mut runtime, &sandbox, config).await;
    let expected = [
        "1000",
        "33",
        "1234 33 50000",
        "CapBnd:0000000000000001",
        "NoNewPrivs:1",
        "Seccomp:2",
        "end",
    ];
    let mut groups: Vec<_> = lines[2].split(' ').map(str::to_owned).collect();
    groups.sort();
    lines[2] = groups.join(" ");
    assert_eq!(lines, expected);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn files_are_masked_read_only_and_mounted() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let host = tempfile::tempdir().expect("a folder");
    std::fs::write(host.path().join("file"), "from the host\n").expect("written");
    let script = "cat /data/file; echo x > /data/new || echo ro-mount; echo x > /x || echo ro-root; \
        echo masked file: $(cat /proc/version | wc -c); echo masked folder: $(ls -A /sys/kernel | wc -l); \
        echo shown file: $(cat /proc/uptime | wc -w); echo 1 > /proc/sys/kernel/panic || echo ro-sys; \
        cat /etc/hostname; echo end";
    let mut config = shell("files", &script.replace("        ", ""));
    config.mounts.push(Mount {
        container_path: "/data".into(),
        host_path: host.path().to_string_lossy().into_owned(),
        readonly: true,
        ..Mount::default()
    });
    let rights = security(&mut config);
    rights.readonly_rootfs = true;
    rights.masked_paths = ["/proc/version", "/sys/kernel", "/no/such"].map(str::to_owned).into();
    rights.readonly_paths = vec!["/proc/sys".into()];
    let lines = output(&mut runtime, &sandbox, config).await;
    let said = |line: &str| lines.iter().any(|one| one == line);
    for line in ["from the host", "ro-mount", "ro-root", "ro-sys", "harbour", "end"] {
        assert!(said(line), "{line} is missing: {lines:?}");
    }
    // Neither is empty on the host, and what is not masked is readable.
    assert!(!std::fs::read("/proc/version").expect("proc").is_empty());
    assert!(std::fs::read_dir("/sys/kernel").expect("sys").next().is_some());
    for line in ["masked file: 0", "masked folder: 0", "shown file: 2"] {
        assert!(said(line), "{line} is missing: {lines:?}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A folder of the host, mounted privately, in which a mount namespace is kept.
struct NamespaceFolder(tempfile::TempDir);

impl NamespaceFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        let path = folder.0.path().to_str().expect("text");
        let file = format!("{path}/namespace");
        run("mount", &["--bind", path, path]);
        run("mount", &["--make-private", path]);
        std::fs::write(&file, "").expect("written");
        run("unshare", &[&format!("--mount={file}"), "true"]);
        std::fs::write(folder.0.path().join("file"), "from the host\n").expect("written");
        folder
    }
}

impl Drop for NamespaceFolder {
    fn drop(&mut self) {
        run("umount", &["--recursive", self.0.path().to_str().expect("text")]);
    }
}

fn run(program: &str, args: &[&str]) {
    let done = std::process::Command::new(program).args(args).status().expect("a program");
    assert!(done.success(), "{program} {args:?}");
}

/// snapd keeps such files, so that `kubectl debug node`, which mounts /, would fail without care: the kernel attaches no
/// tree that contains one.
#[tokio::test]
async fn a_folder_with_a_mount_namespace_of_the_host_can_be_mounted() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let host = NamespaceFolder::new();
    for (name, propagation) in [("private", 0), ("from-host", 1)] {
        let mut config = shell(name, "cat /host/file; echo end");
        config.mounts.push(Mount {
            container_path: "/host".into(),
            host_path: host.0.path().to_string_lossy().into_owned(),
            propagation,
            ..Mount::default()
        });
        assert_eq!(output(&mut runtime, &sandbox, config).await, ["from the host", "end"]);
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The kernel reports the seccomp mode of a process; a custom profile denies what it lists and nothing else.
#[tokio::test]
async fn seccomp_profiles_are_in_force() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let own = runtime.folder().join("no-mkdir.json");
    let profile = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"],
        "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}"#;
    std::fs::write(&own, profile).expect("written");
    let cases = [
        ("unconfined", ProfileType::Unconfined, "Seccomp:\t0", "made"),
        ("default", ProfileType::RuntimeDefault, "Seccomp:\t2", "made"),
        ("own", ProfileType::Localhost, "Seccomp:\t2", "refused"),
    ];
    for (name, kind, filter, outcome) in cases {
        let script =
            "grep ^Seccomp: /proc/self/status; mkdir /made && echo made || echo refused; echo end";
        let mut config = shell(name, script);
        let localhost_ref = match kind {
            ProfileType::Localhost => own.to_string_lossy().into_owned(),
            _ => String::new(),
        };
        security(&mut config).seccomp =
            Some(SecurityProfile { profile_type: kind.into(), localhost_ref });
        let lines = output(&mut runtime, &sandbox, config).await;
        assert!(lines.contains(&filter.to_owned()), "{name}: {lines:?}");
        assert!(lines.contains(&outcome.to_owned()), "{name}: {lines:?}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn low_ports_need_no_privilege() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let config = shell("sysctl", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start; echo end");
    assert_eq!(output(&mut runtime, &sandbox, config).await, ["0", "end"]);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Hosts may forbid lowering the OOM score and lack capabilities: pods run all the same.
#[tokio::test]
async fn what_the_machine_forbids_is_left_out() {
    let own = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).expect("proc");
    let status = own("status");
    let held = status.lines().find_map(|line| line.strip_prefix("CapBnd:\t")).expect("a line");
    let held = u64::from_str_radix(held, 16).expect("a number");
    let resource = 1 << 24; // CAP_SYS_RESOURCE, which allows to lower the score

    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = "cat /proc/self/oom_score_adj; grep CapBnd /proc/self/status; echo end";
    let mut config = shell("wishes", script);
    security(&mut config).capabilities = Some(Capability {
        drop_capabilities: vec!["ALL".into()],
        add_capabilities: vec!["CHOWN".into(), "SYS_RESOURCE".into()],
        ..Default::default()
    });
    let linux = config.linux.as_mut().expect("made by shell()");
    linux.resources = Some(LinuxContainerResources { oom_score_adj: -500, ..Default::default() });
    let lines = output(&mut runtime, &sandbox, config).await;
    let least = if held & resource == 0 { own("oom_score_adj") } else { "-500".to_owned() };
    assert_eq!(lines[0], least.trim());
    assert_eq!(lines[1], format!("CapBnd:\t{:016x}", held & (resource | 1)));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn memory_that_runs_out_is_named() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut config = shell("hungry", "a=x; while true; do a=$a$a; done");
    config.linux.as_mut().expect("made by shell()").resources =
        Some(LinuxContainerResources { memory_limit_in_bytes: 16 << 20, ..Default::default() });
    let id = runtime.container(&sandbox, config).await;
    let mut status = None;
    for _ in 0..3000 {
        let request = ContainerStatusRequest { container_id: id.clone(), verbose: false };
        let now = runtime
            .cri
            .runtime
            .container_status(request)
            .await
            .expect("status")
            .into_inner()
            .status;
        status = now.filter(|status| status.state() == ContainerState::ContainerExited);
        if status.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let status = status.expect("it ends");
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_user_namespace_has_its_own_root() {
    let mut runtime = Runtime::start().await;
    let mut config = runtime.sandbox_config("mapped");
    let map = || vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }];
    let users = UserNamespace { mode: NamespaceMode::Pod.into(), uids: map(), gids: map() };
    let security_context = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut());
    let options =
        security_context.and_then(|security| security.namespace_options.as_mut()).expect("options");
    options.userns_options = Some(users);
    let request = RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
    let sandbox = runtime
        .cri
        .runtime
        .run_pod_sandbox(request)
        .await
        .expect("run")
        .into_inner()
        .pod_sandbox_id;
    let script = "id -u; cat /proc/self/uid_map | while read a b c; do echo $a-$b-$c; done; ls -ln /bin/busybox | while read a b c d e; do echo owner $c; done; echo x > /new && echo wrote; echo end";
    let lines = output(&mut runtime, &sandbox, shell("mapped", script)).await;
    assert_eq!(lines, ["0", "0-65536-65536", "owner 0", "wrote", "end"]);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
