//! A shell on a simulated host that executes the steps of a document.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, fs::symlink},
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use crate::{
    image,
    markdown::{Action, Step, agrees},
    world::World,
};

/// The data directory that documents mention.
const DATA: &str = "/var/lib/tiphys";
/// Timeout of a step; reached only if the document is wrong.
const DEADLINE: Duration = Duration::from_secs(150);
/// Printed after each command, with its exit status.
const END: &str = "=end-of-command=";

/// Executes the steps of a document in a shell.
pub(crate) struct Reader<'a> {
    world: &'a World,
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    folder: PathBuf,
}

impl<'a> Reader<'a> {
    /// Starts the shell in its own directory. The directory contains `busybox.tar`, an image, and the files that the
    /// document saves.
    pub(crate) fn new(world: &'a World, folder: PathBuf, kubectl: Option<&str>) -> Self {
        let programs = folder.join("bin");
        fs::create_dir_all(&programs).expect("a folder");
        image::write(world, "docker.io/library/busybox:1.37", &folder.join("busybox.tar"));
        symlink(env!("CARGO_BIN_EXE_tiphys"), programs.join("tiphys")).expect("a link");
        let script = match kubectl {
            Some(program) => format!("#!/bin/sh\nexec {program} \"$@\"\n"),
            None => "#!/bin/sh\nexec tiphys kubectl \"$@\"\n".to_owned(),
        };
        fs::write(programs.join("kubectl"), script).expect("room");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(programs.join("kubectl"), executable).expect("ours");

        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display());
        let mut command = world.inside("bash", &["--norc", "--noprofile"]);
        command.current_dir(&folder).env("PATH", path).env("HOME", &folder);
        command.env("TIPHYS_DATA_DIR", world.path()).env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().expect("bash is there");
        let input = shell.stdin.take().expect("it was piped");
        let stdout = BufReader::new(shell.stdout.take().expect("it was piped"));
        let (sender, output) = channel();
        thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let mut reader = Self { world, shell, input, output, folder };
        reader.run("exec 2>&1").expect("a shell");
        reader
    }

    /// Executes a step and compares the output.
    pub(crate) fn follow(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Save { name, content } => {
                let content = self.localize(content);
                fs::write(self.folder.join(name), content).map_err(|error| error.to_string())
            }
            Action::Run { command, prints, eventually, fails } => {
                let command = self.localize(command);
                let prints: Vec<String> = prints.iter().map(|line| self.localize(line)).collect();
                let began = Instant::now();
                loop {
                    let (status, output) = self.run(&command)?;
                    if (status != 0) == *fails && agrees(&prints, &output) {
                        return Ok(());
                    }
                    if !eventually || began.elapsed() > DEADLINE {
                        let expected = prints.join("\n");
                        return Err(format!(
                            "$ {command}\nexpected:\n{expected}\nprinted (exit status {status}):\n{output}"
                        ));
                    }
                    thread::sleep(Duration::from_millis(300));
                }
            }
        }
    }

    pub(crate) fn cluster_logs(&self) -> String {
        self.world.try_tiphys(&["logs"])
    }

    /// Replaces the document's data directory by the test's.
    fn localize(&self, text: &str) -> String {
        text.replace(DATA, self.world.path().to_str().expect("text"))
    }

    /// Runs one command to its end; returns its exit status and output.
    fn run(&mut self, command: &str) -> Result<(i32, String), String> {
        let script = format!("{{ {command}\n}} < /dev/null\nprintf '\\n{END}%s\\n' \"$?\"\n");
        self.input.write_all(script.as_bytes()).map_err(|error| format!("the shell: {error}"))?;
        let began = Instant::now();
        let mut output = String::new();
        loop {
            match self.output.recv_timeout(DEADLINE.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    if let Some(status) = line.strip_prefix(END) {
                        let status = status.parse().map_err(|_| format!("status {status:?}"))?;
                        return Ok((status, output.trim_end_matches('\n').to_owned() + "\n"));
                    }
                    output.push_str(&line);
                    output.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("$ {command}\nhas not ended; so far:\n{output}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("$ {command}\nended the shell:\n{output}"));
                }
            }
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
