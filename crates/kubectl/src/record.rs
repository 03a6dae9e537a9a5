//! `--record`: stores the command line in the change-cause annotation of the object.

use object::Value;

use crate::{error::Result, flags::Flag, invocation::Invocation, select::Info, server::PatchType};

pub(crate) const FLAGS: &[Flag] =
    &[Flag::bool("record").deprecated("--record will be removed in the future")];

/// The change-cause to store, if any.
#[derive(Debug)]
pub(crate) struct ChangeCause(Option<String>);

impl ChangeCause {
    /// The command line, if `--record` is given.
    pub(crate) fn of(call: &Invocation<'_>) -> Self {
        if !call.flags.is_true("record") {
            return Self(None);
        }
        let mut line = format!("kubectl {}", call.command);
        for word in call.args() {
            line += &format!(" {word}");
        }
        for (name, value) in &call.flags.order {
            line += &format!(" --{name}={value}");
        }
        Self(Some(line))
    }

    /// Patches the annotation into an object that has already been changed.
    pub(crate) fn send(&self, call: &Invocation<'_>, info: &Info, object: &mut Value) -> Result {
        if self.0.is_some() {
            let mut patch = Value::object();
            self.annotate(&mut patch);
            *object = call.server()?.patch(&info.path(), PatchType::Merge, &patch)?;
        }
        Ok(())
    }

    /// Sets the change-cause annotation.
    pub(crate) fn annotate(&self, object: &mut Value) {
        if let Some(line) = &self.0 {
            object["metadata"]["annotations"]["kubernetes.io/change-cause"] = line.as_str().into();
        }
    }
}
