//! `image`: what the node can start containers from.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Parser, Subcommand};
use container::{Cri, cri};

use super::{parse, run_async};
use crate::up::{self, Layout, Place};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Take the images of an OCI or docker archive.
    Import { archive: PathBuf },
    /// Write an image as an OCI archive, for other runtimes.
    Export { image: String, archive: PathBuf },
    /// Name the images that are there.
    List,
    /// Remove an image.
    Rm { image: String },
    /// Get an image from its registry.
    Pull { image: String },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("image", args) {
        Ok(Arguments { place, what }) => {
            run_async("image", async move { act(&place.existing()?, what).await })
        }
        Err(code) => code,
    }
}

async fn act(layout: &Layout, what: What) -> Result<()> {
    let runtime = async || {
        let cri = Cri::connect(&layout.path("run/cri.sock")).await;
        cri.map(|cri| cri.images).context("no node runs here: see `tiphys status`")
    };
    let spec = |image: String| Some(cri::ImageSpec { image, ..cri::ImageSpec::default() });
    let told = |status: tonic::Status| anyhow!("{}", status.message());
    match what {
        What::Import { archive } => print!("{}", up::import(layout, &archive)?),
        What::Export { image, archive } => up::export(layout, &image, &archive)?,
        What::List => {
            let request = cri::ListImagesRequest::default();
            let all = runtime().await?.list_images(request).await.map_err(told)?.into_inner();
            for image in all.images {
                let name = image.repo_tags.first().or(image.repo_digests.first());
                println!("{:<60} {} {}", name.unwrap_or(&image.id), &image.id, image.size);
            }
        }
        What::Rm { image } => {
            let there = cri::ImageStatusRequest { image: spec(image.clone()), verbose: false };
            let mut runtime = runtime().await?;
            let there = runtime.image_status(there).await.map_err(told)?.into_inner();
            ensure!(there.image.is_some(), "image {image:?} not found");
            let request = cri::RemoveImageRequest { image: spec(image) };
            runtime.remove_image(request).await.map_err(told)?;
        }
        What::Pull { image } => {
            let request =
                cri::PullImageRequest { image: spec(image), ..cri::PullImageRequest::default() };
            let pulled = runtime().await?.pull_image(request).await.map_err(told)?;
            println!("{}", pulled.into_inner().image_ref);
        }
    }
    Ok(())
}
