//! `--record`: keeps the command line with the object it changed.

use object::Value;

use crate::{call::Call, fail::Result, flags::Flag, select::Info, server::PatchType};

pub(crate) const FLAGS: &[Flag] =
    &[Flag::bool("record").deprecated("--record will be removed in the future")];

/// What is to be kept, if anything.
#[derive(Debug)]
pub(crate) struct Record(Option<String>);

impl Record {
    pub(crate) fn of(call: &Call<'_>) -> Self {
        if !call.flags.on("record") {
            return Self(None);
        }
        let mut line = format!("kubectl {}", call.command);
        for word in call.words() {
            line += &format!(" {word}");
        }
        for (name, value) in &call.flags.order {
            line += &format!(" --{name}={value}");
        }
        Self(Some(line))
    }

    /// Adds it to an object that was changed already.
    pub(crate) fn send(&self, call: &Call<'_>, info: &Info, object: &mut Value) -> Result {
        if self.0.is_some() {
            let mut patch = Value::object();
            self.note(&mut patch);
            *object = call.server()?.patch(&info.path(), PatchType::Merge, &patch)?;
        }
        Ok(())
    }

    pub(crate) fn note(&self, object: &mut Value) {
        if let Some(line) = &self.0 {
            object["metadata"]["annotations"]["kubernetes.io/change-cause"] = line.as_str().into();
        }
    }
}
