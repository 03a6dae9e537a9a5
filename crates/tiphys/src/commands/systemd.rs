//! `systemd-unit`: prints a systemd unit that starts a cluster, or a node that has joined one, at boot.

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use super::parse;
use crate::up::Place;

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { place } = match parse("systemd-unit", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let program = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/tiphys".into());
    match place.flags() {
        Ok(flags) => {
            print!("{}", unit(&program.display().to_string(), &flags));
            ExitCode::SUCCESS
        }
        Err(error) => super::exit("systemd-unit", Err(error)),
    }
}

/// The text of the unit. `up` also starts a node that has joined, so one unit serves both. Pods are not processes of
/// the unit: they keep running when it is restarted or stopped; `tiphys down` stops them.
fn unit(program: &str, flags: &str) -> String {
    format!(
        "# Install: tiphys systemd-unit{flags} > /etc/systemd/system/tiphys.service
#          systemctl daemon-reload && systemctl enable --now tiphys
[Unit]
Description=Tiphys, a Kubernetes cluster
Documentation=man:tiphys(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} up --foreground{flags}
KillMode=process
Delegate=yes
Restart=always
RestartSec=2
TimeoutStartSec=120
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_waits_for_readiness_and_leaves_pods_alone() {
        let unit = unit("/usr/bin/tiphys", " --name blue");
        for line in [
            "Type=notify",
            "KillMode=process",
            "ExecStart=/usr/bin/tiphys up --foreground --name blue",
        ] {
            assert!(unit.lines().any(|own| own == line), "{unit}");
        }
    }
}
