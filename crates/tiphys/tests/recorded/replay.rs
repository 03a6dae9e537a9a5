//! Runs a case and reports where it differs from the recording.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    cases::{Case, Printed},
    normal::Normal,
    process::{self, Finished},
    table,
    world::World,
};

/// Maximum number of lines of a differing text that are printed.
const LINES: usize = 12;

/// Runs cases against a server.
pub(crate) struct Replay {
    /// A folder for this replay, with the kubeconfig `kubeconfig`.
    folder: PathBuf,
    /// Host and port of the server.
    host: String,
    world: World,
    /// The program under the name `kubectl`.
    kubectl: PathBuf,
    home: PathBuf,
    /// Number of the next case's directory.
    next: AtomicUsize,
}

impl Replay {
    /// Creates the objects of the world; `program` is a kubectl.
    pub(crate) fn start(folder: &Path, host: String, program: &Path) -> Self {
        let (bin, home) = (folder.join("bin"), folder.join("home"));
        fs::create_dir(&bin).expect("a new folder");
        fs::create_dir(&home).expect("a new folder");
        let kubectl = bin.join("kubectl");
        symlink(program, &kubectl).expect("a new link");
        let world = World::build(&folder.join("kubeconfig"));
        Self { folder: folder.to_owned(), host, world, kubectl, home, next: AtomicUsize::new(0) }
    }

    /// Runs a case; returns the differences, none if the output matches.
    pub(crate) fn run(&self, case: &Case) -> Vec<String> {
        let (mut out, printed) = self.print(case);
        let steps = [&case.command].into_iter().chain(&case.after);
        for (step, found) in steps.zip(printed).filter(|(step, found)| step.output != *found) {
            out.push(format!("  kubectl {}", step.args.join(" ")));
            out.extend(differences(&step.output, &found));
        }
        out
    }

    /// Runs a case; returns what failed before it, and the normalised output of its commands.
    pub(crate) fn print(&self, case: &Case) -> (Vec<String>, Vec<Printed>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("case-{number:05}"));
        fs::create_dir_all(folder.join(".tmp")).expect("a new folder");
        write_files(&folder, case);
        let mut out = vec![];
        let own = case
            .files
            .iter()
            .any(|(name, text)| name.contains("kubeconfig") || text.contains("kubeconfig"));
        for args in &case.setup {
            let done = self.kubectl(args, &folder, if own { &case.env } else { &[] }, None);
            if done.code != 0 {
                out.push(format!("  setup: kubectl {}: {}", args.join(" "), done.stderr.trim()));
            }
        }
        let mut printed = vec![];
        for (nth, step) in [&case.command].into_iter().chain(&case.after).enumerate() {
            let stdin = case.stdin.as_deref().filter(|_| nth == 0);
            let done = self.kubectl(&step.args, &folder, &case.env, stdin);
            printed.push(self.normalise(case, &step.args, &done, &folder));
        }
        for args in &case.cleanup {
            self.kubectl(args, &folder, &[], None);
        }
        if case.mutates {
            self.world.empty_scratch();
        }
        fs::remove_dir_all(&folder).expect("our own folder");
        (out, printed)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn kubectl(
        &self,
        args: &[String],
        folder: &Path,
        env: &[(String, String)],
        stdin: Option<&str>,
    ) -> Finished {
        let cwd = text(folder);
        let mut variables = vec![
            ("HOME".to_owned(), text(&self.home)),
            ("TMPDIR".to_owned(), format!("{cwd}/.tmp")),
            ("KUBECONFIG".to_owned(), text(&self.kubeconfig())),
        ];
        variables
            .extend(env.iter().map(|(name, value)| (name.clone(), value.replace("${cwd}", &cwd))));
        process::run(&self.kubectl, args, folder, &variables, stdin)
    }

    fn normalise(&self, case: &Case, args: &[String], done: &Finished, folder: &Path) -> Printed {
        let cwd = text(folder);
        let places = vec![
            (format!("{cwd}/.tmp"), "<tmp>"),
            (cwd, "<cwd>"),
            (text(&self.home), "<home>"),
            (text(&self.kubeconfig()), "<kubeconfig>"),
            (text(&self.kubectl), "kubectl"),
            (format!("https://{}", self.host), "<server>"),
            (self.host.clone(), "<host>"),
            (self.host.rsplit(':').next().unwrap_or_default().to_owned(), "<port>"),
        ];
        let normal =
            Normal { places, explain: args.first().is_some_and(|first| first == "explain") };
        let (mut stdout, mut stderr) = (normal.text(&done.stdout), normal.text(&done.stderr));
        if args.iter().any(|arg| arg == "--no-headers" || arg == "--no-headers=true") {
            stdout = table::without_header(&stdout);
        }
        if let Some(head) = case.head {
            stdout = stdout.split_inclusive('\n').take(head).collect();
        }
        if case.sort {
            let mut lines: Vec<&str> = stdout.split_inclusive('\n').collect();
            lines.sort_unstable();
            stdout = lines.concat();
        }
        for (pattern, by) in &case.sub {
            stdout = pattern.replace_all(&stdout, by).into_owned();
            stderr = pattern.replace_all(&stderr, by).into_owned();
        }
        Printed { stdout, stderr, code: done.code }
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of text").to_owned()
}

fn write_files(folder: &Path, case: &Case) {
    for (name, text) in &case.files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a new file");
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
        }
    }
}

/// Formats the differences, starting at the first line that differs.
fn differences(expected: &Printed, found: &Printed) -> Vec<String> {
    let mut out = vec![];
    if expected.code != found.code {
        out.push(format!("    exit code: expected {}, found {}", expected.code, found.code));
    }
    let texts =
        [("stdout", &expected.stdout, &found.stdout), ("stderr", &expected.stderr, &found.stderr)];
    for (name, expected, found) in
        texts.into_iter().filter(|(_, expected, found)| expected != found)
    {
        let same = expected
            .split('\n')
            .zip(found.split('\n'))
            .take_while(|(one, other)| one == other)
            .count();
        out.push(format!("    {name}, from line {}:", same + 1));
        for (mark, text) in [("-", expected), ("+", found)] {
            let lines = text.split('\n').skip(same).take(LINES);
            out.extend(lines.map(|line| format!("      {mark}{line}")));
        }
    }
    out
}
