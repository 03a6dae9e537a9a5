//! The API versions that stored objects may have, served or not. An object with another group,
//! version or kind is not decoded.

use schema::{ResourceDefinition, ResourceNames};

/// Checks that a stored object's apiVersion and kind are compatible with `hub`; empty ones are.
pub(super) fn check(hub: &ResourceDefinition, api_version: &str, kind: &str) -> Result<(), String> {
    let names = &hub.names;
    if api_version.is_empty() || (kind == names.kind && api_version == names.api_version()) {
        return Ok(());
    }
    let kind = if kind.is_empty() { names.kind } else { kind };
    match (is_registered(hub, api_version), kind == names.kind) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("a {kind} is stored where there should be a {}", names.kind)),
        (false, _) => Err(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

/// Whether the kind is served in this version, or was once and can still be decoded.
fn is_registered(hub: &ResourceDefinition, api_version: &str) -> bool {
    let first_stable = ResourceNames { version: "v1", ..hub.names }.api_version();
    api_version == hub.names.api_version()
        || api_version == first_stable
        || hub.former_api_versions.contains(&api_version)
}
