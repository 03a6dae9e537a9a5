//! The names that a CRD gets: those it asks for, unless another has them.

use std::collections::HashSet;

use object::Lens;

use super::{CustomResourceDefinition, CustomResourceDefinitionNames};

/// What came of asking for names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamesResult {
    pub names: CustomResourceDefinitionNames,
    /// Reason and message, where a name was refused.
    pub conflict: Option<(&'static str, String)>,
}

/// The names that a CRD may have beside the `others` of its group.
pub fn accept_names<'a>(
    crd: &CustomResourceDefinition,
    others: impl Iterator<Item = &'a CustomResourceDefinition>,
) -> NamesResult {
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    for other in others {
        let names = other.status().accepted_names();
        resources.extend([names.plural(), names.singular()]);
        resources.extend(names.short_names().iter());
        kinds.extend([names.kind(), names.list_kind()]);
    }
    let (wanted, own) = (crd.spec().names(), crd.status().accepted_names());
    let mut names = own.clone();
    let mut refused = None;
    let free = |name: &str, own: &str, used: &HashSet<&str>| {
        let taken = name != own && used.contains(name);
        if taken { Err(format!("{name:?} is already in use")) } else { Ok(()) }
    };
    match free(wanted.plural(), own.plural(), &resources) {
        Ok(()) => names.set_plural(wanted.plural()),
        Err(why) => refused = Some(("PluralConflict", why)),
    }
    match free(wanted.singular(), own.singular(), &resources) {
        Ok(()) => names.set_singular(wanted.singular()),
        Err(why) => refused = Some(("SingularConflict", why)),
    }
    let mine: Vec<_> = own.short_names().iter().collect();
    let new = wanted.short_names().iter().filter(|name| !mine.contains(name));
    let errors: Vec<_> = new.filter_map(|name| free(name, "", &resources).err()).collect();
    match &*errors {
        [] => names.set_short_names(wanted.short_names().clone()),
        [one] => refused = Some(("ShortNamesConflict", one.clone())),
        many => refused = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    match free(wanted.kind(), own.kind(), &kinds) {
        Ok(()) => names.set_kind(wanted.kind()),
        Err(why) => refused = Some(("KindConflict", why)),
    }
    match free(wanted.list_kind(), own.list_kind(), &kinds) {
        Ok(()) => names.set_list_kind(wanted.list_kind()),
        Err(why) => refused = Some(("ListKindConflict", why)),
    }
    names.set_categories(wanted.categories().clone());
    debug_assert!(names.tree().is_object());
    NamesResult { names, conflict: refused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created_from_json;

    fn crd(plural: &str, kind: &str) -> CustomResourceDefinition {
        created_from_json(&format!(
            r#"{{"metadata":{{"name":"{plural}.example.com"}},"spec":{{"group":"example.com","scope":"Cluster",
            "names":{{"plural":"{plural}","kind":"{kind}"}},"versions":[{{"name":"v1","served":true,"storage":true}}]}}}}"#
        ))
    }

    #[test]
    fn a_name_goes_to_who_had_it_first() {
        let mut first = crd("things", "Thing");
        let given = accept_names(&first, std::iter::empty());
        assert_eq!((given.names.list_kind(), &given.conflict), ("ThingList", &None));
        first.status_mut().set_accepted_names(given.names);
        let second = accept_names(&crd("objects", "Thing"), std::iter::once(&first));
        assert_eq!(second.names.plural(), "objects");
        assert_eq!(second.names.kind(), "");
        let why = second.conflict.expect("the kind is taken");
        assert_eq!(why, ("ListKindConflict", "\"ThingList\" is already in use".to_owned()));
    }
}
