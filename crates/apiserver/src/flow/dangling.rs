//! The `Dangling` condition of FlowSchemas: whether the PriorityLevelConfiguration that they name
//! is missing.

use std::{collections::HashSet, sync::Weak, time::Duration};

use ::schema::Kind;
use api::flowcontrol::{FlowSchema, PriorityLevelConfiguration};
use object::{Object, Status, Value, View};
use server::{ListOptions, Registry, Selection};
use store::{Cursor, Topic};
use tokio::time::sleep;
use tracing::warn;

use super::GROUP;
use crate::condition::ConditionUpdate;

/// The field manager of the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps the conditions up to date until the registry is dropped.
pub(crate) async fn run(registry: Weak<Registry>) {
    while let Some(known) = registry.upgrade() {
        let told = panics::contain("flow schemas", tell(&known)).await;
        let told = told.unwrap_or_else(|why| Err(Status::internal(why.to_string())));
        drop(known);
        match told {
            // An error means that the cursor missed changes; everything is read again.
            Ok((mut schemas, mut levels)) => tokio::select! {
                _ = schemas.next() => {}
                _ = levels.next() => {}
            },
            Err(status) => {
                warn!(error = status.message(), "cannot update the status of FlowSchemas");
                sleep(AGAIN).await;
            }
        }
    }
}

/// Reports changes of a resource.
type Changes = Cursor<Value>;

/// Writes the conditions that have changed. The cursors report further changes of schemas and
/// levels.
async fn tell(registry: &Registry) -> Result<(Changes, Changes), Status> {
    let all = |plural: &str| {
        let kind = registry.kind(GROUP, plural)?;
        let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
        let changes = Cursor::open(kind.objects()?, Topic::All, list.revision);
        let changes = changes.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok::<_, Status>((kind, list.items, changes))
    };
    let (kind, schemas, of_schemas) = all(FlowSchema::NAMES.plural)?;
    let (_, levels, of_levels) = all(PriorityLevelConfiguration::NAMES.plural)?;
    let name = |object: &Value| Object::view(object).metadata().name().to_owned();
    let levels: HashSet<String> = levels.iter().map(|version| name(&version.object)).collect();
    for version in schemas {
        let object = &version.object;
        let level = FlowSchema::view(object).spec().priority_level_configuration().name();
        let (status, reason, end) = if levels.contains(level) {
            ("False", "Found", "and it exists")
        } else {
            ("True", "NotFound", "but there is no such object")
        };
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}"
        );
        let condition = ConditionUpdate { kind: "Dangling", status, reason, message: &message };
        condition.apply(registry, &kind, MANAGER, object).await?;
    }
    Ok((of_schemas, of_levels))
}
