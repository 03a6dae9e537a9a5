//! System calls under the runtime's default seccomp filter, made by a program that makes one call and exits with its
//! error number.

use std::path::Path;

use container::cri::{
    ContainerConfig, ExecRequest, ImageSpec, Int64Value, NamespaceMode, SecurityProfile,
    security_profile::ProfileType,
};

use super::security;
use crate::{
    stream::Session,
    support::{Runtime, file, shell, wait_for},
};

/// An executable for x86-64 that makes the system call `number` and exits with the error.
fn program(number: u32) -> Vec<u8> {
    let mut code = vec![0xb8]; // mov eax, number
    code.extend(number.to_le_bytes());
    // syscall; neg eax; mov edi, eax; mov eax, exit_group; syscall
    code.extend([0x0f, 0x05, 0xf7, 0xd8, 0x89, 0xc7, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05]);
    let (base, head) = (0x40_0000_u64, 64 + 56_u64);
    let size = head + code.len() as u64;
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [base + head, 64, 0] {
        out.extend(word.to_le_bytes()); // entry point, program headers, no section headers
    }
    out.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    out.extend([1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD, readable and executable
    for word in [0, base, base, size, size, 0x1000] {
        out.extend(word.to_le_bytes());
    }
    out.extend(code);
    out
}

/// A set-user-id program of the image gives no root privileges to a process with `no_new_privs`.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_setuid_program_gives_no_new_privileges() {
    const WHO: u32 = 107; // geteuid
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/setuid:1";
    let fill = |layer: &mut tar::Builder<Vec<u8>>| file(layer, "bin/who", &program(WHO), 0o4755);
    runtime.import(image, "{}", fill).await;
    for (name, no_new_privs) in [("free", false), ("bound", true)] {
        let mut config = shell(name, "sleep 1000");
        config.image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
        security(&mut config).run_as_user = Some(Int64Value { value: 7 });
        security(&mut config).no_new_privs = no_new_privs;
        let id = runtime.container(&sandbox, config).await;
        let (code, _) = runtime.exec(&id, "/bin/who").await.expect("exec");
        assert_eq!(code, if no_new_privs { 256 - 7 } else { 0 }, "{name}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// C libraries try a new system call and fall back to old ones on `ENOSYS`; `EPERM` they would report as an error.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_that_are_newer_than_the_filter_do_not_exist() {
    const PERMISSION: i32 = 1;
    const NO_SUCH_CALL: i32 = 38;
    let calls = [
        ("getpid", 39, None),
        ("keyctl", 250, Some(PERMISSION)),
        ("clone3", 435, Some(NO_SUCH_CALL)),
        ("new", 5000, Some(NO_SUCH_CALL)),
        ("x32-getpid", 0x4000_0027, Some(NO_SUCH_CALL)),
        ("last", u32::MAX - 1, Some(NO_SUCH_CALL)),
    ];
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/calls:1";
    let fill = |layer: &mut tar::Builder<Vec<u8>>| {
        for (name, number, _) in calls {
            file(layer, &format!("bin/call-{name}"), &program(number), 0o755);
        }
    };
    runtime.import(image, "{}", fill).await;
    let mut config = shell("a", "sleep 1000");
    config.image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
    security(&mut config).seccomp = Some(SecurityProfile {
        profile_type: ProfileType::RuntimeDefault.into(),
        ..SecurityProfile::default()
    });
    let id = runtime.container(&sandbox, config).await;
    for (name, _, expected) in calls {
        let (code, _) = runtime.exec(&id, &format!("/bin/call-{name}")).await.expect("exec");
        match expected {
            Some(expected) => assert_eq!(code, expected, "{name}"),
            None => assert!(![PERMISSION, NO_SUCH_CALL].contains(&code), "{name}: {code}"),
        }
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A profile may forbid the system calls that the runtime itself makes between loading it and executing the program.
#[tokio::test]
async fn a_profile_may_forbid_all_that_a_start_takes() {
    const CALLS: &str = r#"["clone", "clone3", "fork", "vfork", "setsid", "capset",
        "sendmsg", "close_range", "madvise"]"#;
    const TAKE_TERMINAL: &str = r#"{"index": 1, "value": 21518, "op": "SCMP_CMP_EQ"}"#;
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sharing_sandbox("pod").await;
    for (number, action) in ["SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS"].into_iter().enumerate() {
        for shares in [false, true] {
            for no_new_privs in [false, true] {
                let name = format!("{number}-{shares}-{no_new_privs}");
                let path = runtime.folder().join(format!("{name}.json"));
                let profile = format!(
                    r#"{{"defaultAction": "SCMP_ACT_ALLOW",
                        "syscalls": [{{"names": {CALLS}, "action": "{action}"}},
                        {{"names": ["ioctl"], "action": "{action}", "args": [{TAKE_TERMINAL}]}}]}}"#
                );
                std::fs::write(&path, profile).expect("written");
                let mut config = shell(&name, "echo begun; exec sleep 1000");
                restrict(&mut config, &path, shares, no_new_privs);
                let id = runtime.container(&sandbox, config).await;
                wait_for(&runtime.logs().join(format!("{name}.log")), "begun").await;
                let said = runtime.exec(&id, "echo $((6 * 7))").await.expect("exec");
                assert_eq!(said, (0, "42\n".to_owned()), "{name}");
                let (code, said) = runtime.exec(&id, "/bin/true; echo forked").await.expect("exec");
                assert!(code != 0 && !said.contains("forked"), "{name}: {code} {said}");
                assert_eq!(terminal(&mut runtime, &id).await, "42", "{name}");
            }
        }
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

fn restrict(config: &mut ContainerConfig, profile: &Path, shares: bool, no_new_privs: bool) {
    let security = security(config);
    let options = security.namespace_options.as_mut().expect("made by shell()");
    options.pid = if shares { NamespaceMode::Pod } else { NamespaceMode::Container }.into();
    security.no_new_privs = no_new_privs;
    security.seccomp = Some(SecurityProfile {
        profile_type: ProfileType::Localhost.into(),
        localhost_ref: profile.to_string_lossy().into_owned(),
    });
}

/// The output of a command with a terminal.
async fn terminal(runtime: &mut Runtime, id: &str) -> String {
    let cmd = ["sh", "-c", "echo $((6 * 7))"].map(str::to_owned).into();
    let container_id = id.to_owned();
    let request =
        ExecRequest { container_id, cmd, tty: true, stdin: true, stdout: true, stderr: false };
    let url = runtime.cri.runtime.exec(request).await.expect("exec").into_inner().url;
    Session::open(&url).await.read(1, "42").await.trim().to_owned()
}
