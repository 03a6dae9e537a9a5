//! `set image`: changes the images of containers.

use std::collections::BTreeMap;

use object::quote::quote;

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, LOCAL, SetMessages, change_all, check_dry_run,
    objects, print,
};
use crate::{
    commands::{DryRun, SELECTOR},
    error::{CommandError, Result},
    invocation::Invocation,
    record,
    workload::{each_container, pod_spec},
};

pub(super) const COMMAND: Command = Command::new(
    "image",
    &[FILES, ALL, SELECTOR, LOCAL, DRY_RUN, FIELD_MANAGER, record::FLAGS, print::FLAGS],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let (words, images) = pairs(call.args())?;
    let infos = objects(call, words)?;
    if images.is_empty() {
        return Err(CommandError::error("at least one image update is required"));
    }
    if images.len() > 1 && images.contains_key("*") {
        return Err(CommandError::error(
            "all containers are already specified by *, but saw more than one container_name=container_image pairs",
        ));
    }
    check_dry_run(call, DryRun::of(call)?)?;
    let setting = SetMessages {
        done: "image updated",
        failed: "failed to patch image update to pod template:",
        always: false,
    };
    change_all(call, infos, &setting, |object, fails| {
        let spec = pod_spec(object)?;
        for (name, image) in &images {
            let found = each_container(
                spec,
                |other| *name == "*" || other == *name,
                |container| {
                    if image.is_empty() {
                        container.remove("image");
                    } else {
                        container["image"] = (*image).into();
                    }
                    Ok(())
                },
            )?;
            if found == 0 {
                fails.push(CommandError::error(format!(
                    "unable to find container named {}",
                    quote(name)
                )));
            }
        }
        Ok(true)
    })
}

/// The arguments before the first `name=image`, and the images by container.
fn pairs(words: &[String]) -> Result<(&[String], BTreeMap<&str, &str>)> {
    let is_pair = |word: &String| {
        word.find('=').is_some_and(|at| at > 0) || word.ends_with('-') && word != "-"
    };
    let split = words.iter().position(is_pair).unwrap_or(words.len());
    let (words, given) = words.split_at(split);
    if let Some(word) = given.iter().find(|word| !is_pair(word)) {
        return Err(CommandError::error(format!(
            "all resources must be specified before image changes: {word}"
        )));
    }
    let wrong: Vec<String> =
        given.iter().filter(|word| !word.contains('=')).map(|word| quote(word)).collect();
    if !wrong.is_empty() {
        return Err(CommandError::error(format!("invalid image format: {}", wrong.join(", "))));
    }
    Ok((words, given.iter().filter_map(|pair| pair.split_once('=')).collect()))
}
