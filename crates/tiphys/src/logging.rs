//! What a process says about itself, on standard error.

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` says how much; without it, what an operator wants to know.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,hyper=warn,rustls=warn"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
