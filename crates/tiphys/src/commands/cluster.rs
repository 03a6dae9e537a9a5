//! The commands that manage a cluster on this host: `up`, `join`, `down`, `status` and `check`, and the processes of
//! a cluster that the supervisor starts.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;

use super::{exit, parse, run_async};
use crate::up::{self, DataDir, Place};

#[derive(Parser)]
pub(super) struct UpArguments {
    #[command(flatten)]
    up: up::start::UpArgs,
}

/// The flag of processes that the supervisor starts.
#[derive(Parser)]
struct DataDirArgs {
    #[arg(long)]
    data_dir: PathBuf,
}

#[derive(Parser)]
pub(super) struct Cluster {
    #[command(flatten)]
    place: Place,
}

#[derive(Parser)]
pub(super) struct DownArguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    down: up::down::Down,
}

#[derive(Parser)]
pub(super) struct JoinArguments {
    #[command(flatten)]
    join: up::join::JoinArgs,
}

#[derive(Parser)]
pub(super) struct Nothing {}

pub(super) fn up(args: Vec<OsString>) -> ExitCode {
    match parse::<UpArguments>("up", args) {
        Ok(UpArguments { up }) => run_async("up", up::start::run(up)),
        Err(code) => code,
    }
}

pub(super) fn join(args: Vec<OsString>) -> ExitCode {
    match parse::<JoinArguments>("join", args) {
        Ok(JoinArguments { join }) => run_async("join", up::join::run(join)),
        Err(code) => code,
    }
}

pub(super) fn down(args: Vec<OsString>) -> ExitCode {
    match parse::<DownArguments>("down", args) {
        Ok(DownArguments { place, down }) => {
            run_async("down", async move { up::down::run(&place, down).await })
        }
        Err(code) => code,
    }
}

pub(super) fn status(args: Vec<OsString>) -> ExitCode {
    let Cluster { place } = match parse("status", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let layout = match place.existing() {
        Ok(layout) => layout,
        Err(error) => return exit("status", Err(error)),
    };
    let mut all = false;
    let ended =
        run_async("status", async { up::status::print(&layout).await.map(|good| all = good) });
    if all { ended } else { ExitCode::FAILURE }
}

pub(super) fn check(args: Vec<OsString>) -> ExitCode {
    match parse::<Nothing>("check", args) {
        Ok(Nothing {}) => exit("check", up::check::run()),
        Err(code) => code,
    }
}

pub(super) fn supervise(args: Vec<OsString>) -> ExitCode {
    match parse::<DataDirArgs>("supervise", args) {
        Ok(DataDirArgs { data_dir }) => {
            run_async(
                "supervise",
                async move { up::supervise::run(&DataDir::new(&data_dir)).await },
            )
        }
        Err(code) => code,
    }
}

pub(super) fn control(args: Vec<OsString>) -> ExitCode {
    match parse::<DataDirArgs>("control", args) {
        Ok(DataDirArgs { .. }) => match up::control::restrict_process() {
            Ok(()) => {
                crate::memory::limit_heaps();
                run_async("control", up::control::run())
            }
            Err(error) => exit("control", Err(error)),
        },
        Err(code) => code,
    }
}

pub(super) fn node(args: Vec<OsString>) -> ExitCode {
    match parse::<DataDirArgs>("node", args) {
        Ok(DataDirArgs { data_dir }) => {
            crate::memory::limit_heaps();
            run_async("node", async move { up::node::run(&DataDir::new(&data_dir)).await })
        }
        Err(code) => code,
    }
}
