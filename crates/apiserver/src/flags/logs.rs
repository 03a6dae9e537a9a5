//! Flags about logging.

use std::{sync::OnceLock, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::{ArgAction, Args};
use object::Quantity;
use schema::{ErrorList, FeatureGates, FieldPath};

use crate::{
    config::duration,
    features::{LOG_JSON, LOG_STREAMS},
    structured::aggregate,
};

#[derive(Args, Clone, Debug)]
pub struct LogFlags {
    /// How much is logged: 0, the usual, to 10.
    #[arg(long, short = 'v', default_value_t = 0, value_name = "LEVEL")]
    pub v: u8,
    /// How much is logged by files of the source whose names match: PATTERN=LEVEL. Only text.
    #[arg(long, value_delimiter = ',', value_name = "PATTERN=LEVEL")]
    pub vmodule: Vec<String>,
    /// How what is logged looks: text or json.
    #[arg(long, default_value = "text")]
    pub logging_format: String,
    /// How long what is logged may wait, where it does.
    #[arg(long, default_value = "5s")]
    pub log_flush_frequency: String,
    /// How many bytes of JSON may wait that are no errors. Needs LoggingAlphaOptions.
    #[arg(long, default_value = "0")]
    pub log_json_info_buffer_size: String,
    /// Whether JSON of errors goes to standard error, and all else to standard output. Needs
    /// LoggingAlphaOptions.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub log_json_split_stream: bool,
    /// How many bytes of text may wait that are no errors. Needs LoggingAlphaOptions.
    #[arg(long, default_value = "0")]
    pub log_text_info_buffer_size: String,
    /// Whether text of errors goes to standard error, and all else to standard output. Needs
    /// LoggingAlphaOptions.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub log_text_split_stream: bool,
}

/// The validated logging flags.
#[derive(Clone, Debug)]
pub struct Logging {
    pub json: bool,
    pub level: u8,
    /// Patterns of source file names without extension, and their levels (`--vmodule`).
    pub modules: Vec<(String, u8)>,
    /// Whether everything except errors goes to standard output.
    pub split: bool,
    /// Size of the buffer for messages that are not errors, in bytes.
    pub buffer: usize,
    /// Interval at which the buffer is flushed.
    pub flush: Duration,
}

/// The function that changes the log level of this process.
static SET_VERBOSITY: OnceLock<Box<dyn Fn(u8) + Send + Sync>> = OnceLock::new();

/// Registers the function that changes the log level while the process runs. Only the first call
/// counts.
pub fn register_verbosity_setter(set: impl Fn(u8) + Send + Sync + 'static) {
    let _ = SET_VERBOSITY.set(Box::new(set));
}

/// Changes the log level; returns false if no setter is registered.
pub(crate) fn set_verbosity(level: u8) -> bool {
    let set = SET_VERBOSITY.get();
    set.into_iter().for_each(|set| set(level));
    set.is_some()
}

impl LogFlags {
    /// Validates the logging flags.
    pub(crate) fn logging(&self, gates: &FeatureGates) -> Result<Logging> {
        let mut errors = ErrorList::default();
        let flush = duration(&self.log_flush_frequency).context("--log-flush-frequency")?;
        if flush.is_zero() {
            let at = FieldPath::Root.field("flushFrequency");
            errors.invalid(&at, &*self.log_flush_frequency, "Must be greater than zero");
        }
        let json = self.logging_format == "json";
        let (at, format) = (FieldPath::Root.field("format"), &*self.logging_format);
        if !json && format != "text" {
            errors.invalid(&at, format, "Unsupported log format");
        } else if json && !gates.is_enabled(LOG_JSON) {
            let why = format!("Log format {format} is disabled, see {LOG_JSON} feature");
            errors.forbidden(&at, why);
        }
        if json && !self.vmodule.is_empty() {
            errors
                .forbidden(&FieldPath::Root.field("vmodule"), "Only supported for text log format");
        }
        let options = FieldPath::Root.field("options");
        let mut chosen = (false, 0);
        for (name, split, buffer) in [
            ("text", self.log_text_split_stream, &self.log_text_info_buffer_size),
            ("json", self.log_json_split_stream, &self.log_json_info_buffer_size),
        ] {
            let why = format!("Feature {LOG_STREAMS} is disabled");
            let at = options.field(name);
            let size = bytes(buffer).with_context(|| format!("--log-{name}-info-buffer-size"))?;
            if split && !gates.is_enabled(LOG_STREAMS) {
                errors.forbidden(&at.field("splitStream"), &*why);
            }
            if size > 0 && !gates.is_enabled(LOG_STREAMS) {
                errors.forbidden(&at.field("infoBufferSize"), &*why);
            }
            if name == format {
                chosen = (split, size);
            }
        }
        ensure!(errors.is_empty(), aggregate(&errors));
        let modules = self.vmodule.iter().map(|said| module(said));
        let modules = modules.collect::<Result<_>>()?;
        let (split, buffer) = chosen;
        Ok(Logging { json, level: self.v, modules, split, buffer, flush })
    }
}

fn bytes(text: &str) -> Result<usize> {
    let quantity: Quantity = text.parse().map_err(|_| anyhow::anyhow!("{text:?} is no size"))?;
    Ok(usize::try_from(quantity.value())?)
}

fn module(said: &str) -> Result<(String, u8)> {
    let wrong = || format!("invalid argument {said:?} for \"--vmodule\" flag: say PATTERN=LEVEL");
    let (pattern, level) = said.split_once('=').with_context(wrong)?;
    ensure!(!pattern.is_empty(), wrong());
    Ok((pattern.to_owned(), level.parse().with_context(wrong)?))
}
