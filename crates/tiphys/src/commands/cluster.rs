//! `up` and its family.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;

use super::{exit, parse, run_async};
use crate::up::{self, Layout, Place};

#[derive(Parser)]
pub(super) struct UpArguments {
    #[command(flatten)]
    up: up::start::Up,
}

/// The flag of processes that the supervisor starts.
#[derive(Parser)]
struct Where {
    #[arg(long)]
    data_dir: PathBuf,
}

#[derive(Parser)]
struct Cluster {
    #[command(flatten)]
    place: Place,
}

pub(super) fn up(args: Vec<OsString>) -> ExitCode {
    match parse::<UpArguments>("up", args) {
        Ok(UpArguments { up }) => run_async("up", up::start::run(up)),
        Err(code) => code,
    }
}

pub(super) fn join(args: Vec<OsString>) -> ExitCode {
    #[derive(Parser)]
    struct JoinArguments {
        #[command(flatten)]
        join: up::join::Join,
    }
    match parse::<JoinArguments>("join", args) {
        Ok(JoinArguments { join }) => run_async("join", up::join::run(join)),
        Err(code) => code,
    }
}

pub(super) fn down(args: Vec<OsString>) -> ExitCode {
    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        down: up::down::Down,
    }
    match parse::<Arguments>("down", args) {
        Ok(Arguments { place, down }) => {
            run_async("down", async move { up::down::run(&place, down).await })
        }
        Err(code) => code,
    }
}

pub(super) fn status(args: Vec<OsString>) -> ExitCode {
    match parse::<Cluster>("status", args) {
        Ok(Cluster { place }) => match place.existing() {
            Ok(layout) => up::status::print(&layout),
            Err(error) => exit("status", Err(error)),
        },
        Err(code) => code,
    }
}

pub(super) fn logs(args: Vec<OsString>) -> ExitCode {
    let place = match parse::<Cluster>("logs", args) {
        Ok(Cluster { place }) => place,
        Err(code) => return code,
    };
    let layout = match place.existing() {
        Ok(layout) => layout,
        Err(error) => return exit("logs", Err(error)),
    };
    for name in ["supervisor", "control", "node"] {
        let path = layout.path("log").join(format!("{name}.log"));
        match std::fs::read_to_string(&path) {
            Ok(text) => text.lines().for_each(|line| println!("{name}: {line}")),
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
    ExitCode::SUCCESS
}

pub(super) fn check(args: Vec<OsString>) -> ExitCode {
    #[derive(Parser)]
    struct Nothing {}
    match parse::<Nothing>("check", args) {
        Ok(Nothing {}) if up::check::print() => ExitCode::SUCCESS,
        Ok(Nothing {}) => ExitCode::FAILURE,
        Err(code) => code,
    }
}

pub(super) fn supervise(args: Vec<OsString>) -> ExitCode {
    match parse::<Where>("supervise", args) {
        Ok(Where { data_dir }) => {
            run_async("supervise", async move { up::supervise::run(&Layout::new(&data_dir)).await })
        }
        Err(code) => code,
    }
}

pub(super) fn control(args: Vec<OsString>) -> ExitCode {
    match parse::<Where>("control", args) {
        Ok(Where { .. }) => match up::control::confine() {
            Ok(()) => run_async("control", up::control::run()),
            Err(error) => exit("control", Err(error)),
        },
        Err(code) => code,
    }
}

pub(super) fn node(args: Vec<OsString>) -> ExitCode {
    match parse::<Where>("node", args) {
        Ok(Where { data_dir }) => {
            run_async("node", async move { up::node::run(&Layout::new(&data_dir)).await })
        }
        Err(code) => code,
    }
}
