//! The flags as text, for `/flagz`.

use std::collections::BTreeMap;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The value of each flag, given or default, as text. It must be the first field of the flags: the
/// others remove their values from the matches.
#[derive(Clone, Debug, Default)]
pub struct GivenFlags(BTreeMap<String, Vec<String>>);

impl GivenFlags {
    /// Every flag of `T` with its value, by name.
    pub fn all<T: Args>(&self) -> BTreeMap<String, String> {
        let command = T::augment_args(Command::new(""));
        let flags = command.get_arguments().map(|flag| {
            let id = flag.get_id().as_str();
            let values = self.0.get(id).map(|values| values.join(",")).unwrap_or_default();
            let text = match flag.get_action() {
                ArgAction::Append => format!("[{values}]"),
                _ => values,
            };
            (id.replace('_', "-"), text)
        });
        flags.collect()
    }
}

impl FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut told = Self::default();
        told.update_from_arg_matches(matches)?;
        Ok(told)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for id in matches.ids() {
            let Ok(Some(values)) = matches.try_get_raw(id.as_str()) else { continue };
            let values = values.map(|value| value.to_string_lossy().into_owned()).collect();
            self.0.insert(id.to_string(), values);
        }
        Ok(())
    }
}

impl Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
