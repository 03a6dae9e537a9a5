//! A pseudo-terminal with a program in it, and a simulated user who types.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// Timeout of a wait; reached only by a failing test.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program in a pseudo-terminal.
pub(crate) struct Terminal {
    keyboard: File,
    /// Kept open, so that the terminal outlives the program.
    inner: OwnedFd,
    shown: Arc<Mutex<String>>,
    child: Child,
}

impl Terminal {
    /// Runs a command in a terminal of 100 columns and 30 rows that is its controlling terminal.
    pub(crate) fn start(command: &Command) -> Self {
        let (outer, inner) = sys::descriptor::open_pty().expect("a terminal");
        sys::descriptor::set_window_size(&outer, 100, 30).expect("a size");
        let fd = || inner.try_clone().expect("a descriptor");
        let mut inside = Command::new("setsid");
        inside.arg("--ctty").arg(command.get_program()).args(command.get_args());
        let child = inside.stdin(fd()).stdout(fd()).stderr(fd()).spawn().expect("it starts");
        let shown = Arc::new(Mutex::new(String::new()));
        let keyboard = File::from(outer);
        let mut screen = keyboard.try_clone().expect("a descriptor");
        let to = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                to.lock().expect("no panic").push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Self { keyboard, inner, shown, child }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        sys::descriptor::set_window_size(&self.keyboard, columns, rows).expect("a size");
    }

    /// Everything that the terminal has shown so far.
    pub(crate) fn shown(&self) -> String {
        self.shown.lock().expect("no panic").clone()
    }

    pub(crate) fn until_shown(&self, text: &str) {
        let began = Instant::now();
        while !self.shown().contains(text) {
            assert!(began.elapsed() < PATIENCE, "{text:?} is not shown: {:?}", self.shown());
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Waits until the program exits by itself; returns its exit code.
    pub(crate) fn end(&mut self) -> i32 {
        let began = Instant::now();
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {:?}", self.shown());
            sleep(Duration::from_millis(20));
        };
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }

    /// Whether the terminal is in cooked mode, with line editing and echo, as a shell expects it.
    pub(crate) fn is_cooked(&self) -> bool {
        use rustix::termios::{LocalModes, OutputModes, tcgetattr};
        let modes = tcgetattr(self.inner.as_fd()).expect("a terminal");
        modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
            && modes.output_modes.contains(OutputModes::OPOST)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
