//! OpenAPI 3: one document for each group and version.

use object::Value;

use super::{VERSION, packages::Packages, paths::Paths, schemas::Schemas};
use crate::Definition;

/// The document of one group and version. `all` are the definitions of every group:
/// they tell to which group a type that many use belongs. Those without a plural are what
/// subresources take and give.
pub fn v3(all: &[Definition], group: &str, version: &str) -> Value {
    let of = |definition: &&Definition| {
        definition.names.group == group
            && definition.names.version == version
            && !definition.names.plural.is_empty()
    };
    let mine: Vec<_> = all.iter().filter(of).collect();
    document(all, &mine, &[(group, version)])
}

/// A document about these definitions.
pub(super) fn document(
    all: &[Definition],
    definitions: &[&Definition],
    versions: &[(&str, &str)],
) -> Value {
    let packages = Packages::of(all);
    let (mut schemas, mut paths) = (Schemas::new(&packages, all), Paths::default());
    for definition in definitions {
        schemas.kind(definition);
    }
    for definition in definitions {
        paths.kind(definition, &mut schemas);
    }
    for (group, version) in versions {
        paths.version(group, version);
    }
    schemas.common(versions);
    let mut document = Value::object();
    document["openapi"] = "3.0.0".into();
    document["info"]["title"] = "Kubernetes".into();
    document["info"]["version"] = VERSION.into();
    document["paths"] = paths.into_value();
    document["components"]["schemas"] = schemas.into_value();
    let token = &mut document["components"]["securitySchemes"]["BearerToken"];
    token["description"] = "A bearer token.".into();
    token["type"] = "apiKey".into();
    token["name"] = "authorization".into();
    token["in"] = "header".into();
    document
}
