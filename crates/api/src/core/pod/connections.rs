//! The query parameters of a pod's log and of connections with it.

use schema::QueryParameter;

pub(super) const ATTACH: &[QueryParameter] = &[CONTAINER, STDERR, STDIN, STDOUT, TTY];
pub(super) const EXEC: &[QueryParameter] = &[
    ("command", "string", "The program and its arguments."),
    CONTAINER,
    STDERR,
    STDIN,
    STDOUT,
    TTY,
];
pub(super) const LOG: &[QueryParameter] = &[
    ("container", "string", "Whose log; the only container's, if there is one."),
    ("follow", "boolean", "Whether what comes is sent as it comes."),
    (
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Whether the kubelet is believed without a certificate that is known.",
    ),
    ("limitBytes", "integer", "How much is sent at most."),
    ("previous", "boolean", "The log of the container that ran before."),
    ("sinceSeconds", "integer", "Only what is not older than this."),
    ("stream", "string", "All, Stdout or Stderr."),
    ("tailLines", "integer", "Only so many lines from the end."),
    ("timestamps", "boolean", "Whether each line begins with its time."),
];
pub(super) const PORT_FORWARD: &[QueryParameter] = &[("ports", "integer", "The ports to forward.")];

const CONTAINER: QueryParameter =
    ("container", "string", "The container; the only one, if there is one.");
const STDERR: QueryParameter = ("stderr", "boolean", "Whether errors are passed back.");
const STDIN: QueryParameter = ("stdin", "boolean", "Whether input is passed on.");
const STDOUT: QueryParameter = ("stdout", "boolean", "Whether output is passed back.");
const TTY: QueryParameter = ("tty", "boolean", "Whether it is a terminal.");
