//! The writes to EndpointSlices that this controller and the mirroring controller plan.

use api::EndpointSlice;
use client::Error;
use runtime::{CachedApi, Step};

/// A write to an EndpointSlice.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Create(EndpointSlice),
    Update(EndpointSlice),
    Delete(EndpointSlice),
}

/// Carries out the writes in order. Calls `changed` with the operation of each that succeeded.
pub(crate) async fn execute(
    slices: &CachedApi<EndpointSlice>,
    steps: Vec<Step<Action>>,
    changed: impl Fn(&'static str),
) -> Result<(), Error> {
    for Step { action: act, cause: because } in steps {
        let slices = slices.with_cause(&because);
        match act {
            Action::Create(slice) => match slices.create(slice).await {
                Err(error) if error.is_namespace_terminating() => {}
                made => {
                    made?;
                    changed("create");
                }
            },
            Action::Update(slice) => {
                slices.update(slice).await?;
                changed("update");
            }
            Action::Delete(slice) => {
                slices.delete(&slice).await?;
                changed("delete");
            }
        }
    }
    Ok(())
}
