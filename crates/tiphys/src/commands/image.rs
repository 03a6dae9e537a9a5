//! `image`: manages the container images of this node.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Parser, Subcommand};
use container::{CriClient, cri};

use super::{columns, human_size, parse, run_async};
use crate::up::{self, DataDir, Place};

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    what: ImageCommand,
}

#[derive(Subcommand)]
enum ImageCommand {
    /// Import the images of an OCI or docker archive; - reads standard input.
    Import { archive: PathBuf },
    /// Export an image as an OCI archive.
    Export { image: String, archive: PathBuf },
    /// List the images of this node, with all their names.
    List,
    /// Remove an image.
    Rm { image: String },
    /// Pull an image from its registry.
    Pull { image: String },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("image", args) {
        Ok(Arguments { place, what }) => {
            run_async("image", async move { run_command(&place.existing()?, what).await })
        }
        Err(code) => code,
    }
}

async fn run_command(layout: &DataDir, what: ImageCommand) -> Result<()> {
    let runtime = async || {
        let cri = CriClient::connect(&layout.path("run/cri.sock")).await;
        cri.map(|cri| cri.images).context("no node runs here: see `tiphys status`")
    };
    let spec = |image: String| Some(cri::ImageSpec { image, ..cri::ImageSpec::default() });
    let message = |status: tonic::Status| anyhow!("{}", status.message());
    match what {
        ImageCommand::Import { archive } => print!("{}", up::import(layout, &archive)?),
        ImageCommand::Export { image, archive } => up::export(layout, &image, &archive)?,
        ImageCommand::List => {
            let request = cri::ListImagesRequest::default();
            let all = runtime().await?.list_images(request).await.map_err(message)?.into_inner();
            print!("{}", list(&all.images));
        }
        ImageCommand::Rm { image } => {
            let there = cri::ImageStatusRequest { image: spec(image.clone()), verbose: false };
            let mut runtime = runtime().await?;
            let there = runtime.image_status(there).await.map_err(message)?.into_inner();
            ensure!(there.image.is_some(), "image {image:?} not found");
            let request = cri::RemoveImageRequest { image: spec(image) };
            runtime.remove_image(request).await.map_err(message)?;
        }
        ImageCommand::Pull { image } => {
            let request =
                cri::PullImageRequest { image: spec(image), ..cri::PullImageRequest::default() };
            let pulled = runtime().await?.pull_image(request).await.map_err(message)?;
            println!("{}", pulled.into_inner().image_ref);
        }
    }
    Ok(())
}

/// A table with one line for each name of each image.
fn list(images: &[cri::Image]) -> String {
    let mut rows = vec![["NAME", "IMAGE ID", "SIZE"].map(str::to_owned)];
    for image in images {
        let short = image.id.trim_start_matches("sha256:").chars().take(12).collect::<String>();
        let none = ["<none>".to_owned()];
        let names = match (image.repo_tags.is_empty(), image.repo_digests.is_empty()) {
            (false, _) => &image.repo_tags[..],
            (true, false) => &image.repo_digests[..],
            (true, true) => &none,
        };
        for name in names {
            rows.push([name.clone(), short.clone(), human_size(image.size)]);
        }
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_shown_with_all_names_and_sizes_for_people() {
        let image = |tags: &[&str], digests: &[&str], size| cri::Image {
            id: format!("sha256:{}", "a".repeat(64)),
            repo_tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            repo_digests: digests.iter().map(|digest| (*digest).to_owned()).collect(),
            size,
            ..cri::Image::default()
        };
        let text = list(&[
            image(&["a:1", "b/a:latest"], &[], 1536),
            image(&[], &["c@sha256:00"], 12),
            image(&[], &[], 3 << 30),
        ]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").filter(|w| !w.is_empty()).map(str::trim).collect())
            .collect();
        assert_eq!(lines[0], ["NAME", "IMAGE ID", "SIZE"]);
        assert_eq!(lines[1], ["a:1", "aaaaaaaaaaaa", "1.5 KiB"]);
        assert_eq!(lines[2], ["b/a:latest", "aaaaaaaaaaaa", "1.5 KiB"]);
        assert_eq!(lines[3], ["c@sha256:00", "aaaaaaaaaaaa", "12 B"]);
        assert_eq!(lines[4], ["<none>", "aaaaaaaaaaaa", "3.0 GiB"]);
    }
}
