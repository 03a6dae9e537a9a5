//! What is done to slices, by whoever plans it.

use api::EndpointSlice;
use client::Error;
use runtime::{Objects, Step};

#[derive(Debug, PartialEq)]
pub(crate) enum Act {
    Create(EndpointSlice),
    Update(EndpointSlice),
    Delete(EndpointSlice),
}

pub(crate) async fn carry_out(
    slices: &Objects<EndpointSlice>,
    steps: Vec<Step<Act>>,
) -> Result<(), Error> {
    for Step { act, because } in steps {
        let slices = slices.because(&because);
        match act {
            Act::Create(slice) => match slices.create(slice).await {
                Err(error) if error.is_namespace_terminating() => {}
                made => drop(made?),
            },
            Act::Update(slice) => drop(slices.update(slice).await?),
            Act::Delete(slice) => slices.delete(&slice).await?,
        }
    }
    Ok(())
}
