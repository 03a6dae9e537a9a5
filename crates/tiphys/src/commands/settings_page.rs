//! The settings chapter of the user's book, derived from the flags of `up` and `join`. The test fails where the
//! chapter differs; `TIPHYS_WRITE_DOCS=1 cargo test -p tiphys settings_page` rewrites it.

use std::{env, fs};

use clap::{Args, Command};

use crate::up;

const PAGE: &str = "../../docs/book/src/settings.md";

const BEGINNING: &str = "# Settings

`tiphys up` and `tiphys join` take these flags. What the first start chose is kept in `config.yaml` in the data folder; every setting can be changed
by running `up` again with other flags, or by changing the file and running `up` again. What cannot change while objects depend on it is refused with the reason and the
way. An unknown key is an error that names it, with line and column.

This page is derived from the declarations of the flags.
";

#[test]
fn the_page_is_derived_from_the_flags() {
    let up = up::start::UpArgs::augment_args(Command::new("up"));
    let join = up::join::JoinArgs::augment_args(Command::new("join"));
    let page = format!("{BEGINNING}{}{}", table(&up), table(&join));
    if env::var_os("TIPHYS_WRITE_DOCS").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap();
    assert!(written == page, "{PAGE} is not what the flags say; see the module's comment");
}

fn table(command: &Command) -> String {
    let mut text =
        format!("\n## `tiphys {}`\n\n| flag | meaning |\n|---|---|\n", command.get_name());
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        let Some(name) = flag.get_long() else { continue };
        let values = flag.get_value_names().unwrap_or_default();
        let value = values.first().filter(|_| flag.get_action().takes_values());
        let value = value.map(|value| format!(" {value}")).unwrap_or_default();
        let about = flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
        let about = about.unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let defaults: Vec<_> =
            flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let is_shown = flag.get_action().takes_values() && !defaults.is_empty();
        let usual =
            if is_shown { format!(" Usually `{}`.", defaults.join(",")) } else { String::new() };
        text.push_str(&format!("| `--{name}{value}` | {about}{usual} |\n"));
    }
    text
}
