//! Finds upstream's programs: named by an environment variable, on the path, or built once from Go modules.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::world::output;

/// The path of a program, which the environment variable of that name in capitals may set. `None`: it is not
/// installed and cannot be built.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    if let Some(given) = env::var_os(name.to_uppercase()) {
        return Some(given.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let there = |name: &str| {
        env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    there(name).or_else(|| {
        there("go")?;
        let built = output(Command::new("../../tests/program").arg(name).stderr(Stdio::inherit()));
        built.status.success().then(|| String::from_utf8_lossy(&built.stdout).trim().into())
    })
}
