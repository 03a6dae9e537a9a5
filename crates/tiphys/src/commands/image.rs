//! `image`: what the node can start containers from.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use container::{Cri, cri};

use super::{parse, run_async};
use crate::up::{self, Layout};

#[derive(Parser)]
struct Arguments {
    /// Where everything of the cluster is kept.
    #[arg(long, default_value = "/var/lib/tiphys", global = true)]
    data_dir: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Take the images of an OCI or docker archive.
    Import { archive: PathBuf },
    /// Name the images that are there.
    List,
    /// Remove an image.
    Rm { image: String },
    /// Get an image from its registry.
    Pull { image: String },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("image", args) {
        Ok(Arguments { data_dir, what }) => {
            run_async("image", async move { act(&Layout::new(&data_dir), what).await })
        }
        Err(code) => code,
    }
}

async fn act(layout: &Layout, what: What) -> Result<()> {
    if let What::Import { archive } = &what {
        print!("{}", up::import(layout, archive)?);
        return Ok(());
    }
    let mut images = Cri::connect(&layout.path("run/cri.sock")).await?.images;
    let spec = |image: String| Some(cri::ImageSpec { image, ..cri::ImageSpec::default() });
    match what {
        What::Import { .. } => {}
        What::List => {
            let all = images.list_images(cri::ListImagesRequest::default()).await?.into_inner();
            for image in all.images {
                let name = image.repo_tags.first().or(image.repo_digests.first());
                println!("{:<60} {} {}", name.unwrap_or(&image.id), &image.id, image.size);
            }
        }
        What::Rm { image } => {
            images.remove_image(cri::RemoveImageRequest { image: spec(image) }).await?;
        }
        What::Pull { image } => {
            let request =
                cri::PullImageRequest { image: spec(image), ..cri::PullImageRequest::default() };
            println!("{}", images.pull_image(request).await?.into_inner().image_ref);
        }
    }
    Ok(())
}
