//! Flags of upstream's server whose function is missing here. A value that changes nothing is
//! accepted; any other is rejected with the reason.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A flag, the values that it may have, and why no other is supported.
#[derive(Clone, Copy, Debug)]
pub struct UnsupportedFlag {
    pub name: &'static str,
    pub allowed: &'static [&'static str],
    pub why: &'static str,
}

const fn flag(
    name: &'static str,
    allowed: &'static [&'static str],
    why: &'static str,
) -> UnsupportedFlag {
    UnsupportedFlag { name, allowed, why }
}

const PEERS: &str = "requests are not passed on to servers of other versions";
const LEADERS: &str = "coordinated leader election is not implemented";

/// All unsupported flags.
pub const ABSENT_FLAGS: &[UnsupportedFlag] = &[
    flag("coordinated-leadership-lease-duration", &["15s"], LEADERS),
    flag("coordinated-leadership-renew-deadline", &["10s"], LEADERS),
    flag("coordinated-leadership-retry-period", &["2s"], LEADERS),
    flag("debug-socket-path", &[], "there are no profiles to serve"),
    flag("peer-advertise-ip", &[], PEERS),
    flag("peer-advertise-port", &[], PEERS),
    flag("peer-ca-file", &[], PEERS),
];

/// The unsupported flags that were given, with their values.
#[derive(Clone, Debug, Default)]
pub struct UnsupportedFlags(Vec<(&'static str, String)>);

impl UnsupportedFlags {
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in &self.0 {
            let known = ABSENT_FLAGS.iter().find(|flag| flag.name == *name);
            if let Some(flag) = known.filter(|flag| !flag.allowed.contains(&value.as_str())) {
                bail!("--{name}={value} is not supported: {}", flag.why);
            }
        }
        Ok(())
    }
}

impl FromArgMatches for UnsupportedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut said = Self::default();
        said.update_from_arg_matches(matches)?;
        Ok(said)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in ABSENT_FLAGS {
            if let Ok(Some(values)) = matches.try_get_many::<String>(flag.name) {
                self.0.extend(values.map(|value| (flag.name, value.clone())));
            }
        }
        Ok(())
    }
}

impl Args for UnsupportedFlags {
    fn augment_args(command: Command) -> Command {
        command.args(ABSENT_FLAGS.iter().map(|flag| {
            Arg::new(flag.name)
                .long(flag.name)
                .hide(true)
                .action(ArgAction::Append)
                .num_args(0..=1)
                .default_missing_value("true")
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
