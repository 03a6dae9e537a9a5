//! List and watch options: selectors, pagination, and the resourceVersion to read at.

use std::{sync::Arc, time::Duration};

use object::{
    Status, Text,
    selector::{FieldSelector, Selector},
};
use schema::{ErrorList, FieldPath};

use crate::{
    ListOptions, Query, Registry, Reply, Request, Selection, ServedResource, Server, WatchStart,
    metrics::Labels,
    negotiate::{EndpointRestrictions, negotiate},
    registry::{ContinueToken, nanos, path, random_fraction, revision, store_status, unparsed},
    watch_body::{self, WatchParams},
};

/// How long a read waits for a resourceVersion that this server has not seen yet.
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

/// Parses and validates the selectors of a list or watch request.
pub(crate) fn selection(served: &ServedResource, request: &Request) -> Result<Selection, Status> {
    let query = &request.query;
    query.integer("timeoutSeconds")?;
    query.integer("limit")?;
    let labels = Selector::parse(query.get("labelSelector").unwrap_or_default())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    if request.info.verb == "watch" { check_watch(query) } else { check(query) }?;
    let (known, namespaced) =
        (served.definition.strategy.selectable_fields(), served.definition.is_namespaced());
    let own = !known.is_empty() || served.definition.is_custom();
    for term in &fields.terms {
        let field = &*term.field;
        let common = match field {
            "" => term.value.is_empty(),
            "metadata.name" => true,
            "metadata.namespace" => namespaced || !own,
            _ => false,
        };
        if common || known.contains(&field) {
            continue;
        }
        return Err(Status::bad_request(match own {
            true => {
                let names = &served.definition.names;
                let kind = format!("{}, Kind={}", names.api_version(), names.kind);
                served
                    .definition
                    .strategy
                    .unsupported_field_message()
                    .replace("{kind}", &kind)
                    .replace("{}", field)
            }
            false => format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \
                 \"metadata.namespace\""
            ),
        }));
    }
    let namespace = if namespaced { request.info.namespace.clone() } else { Text::default() };
    Ok(Selection { namespace, labels, fields })
}

/// Waits until this server's watch cache has reached a revision.
pub(crate) async fn wait_until_fresh(served: &ServedResource, revision: u64) -> Result<(), Status> {
    let objects = served.objects()?;
    if let Ok(()) = tokio::time::timeout(FRESHNESS_TIMEOUT, objects.wait_for(revision)).await {
        Ok(())
    } else {
        let ahead = store_status(&store::Error::FutureRevision { revision });
        let have = objects.progress_revision();
        let said = format!("Timeout: Too large resource version: {revision}, current: {have}");
        Err(ahead.with_message(said))
    }
}

/// Waits until the watch cache has everything that other API servers wrote to the same storage up
/// to now, if the request has no resourceVersion: such a read must be consistent.
pub(crate) async fn wait_for_latest(
    registry: &Registry,
    served: &ServedResource,
    query: &Query,
) -> Result<(), Status> {
    let any = query.get("resourceVersion").unwrap_or_default().is_empty();
    if any && registry.engine().has_external_writers() {
        let revision = registry.engine().latest_revision(&served.prefix("")).await;
        let revision = revision.map_err(|error| store_status(&error))?;
        wait_until_fresh(served, revision).await?;
    }
    Ok(())
}

/// The page of a list: limit, continue token and revision.
pub(crate) async fn page(
    served: &ServedResource,
    selection: &Selection,
    query: &Query,
) -> Result<ListOptions, Status> {
    let limit = query.integer("limit")?.unwrap_or_default();
    page_of(served, selection, query, limit).await
}

/// The page of a collection to delete. Without a limit it is the whole collection, in large pages.
pub(crate) async fn deleted_page(
    served: &ServedResource,
    selection: &Selection,
    query: &Query,
) -> Result<ListOptions, Status> {
    let limit = query.integer("limit")?.unwrap_or_default();
    let page = page_of(served, selection, query, if limit == 0 { 1 } else { limit }).await?;
    Ok(if limit == 0 { ListOptions { limit: 0, ..page } } else { page })
}

async fn page_of(
    served: &ServedResource,
    selection: &Selection,
    query: &Query,
    limit: i64,
) -> Result<ListOptions, Status> {
    let token = query.get("continue").unwrap_or_default().to_owned();
    let version = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    if !token.is_empty() && !is_any(version) {
        ContinueToken::decode(&token)?;
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    // Upstream ignores the limit for resourceVersion 0, which is answered from the watch cache;
    // resources with a TTL (events) have no watch cache.
    let cached = served.internal.ttl.is_none();
    let limit = if version == "0" && cached { 0 } else { limit };
    let shown = usize::try_from(limit).unwrap_or_default();
    if !token.is_empty() {
        return Ok(ListOptions { limit: shown, token, exact_revision: None });
    }
    let revision = number(version)?;
    wait_until_fresh(served, revision).await?;
    // Like upstream, a page with a resourceVersion is read at exactly that revision; a single
    // object selected by name is not paginated.
    let paged = matching.is_empty() && limit > 0 && path(served, selection).is_none();
    let exact = revision > 0 && (matching == "Exact" || paged);
    Ok(ListOptions { limit: shown, token, exact_revision: exact.then_some(revision) })
}

/// Opens a watch.
pub(crate) async fn watch(
    server: &Arc<Server>,
    served: &ServedResource,
    request: &Request,
) -> Result<Reply, Status> {
    let query = &request.query;
    let asked = query.integer("timeoutSeconds")?;
    let mut selection = selection(served, request)?;
    let name = &*request.info.name;
    if !name.is_empty() {
        if !selection.fields.is_empty() && selection.name() != Some(name) {
            let why = "fieldSelector metadata.name doesn't match requested name";
            return Err(Status::bad_request(why));
        }
        let one = format!("metadata.name={name}");
        selection.fields =
            FieldSelector::parse(&one).map_err(|error| Status::bad_request(error.to_string()))?;
    }
    let version = query.get("resourceVersion").unwrap_or_default();
    let bookmarks = query.flag("allowWatchBookmarks");
    let revision = revision(version)?;
    let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let start = match (initial, revision) {
        (Some(true), revision) => {
            wait_until_fresh(served, revision).await?;
            WatchStart::List { bookmark: bookmarks }
        }
        (None, 0) => WatchStart::List { bookmark: bookmarks && is_any(version) },
        (Some(false), 0) => WatchStart::After(served.objects()?.progress_revision()),
        (_, revision) => WatchStart::After(revision),
    };
    let form =
        negotiate(&request.head.headers, query, EndpointRestrictions::Watch)?.for_kind(served);
    let timeout = match asked.map_or(0, nanos) {
        0 => server.config.limits.watch_min.mul_f64(1.0 + random_fraction()),
        1.. => Duration::from_nanos(asked.map_or(0, nanos).unsigned_abs()),
        _ => {
            let late = Status::failure(500, "InternalError", "context deadline exceeded");
            return Ok(watch_body::error_watch(served, form, late));
        }
    };
    let watch = match server.registry.watch(served, selection, start) {
        Err(status) if status.code() == 410 => {
            return Ok(watch_body::error_watch(served, form, status));
        }
        watch => watch?,
    };
    let bell = server.bell();
    let clock = server.registry.clock().clone();
    let encodings = server.encodings.clone();
    let watched = server.metrics.watched(Labels::of(&request.info, "GET", true, false));
    let terms = WatchParams { form, bookmarks, timeout, bell, clock, encodings, watched };
    Ok(watch_body::reply(watch, terms))
}

/// Whether a resourceVersion is unset or 0. A watch that starts there begins with synthetic ADDED
/// events.
fn is_any(version: &str) -> bool {
    matches!(version, "" | "0")
}

/// Parses the resourceVersion of a list; 0 means any.
fn number(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = unparsed(text);
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: \
             strconv.ParseUint: parsing {text:?}: {why}"
        ))
    })
}

/// Validates the list options, as upstream does.
fn check(query: &Query) -> Result<(), Status> {
    let said = |name| query.get(name).unwrap_or_default();
    let (matching, version) = (said("resourceVersionMatch"), said("resourceVersion"));
    let mut errs = ErrorList::default();
    let at = FieldPath::Root.field("resourceVersionMatch");
    if !matching.is_empty() {
        if version.is_empty() {
            errs.forbidden(
                &at,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !said("continue").is_empty() {
            errs.forbidden(&at, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errs.not_supported(&at, matching, &["Exact", "NotOlderThan", ""]);
        } else if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errs.forbidden(&at, why);
        }
    }
    if query.get("sendInitialEvents").is_some() {
        let at = FieldPath::Root.field("sendInitialEvents");
        errs.forbidden(&at, "sendInitialEvents is forbidden for list");
    }
    refuse(&errs)
}

/// Validates the watch options, as upstream does.
fn check_watch(query: &Query) -> Result<(), Status> {
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let mut errs = ErrorList::default();
    let at = FieldPath::Root.field("resourceVersionMatch");
    let initial = query.get("sendInitialEvents").is_some();
    let begins = matching.is_empty() && is_any(query.get("resourceVersion").unwrap_or_default());
    if initial && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errs.forbidden(&at, why);
    }
    if !matching.is_empty() && !initial {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errs.forbidden(&at, why);
    }
    if !matches!(matching, "" | "NotOlderThan") {
        errs.not_supported(&at, matching, &["NotOlderThan"]);
    }
    let matched = !matching.is_empty() || begins && !initial;
    if matched && !query.get("continue").unwrap_or_default().is_empty() {
        errs.forbidden(&at, "resourceVersionMatch is forbidden when continue is provided");
    }
    refuse(&errs)
}

fn refuse(errs: &ErrorList) -> Result<(), Status> {
    if errs.is_empty() { Ok(()) } else { Err(errs.into_status("meta.k8s.io", "ListOptions", "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(checked: Result<(), Status>) -> String {
        checked.err().map(|status| status.message().to_owned()).unwrap_or_default()
    }

    #[test]
    fn a_list_matches_a_version_that_it_names() {
        let check = |query: &str| said(check(&Query::parse(query)));
        assert_eq!(check("resourceVersion=5&resourceVersionMatch=Exact"), "");
        assert_eq!(check("continue=x&resourceVersion=5"), "", "that is for the page to tell");
        assert!(check("resourceVersionMatch=Exact").contains("unless resourceVersion is provided"));
        let both = check("resourceVersionMatch=Some&continue=x&sendInitialEvents=1");
        for part in ["unless resourceVersion", "when continue", "\"Some\"", "forbidden for list"] {
            assert!(both.contains(part), "{part}: {both}");
        }
    }

    #[test]
    fn a_watch_from_anywhere_begins_with_what_there_is() {
        let check = |query: &str| said(check_watch(&Query::parse(query)));
        let continued = "resourceVersionMatch is forbidden when continue is provided";
        assert!(check("continue=x").contains(continued));
        assert!(check("continue=x&resourceVersion=0").contains(continued));
        assert_eq!(check("continue=x&resourceVersion=5"), "");
        assert!(check("resourceVersionMatch=NotOlderThan").contains("unless sendInitialEvents"));
        assert!(check("sendInitialEvents=false").contains("requires setting resourceVersionMatch"));
    }
}
