//! What a process says about itself, on standard error.

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` says how much; without it, what an operator wants to know.
pub(crate) fn start() {
    start_at("info");
}

/// The same, at a level unless `RUST_LOG` says another. The first call counts.
pub(crate) fn start_at(level: &str) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("{level},hyper=warn,rustls=warn")));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
