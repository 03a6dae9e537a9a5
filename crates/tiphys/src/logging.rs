//! Logging of a process to standard error, or as the API server's logging flags configure it.

mod one_line;

use std::{
    fmt,
    io::{self, BufWriter, LineWriter, Stdout, Write},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use apiserver::Logging;
use object::{Clock as _, SystemClock, Value, to_json};
use tracing::{Event, Level, Metadata, Subscriber, field::Field};
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{FilterExt as _, filter_fn},
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use self::one_line::OneLine;

/// Starts logging at level `info`, unless `RUST_LOG` sets other levels.
pub(crate) fn start() {
    start_at("info");
}

/// Starts logging at a level, unless `RUST_LOG` sets other levels. Only the first call has an effect.
pub(crate) fn start_at(level: &str) {
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_writer(io::stderr)
        .with_ansi(false)
        .log_internal_errors(false) // reporting a full disk there would panic
        .event_format(OneLine::new())
        .try_init();
}

/// Starts logging as the `--v`, `--vmodule` and `--logging-format` family of flags configure it.
pub(crate) fn start_with(logging: &Logging) {
    let modules = logging.modules.clone();
    let all = move |level| {
        let modules = modules.clone();
        let named = filter_fn(move |about| {
            let file = about.file().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
            let file = file.trim_end_matches(".rs");
            let levels = modules.iter().filter(|(pattern, _)| matches(pattern, file));
            levels.into_iter().any(|(_, level)| *about.level() <= level_for_verbosity(*level))
        });
        filter(&level_for_verbosity(level).to_string()).or(named)
    };
    let (filter, handle) = reload::Layer::new(all(logging.level));
    apiserver::register_verbosity_setter(move |level| {
        let _ = handle.reload(all(level)); // cannot fail: the layer lives as long as the process
    });
    let streams = Streams::new(logging);
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(streams)
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry();
    let _ = match logging.json {
        true => registry.with(layer.event_format(Json).with_filter(filter)).try_init(),
        false => registry.with(layer.event_format(OneLine::new()).with_filter(filter)).try_init(),
    };
}

/// Writes the buffered log lines.
pub(crate) fn flush() {
    if let Some(waiting) = INFO_BUFFER.get() {
        let _ = waiting.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("{level},hyper=warn,rustls=warn")))
}

/// The tracing level for one of upstream's `--v` levels.
fn level_for_verbosity(level: u8) -> Level {
    match level {
        0..=3 => Level::INFO,
        4..=6 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Whether a name matches a glob pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), first) => {
            matches(&pattern[1..], name)
                || first.is_some_and(|first| matches(pattern, &name[first.len_utf8()..]))
        }
        (Some(wanted), Some(first)) if wanted == '?' || wanted == first => {
            matches(&pattern[wanted.len_utf8()..], &name[first.len_utf8()..])
        }
        _ => false,
    }
}

/// Buffer of the log lines that are not errors.
static INFO_BUFFER: OnceLock<Arc<Mutex<BufWriter<Stdout>>>> = OnceLock::new();

/// Output streams of the log. If `split`, errors go to standard error and all else to standard output.
#[derive(Clone)]
struct Streams {
    split: bool,
    buffered: Option<Arc<Mutex<BufWriter<Stdout>>>>,
}

impl Streams {
    fn new(logging: &Logging) -> Self {
        if !logging.split || logging.buffer == 0 {
            return Self { split: logging.split, buffered: None };
        }
        let buffered = Arc::new(Mutex::new(BufWriter::with_capacity(logging.buffer, io::stdout())));
        let _ = INFO_BUFFER.set(buffered.clone());
        let every = logging.flush;
        let flusher = thread::Builder::new().name("log".to_owned());
        let _ = flusher.spawn(move || {
            loop {
                thread::sleep(every);
                flush();
            }
        });
        Self { split: true, buffered: Some(buffered) }
    }
}

/// The stream that a log line is written to.
enum LogTarget {
    Error(io::Stderr),
    Out(LineWriter<Stdout>),
    Buffered(Arc<Mutex<BufWriter<Stdout>>>),
}

impl Write for LogTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Error(to) => to.write(bytes),
            Self::Out(to) => to.write(bytes),
            Self::Buffered(to) => to.lock().unwrap_or_else(PoisonError::into_inner).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Error(to) => to.flush(),
            Self::Out(to) => to.flush(),
            Self::Buffered(_) => Ok(()), // flushed at an interval
        }
    }
}

impl MakeWriter<'_> for Streams {
    type Writer = LogTarget;

    fn make_writer(&self) -> LogTarget {
        LogTarget::Error(io::stderr())
    }

    fn make_writer_for(&self, about: &Metadata<'_>) -> LogTarget {
        match &self.buffered {
            _ if !self.split || *about.level() == Level::ERROR => LogTarget::Error(io::stderr()),
            Some(buffered) => LogTarget::Buffered(buffered.clone()),
            None => LogTarget::Out(LineWriter::new(io::stdout())),
        }
    }
}

/// Formats an event as a line of JSON like upstream: timestamp, caller, message, then the fields.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        let mut line = Value::object();
        let micros = SystemClock.now_micros();
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a date fit")]
        let millis = micros as f64 / 1e3;
        line["ts"] = millis.into();
        let file = about.file().unwrap_or_default();
        let short = file.rmatch_indices('/').nth(1).map_or(file, |(at, _)| &file[at + 1..]);
        line["caller"] = format!("{short}:{}", about.line().unwrap_or_default()).into();
        line["msg"] = "".into();
        match *about.level() {
            Level::ERROR => {}
            Level::WARN | Level::INFO => line["v"] = 0.into(),
            Level::DEBUG => line["v"] = 4.into(),
            _ => line["v"] = 7.into(),
        }
        event.record(&mut Fields(&mut line));
        writeln!(out, "{}", String::from_utf8_lossy(&to_json(&line)))
    }
}

/// Collects the fields of an event into an object.
struct Fields<'a>(&'a mut Value);

impl Fields<'_> {
    fn set(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            "message" => "msg",
            "error" => "err",
            name => name,
        };
        self.0[name] = value;
    }
}

impl tracing::field::Visit for Fields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_json() {
        let kept = Kept::default();
        let to = kept.clone();
        let layer = tracing_subscriber::fmt::layer().event_format(Json);
        let layer = layer.with_writer(move || to.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(port = 7, name = "n", "serving");
            tracing::error!(error = "broken", "cannot");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.lines().map(|line| object::from_json(line.as_bytes())).collect();
        let [Ok(first), Ok(second)] = &*lines else { panic!("{text}") };
        assert_eq!(first["msg"].as_str(), Some("serving"));
        assert_eq!((first["v"].as_i64(), first["port"].as_i64()), (Some(0), Some(7)));
        assert!(first["caller"].as_str().unwrap().starts_with("src/logging.rs:"), "{text}");
        assert!(second.get("v").is_null());
        assert_eq!(second["err"].as_str(), Some("broken"));
    }

    #[test]
    fn what_is_logged_stays_in_its_line() {
        let kept = Kept::default();
        let to = kept.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).event_format(OneLine::new());
        let layer = layer.with_writer(move || to.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(error = %"no kind X\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J", "cannot");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(r"X\n2026") && text.ends_with('\n'), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn names_of_files_match_patterns() {
        assert!(matches("reg*", "registry") && matches("a?c", "abc") && matches("*", ""));
        assert!(!matches("reg", "registry") && !matches("a?c", "ac"));
    }

    #[test]
    fn errors_have_a_stream_of_their_own() {
        let flush = std::time::Duration::from_secs(5);
        let modules = Vec::new();
        let one = Logging { json: false, level: 0, modules, split: false, buffer: 0, flush };
        let two = Logging { split: true, ..one.clone() };
        assert!(!Streams::new(&one).split && Streams::new(&two).split);
    }
}
